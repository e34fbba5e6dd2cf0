# SPDX-License-Identifier: Apache-2.0
# SIGINT and SIGTERM at each moment of a run. The process is frozen when it reaches the moment. If it has passed the moment
# before it stands still, it is started again. So each signal arrives at its moment.
env --default-signal=INT true 2>/dev/null || skip 'env has no --default-signal'
[ -r /proc/self/stat ] || skip 'no /proc'

byte() { printf "\\$(printf %03o "$1")"; }
number() { for shift in 24 16 8 0; do byte $(($1 >> shift & 255)); done; }
mkdir set
for kind in train:4000 t10k:10; do
    count=${kind#*:}
    kind=${kind%:*}
    { number 2051 && number "$count" && number 28 && number 28 && yes | head -c $((count * 784)); } |
        gzip >set/$kind-images-idx3-ubyte.gz
    { number 2049 && number "$count" && head -c "$count" /dev/zero; } >set/$kind-labels-idx1-ubyte
done
settings="--data set --batch 50 --steps 40 --threads 1"

# The moments of the process $pid, which saves its run in `run`.
loading() {
    for file in /proc/"$pid"/fd/*; do
        [ "$file" -ef set/train-images-idx3-ubyte.gz ] && return
    done
    return 1
}
measuring() { [ -e run/metrics.jsonl ] && [ ! -d run/checkpoint-0 ]; }
saving() { [ -d run/checkpoint-0 ] && [ ! -e run/run.json ]; }
training() { [ -s run/metrics.jsonl ] && [ "$(wc -l <run/metrics.jsonl)" -lt 40 ]; }
evaluating() { [ run/checkpoint -ef run/checkpoint-1 ]; } # in a new run: its second checkpoint is the last
evaluating_after_a_word() { [ -s err ]; }

state() { # R, S: runs; T: frozen; Z: ended
    read -r _ _ letter _ 2>/dev/null <"/proc/$pid/stat" || letter=Z
    [ "$letter" = "$1" ]
}

# catch MOMENT ARGUMENT...: starts a process and freezes it at the moment. $kept: the folder that it resumes; $stdout.
catch() {
    moment=$1
    shift
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        rm -rf run err
        [ -z "$kept" ] || cp -a "$kept" run
        env --default-signal=INT,TERM "$gradscaler" train "$@" >"$stdout" 2>err &
        pid=$!
        [ "$stdout" = out ] || : <"$stdout" # a reader that exits at once
        until $moment || state Z; do :; done
        kill -STOP $pid 2>/dev/null
        until state T || state Z; do :; done
        state T && $moment && return
        kill -KILL $pid 2>/dev/null
        wait $pid 2>/dev/null
    done
    echo "FAILED: never seen $moment"
    return 1
}

# stop SIGNAL... MOMENT ARGUMENT...: prints the outcome.
stop() {
    signals=
    while [ "$1" = TERM ] || [ "$1" = INT ]; do
        signals="$signals $1"
        shift
    done
    catch "$@" || return
    for signal in $signals; do kill "-$signal" $pid; done
    kill -CONT $pid
    wait $pid 2>/dev/null
    echo "$moment,$signals: exit $?"
    [ "$stdout" = pipe ] || cat out
    sed -e 's/after step [1-9] of/after step N of/' -e 's/after step [123][0-9] of/after step N of/' -e 's/^/! /' err
}

summary_of() { sed 's/, "images_per_s.*//' "$1"; }
# To the end, as if never stopped.
go_on() {
    "$gradscaler" train --resume run --json >out 2>err || cat err
    sed 's/, "seconds.*//' run/metrics.jsonl >steps
    summary_of out >told
    cmp whole.steps steps && cmp whole.told told && cmp whole/model.safetensors run/model.safetensors &&
        cmp whole/optimizer.safetensors run/optimizer.safetensors && cmp whole/scaler.json run/scaler.json &&
        echo "goes on to the same end"
}
# shellcheck disable=SC2086
"$gradscaler" train $settings --out whole --json >out 2>err || cat err
summary_of out >whole.told
sed 's/, "seconds.*//' whole/metrics.jsonl >whole.steps

# shellcheck disable=SC2086
{
    kept=
    stdout=out
    for moment in loading measuring saving training evaluating; do
        stop TERM $moment $settings --out run
        [ $moment = loading ] && rm -rf begun && cp -a run begun
        go_on
    done
    stop INT loading $settings --out run --json
    stop INT evaluating $settings --out run --json
    go_on

    echo "A reader that went away:"
    mkfifo pipe
    stdout=pipe
    stop TERM loading $settings --out run --json
    stop TERM evaluating $settings --out run
    go_on
    stdout=out

    echo "With --resume:"
    kept=begun
    for moment in loading training; do
        stop INT $moment --resume run --json
        go_on
    done
    kept=whole # it says that this run is finished
    stop TERM evaluating_after_a_word --resume run
    go_on
    kept=

    echo "A second signal:"
    for moment in measuring saving; do
        stop INT TERM $moment $settings --out run
        [ -e run/run.json ] && echo "FAILED: a checkpoint of a run that was stopped at once"
    done
    stop INT TERM evaluating $settings --out run
    go_on

    # Skipped steps are reported at the end of the training.
    echo "Without --out:"
    rm -r run
    stop INT loading $settings
    stop TERM loading $settings --json
    stop TERM evaluating_after_a_word $settings --init-scale 1e30 --steps 3 --json
    [ ! -e run ] || echo "FAILED: something is kept"
}
