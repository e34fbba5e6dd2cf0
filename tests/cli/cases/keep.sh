# SPDX-License-Identifier: Apache-2.0
# --out and --resume: what is refused, what may change, and what a failed run leaves.
# cli_keep shows: trial T31
run() {
    echo "\$ gradscaler train $*"
    "$gradscaler" train "$@" >out 2>err
    code=$?
    sed -e 's/CRC-32 is .*/CRC-32 is X/' -e 's/checksum [0-9a-f]*/checksum X/' -e 's/with [0-9a-f]*;/with X;/' \
        -e 's/^/! /' err
    echo "exit $code"
}
steps_of() { sed 's/, "seconds": .*//' "$1/metrics.jsonl"; }
same() {
    steps_of "$1" >steps_1
    steps_of "$2" >steps_2
    cmp steps_1 steps_2 && cmp "$1/model.safetensors" "$2/model.safetensors" && echo "$1 and $2: the same"
}
same_model() { cmp "$1/model.safetensors" "$2/model.safetensors" && echo "$1 and $2: the same model"; }

run --data synthetic --steps 6 --lr-schedule constant --out six
run --data synthetic --steps 9 --lr-schedule constant --out nine
run --data synthetic --steps 6 --out linear

# Saving a run does not change its numbers.
summary plain --data synthetic --steps 9 --lr-schedule constant
summary kept --data synthetic --steps 9 --lr-schedule constant --out again
holds 'plain_loss == kept_loss && plain_initial_loss == kept_initial_loss'
same nine again

# Each line is JSON, from step 1 on, with these keys.
sed -n '1s/: [^,}]*/: X/gp' nine/metrics.jsonl
wc -l <nine/metrics.jsonl

# Folders that --out refuses.
run --data synthetic --steps 6 --out six
run --data synthetic --steps 6 --out no/such
mkdir mine lines
echo precious >mine/model.safetensors
echo precious >lines/metrics.jsonl
run --data synthetic --steps 6 --out mine
run --data synthetic --steps 6 --out lines
cat mine/* lines/*
ls mine lines
run --data synthetic --steps 6 --out mine/model.safetensors
mkdir device && ln -s /dev/null device/metrics.jsonl
run --data synthetic --steps 6 --out device

# Folders that --resume refuses.
run --resume nowhere
run --resume lines

# A copy without the symbolic links.
cp -a six unlinked
find unlinked -type l -exec rm {} +
rm unlinked/metrics.jsonl
before=$(cat unlinked/*/* | cksum)
run --data synthetic --steps 6 --out unlinked
run --resume unlinked
[ "$before" = "$(cat unlinked/*/* | cksum)" ] && ls unlinked
sh -c "$(sed -n 's/.*: \(ln .*\)/\1/p' err)"
readlink unlinked/checkpoint
run --resume unlinked --out relinked --steps 9
same_model relinked nine
mv unlinked/checkpoint-1 away
run --resume unlinked
rm unlinked/checkpoint-0/run.json
run --resume unlinked
run --data synthetic --steps 6 --out unlinked
cp -r six torn
head -c 100 six/run.json >torn/checkpoint/run.json
run --resume torn
cp -r six damaged
printf x | dd of=damaged/checkpoint/model.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
run --resume damaged --steps 9

# run.json is a folder: the run's link, the checkpoint's file, or something else. Only what would work is suggested.
cp -a six blocked
rm blocked/run.json
mkdir blocked/run.json
echo 'a line behind the checkpoint' >>blocked/metrics.jsonl
cp blocked/metrics.jsonl metrics_before
run --resume blocked --steps 9
cmp blocked/metrics.jsonl metrics_before && echo 'the metrics are as they were'
rmdir blocked/run.json
run --resume blocked --steps 9
same blocked nine
rm blocked/checkpoint/run.json
mkdir blocked/checkpoint/run.json
run --resume blocked
run --data synthetic --steps 6 --out blocked
mkdir -p foreign/run.json
run --resume foreign
run --data synthetic --steps 6 --out foreign

# Options beside --resume.
run --resume six --lr 0.01
run --resume six --clip-norm 1
run --resume six --precision bf16
run --resume linear --steps 9
run --resume six --steps 3
run --resume six --seed 0 --lr 5e-2 --steps 6 --threads 1 --checkpoint-every 2

# A finished run.
run --resume linear
run --resume linear --json
run --resume linear --out linear/

# A longer run, and one that continues in another folder.
run --resume six --out branch --steps 9
same branch nine
run --resume six --steps 9
same six nine

# Missing lines.
cp -r again lost
sed -i 3,9d lost/metrics.jsonl
run --resume lost --steps 12
steps_of lost | sed 's/, .*/}/' | tr '\n' ' '
echo

# Other data.
byte() { printf "\\$(printf %03o "$1")"; }
number() { byte 0; byte 0; byte 0; byte "$1"; }
mkdir set
for kind in train t10k; do
    { byte 0; byte 0; byte 8; byte 3; number 10; number 2; number 2; head -c 40 /dev/zero; } >set/$kind-images-idx3-ubyte
    { byte 0; byte 0; byte 8; byte 1; number 10; head -c 10 /dev/zero; } >set/$kind-labels-idx1-ubyte
done
run --data set --batch 5 --steps 4 --out of_set
mv set moved
run --resume of_set
run --resume of_set --data moved
printf b | dd of=moved/train-images-idx3-ubyte bs=1 seek=20 conv=notrunc 2>/dev/null
run --resume of_set --data moved
run --resume of_set --data synthetic

# One run at a time.
if command -v flock >/dev/null; then
    flock of_set/metrics.jsonl "$gradscaler" train --resume of_set --data moved 2>&1
else
    echo 'gradscaler: of_set: another run is writing into this folder; wait for its end or stop it'
fi

# A full disk, imitated by a limit on the size of files.
(
    trap '' XFSZ
    ulimit -f 12
    run --data synthetic --steps 500 --checkpoint-every 10 --out full
) | sed 's/step [0-9]*/step N/'
run --resume full
summary whole --data synthetic --steps 500 --out whole
same full whole

# The run is paused between two checkpoints, while its folder is removed; metrics.jsonl is removed, and with it the lock;
# the folder is replaced by another one.
freeze() {
    "$gradscaler" train --data synthetic --steps 10000000 --checkpoint-every 2000 --out "$1" 2>err >out &
    until [ -s "$1/metrics.jsonl" ] || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
    kill -STOP $!
}
go_on() {
    kill -CONT $!
    wait $!
    echo "exit $?"
    sed 's/step [0-9]*/step N/' err
}
freeze gone
mv gone elsewhere
go_on
[ -f elsewhere/run.json ] && echo 'the last checkpoint is there'
freeze taken
rm taken/metrics.jsonl
go_on
freeze swapped
mv swapped swapped_away
mkdir swapped
go_on
ls -A swapped

# A folder that cannot be written. Root may write everywhere.
if [ "$(id -u)" != 0 ]; then
    chmod a-w elsewhere
    "$gradscaler" train --resume elsewhere >out 2>err && echo 'FAILED: wrote into a read-only folder'
    chmod u+w elsewhere
fi
