# SPDX-License-Identifier: Apache-2.0
# A run that is killed and resumed is the same to the last bit as one that was never stopped: every precision, optimizer
# and number of threads, with a skipped step just before and just after the checkpoint, which is within an epoch.
# cli_resume shows: resume 7
byte() { printf "\\$(printf %03o "$1")"; }
number() { byte 0; byte 0; byte $(($1 / 256)); byte $(($1 % 256)); } # big-endian, below 65536
some_bytes() {
    # shellcheck disable=SC2059
    printf "$(awk -v n="$1" 'BEGIN { x = 1; while (n--) { x = x * 16807 % 2147483647; printf "\\%03o", x % 256 } }')"
}
images() { byte 0; byte 0; byte 8; byte 3; number "$1"; number 2; number 2; some_bytes $(($1 * 4)); }
labels() {
    byte 0; byte 0; byte 8; byte 1; number "$1"
    for i in $(seq "$1"); do byte $((i * 7 % 10)); done
}
mkdir set
images 70 >set/train-images-idx3-ubyte
labels 70 >set/train-labels-idx1-ubyte
images 20 >set/t10k-images-idx3-ubyte
labels 20 >set/t10k-labels-idx1-ubyte

# train ARGUMENT...: keeps the summary without what depends on time and place.
train() {
    "$gradscaler" train --json "$@" >out 2>err || { echo "FAILED: $*"; cat err; }
    sed 's/, "images_per_s.*//' out
}
steps_of() { sed 's/, "seconds": .*//' "$1/metrics.jsonl"; }
same_files() {
    steps_of "$1" >steps_1
    steps_of "$2" >steps_2
    cmp steps_1 steps_2
    for file in model.safetensors optimizer.safetensors scaler.json; do cmp "$1/$file" "$2/$file"; done
}

# killed_at STEP ARGUMENT...: makes the folder of a run that was killed after the checkpoint of this step: the checkpoint
# before the last is current, and metrics.jsonl is ahead of it.
killed_at() {
    step=$1
    shift
    train --checkpoint-every "$step" --out cut "$@" >/dev/null
    case $(readlink cut/checkpoint) in
    checkpoint-0) ln -sfn checkpoint-1 cut/checkpoint ;;
    checkpoint-1) ln -sfn checkpoint-0 cut/checkpoint ;;
    esac
    grep -q "\"step\": $step," cut/run.json || echo "FAILED: the checkpoint is not of step $step"
    printf '{"step": 4' >>cut/metrics.jsonl # a line that was being written
}

check() {
    name=$1
    shift
    train --out whole --threads 1 "$@" >whole_summary
    skip=$(sed -n '21,39s/.*"step": \([0-9]*\),.*"skipped".*/\1/p' whole/metrics.jsonl | head -n 1)
    [ "$skip" ] || echo "FAILED: $name: no step in the second half was skipped"
    for threads in 1 2; do
        for step in "$skip" $((skip - 1)); do
            killed_at "$step" --threads $threads "$@"
            train --resume cut >cut_summary
            cmp whole_summary cut_summary
            same_files whole cut
            rm -r cut
        done
    done
    rm -r whole
    echo "$name: the same"
}

# The scale grows at every step, so that steps overflow again and again; float32 and bfloat16 have a wide range, so they
# also need a learning rate that keeps the gradients large.
for precision in fp16 fp32 bf16; do
    for optimizer in sgd adam adamw; do
        set -- --precision $precision --optimizer $optimizer --data set --batch 16 --steps 40 --growth-interval 1
        case $precision in
        fp16) check "$precision $optimizer" "$@" --init-scale 1e7 ;;
        *) check "$precision $optimizer" "$@" --init-scale 3e38 --lr 10 --lr-schedule constant ;;
        esac
    done
done
check 'hysteresis and clipping' --data set --batch 16 --steps 40 --growth-interval 3 --hysteresis 2 --init-scale 1e7 \
    --clip-norm 0.5 --lr-schedule constant
check 'synthetic' --data synthetic --steps 40 --growth-interval 1 --init-scale 1e13
check 'static scale, skipping now and then' --data set --batch 16 --steps 40 --scaler static --init-scale 3e4 --lr 0.05
