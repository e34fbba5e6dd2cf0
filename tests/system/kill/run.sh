#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GRADSCALER [KILLS]]: kills training runs that save after every step, with SIGKILL at random moments (the command
# of build/release, 200 kills). Each run is resumed from what the kill left: a checkpoint that does not load fails the test,
# and no save can hide it, since a run saves only after it has loaded. A finished run must be the same to the last bit as
# one that was never killed.
# cli_kill shows: resume 9
gradscaler=$(realpath "${1:-$(dirname "$0")/../../../build/release/cli/gradscaler}")
[ -x "$gradscaler" ] || { echo "usage: $0 [GRADSCALER [KILLS]]; there is no command $gradscaler" >&2; exit 2; }
kills=${2:-200}
most_ms=40        # longest time from a command's first step to its kill,
most_ms_early=150 # or, for one in five, from its start
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# The scale is too large at first and grows often, so that steps are skipped now and then.
options="--data synthetic --steps 300 --init-scale 1e13 --growth-interval 5 --threads 1 --seed 3"

fail() {
    echo "FAILED: $*"
    cat err
    find run -ls
    exit 1
}
steps_of() { sed 's/, "seconds": .*//' "$1/metrics.jsonl"; }
compare() {
    steps_of whole >steps_whole
    steps_of run >steps_run
    cmp steps_whole steps_run || fail "metrics.jsonl differs"
    for file in model.safetensors optimizer.safetensors scaler.json; do
        cmp whole/$file run/$file || fail "$file differs"
    done
}
# random BOUND: a random number below it
random() { echo $(($(od -An -N4 -tu4 /dev/urandom) % $1)); }
lines() { wc -l 2>/dev/null <run/metrics.jsonl || echo 0; }
wait_to_kill() {
    if [ "$(random 5)" = 0 ]; then
        sleep "0.$(printf %03d "$(random $most_ms_early)")"
        return
    fi
    until [ "$(lines)" -gt "$before" ] || ! kill -0 $pid 2>/dev/null; do :; done
    sleep "0.$(printf %03d "$(random $most_ms)")"
}

# shellcheck disable=SC2086
"$gradscaler" train $options --out whole >out 2>err || fail "the run that is not killed"
grep -q '"skipped"' whole/metrics.jsonl || fail "no step was skipped"
done=0 saving=0 finished=0 early=0
while [ "$done" -lt "$kills" ] || [ -e run ]; do
    before=$(lines)
    # Killed between the last file of the first checkpoint and the link to it: restored as --resume advises.
    [ -e run/run.json ] || [ ! -e run/checkpoint-0/run.json ] || ln -sfn checkpoint-0 run/checkpoint
    if [ -e run/checkpoint/run.json ]; then
        "$gradscaler" train --resume run >out 2>err &
    else
        # shellcheck disable=SC2086
        "$gradscaler" train $options --out run --checkpoint-every 1 >out 2>err &
    fi
    pid=$!
    if [ "$done" -lt "$kills" ]; then
        wait_to_kill
        kill -KILL $pid 2>/dev/null
    fi
    wait $pid 2>/dev/null
    code=$?
    case $code in
    0)
        compare
        rm -r run
        finished=$((finished + 1))
        ;;
    137)
        done=$((done + 1))
        [ -e run/run.json ] || early=$((early + 1))
        ls run/checkpoint-*/.*.tmp run/.checkpoint.tmp >leftovers 2>/dev/null
        [ -s leftovers ] && saving=$((saving + 1))
        ;;
    *) fail "exit code $code after $done kills" ;;
    esac
done
[ "$saving" -gt 0 ] || [ "$kills" -lt 50 ] || fail "no kill met a file that was being written"
echo "$done kills, $saving of them while a file was being written, $early before the first checkpoint;" \
    "$finished runs came to their end, each as if never killed"
