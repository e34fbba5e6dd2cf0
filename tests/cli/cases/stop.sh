# SPDX-License-Identifier: Apache-2.0
# SIGINT and SIGTERM: the first one stops the run in order, a second one at once.
# cli_stop shows: resume 8
settings="--data synthetic --init-scale 1e13 --growth-interval 20"
told() { sed -e '/skipped steps$/d' -e 's/after step [0-9]*/after step N/' -e 's/^/! /' err; }
start() { # waits until it trains; the command's standard output and error go to files
    # shellcheck disable=SC2086
    env --default-signal=INT,TERM "$gradscaler" train "$@" >out 2>err &
    pid=$!
    until [ -s run/metrics.jsonl ] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
}
env --default-signal=INT true 2>/dev/null || skip 'env has no --default-signal'

for signal in TERM INT; do
    # shellcheck disable=SC2086
    start $settings --steps 5000 --out run
    kill -$signal $pid
    wait $pid
    echo "$signal: exit $?, $(wc -c <out) bytes on stdout"
    told
    [ "$(wc -l <run/metrics.jsonl)" -lt 5000 ] || echo "FAILED: it was not stopped"
    "$gradscaler" train --resume run >out 2>err
    echo "resumed: exit $?"
    mv run "run_$signal"
done
# shellcheck disable=SC2086
"$gradscaler" train $settings --steps 5000 --out run >out 2>err
for signal in TERM INT; do
    for file in model.safetensors optimizer.safetensors scaler.json; do cmp "run/$file" "run_$signal/$file"; done
    sed 's/, "seconds.*//' run/metrics.jsonl >whole
    sed 's/, "seconds.*//' run_$signal/metrics.jsonl | cmp - whole && echo "$signal: as if it had not been stopped"
done
rm -r run

# Both at once: the first one is recorded, the second one ends the command, and the last checkpoint stays.
# shellcheck disable=SC2086
start $settings --steps 5000 --out run
kill -STOP $pid
kill -INT $pid
kill -TERM $pid
kill -CONT $pid
wait $pid 2>/dev/null
echo "both: exit $?"
told
"$gradscaler" train --resume run >out 2>err
echo "resumed: exit $?"
cmp run/model.safetensors run_INT/model.safetensors

# Without --out. The first overflows are reported during training.
: >err
# shellcheck disable=SC2086
"$gradscaler" train $settings --steps 100000000 >out 2>err &
pid=$!
until [ -s err ] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -TERM $pid
wait $pid 2>/dev/null
echo "without --out: exit $?, $(wc -c <out) bytes on stdout"
told

# A signal that is ignored at the start, like SIGINT in a shell's background, stays ignored.
rm -r run
# shellcheck disable=SC2086
(trap '' INT; exec "$gradscaler" train $settings --steps 1000 --out run >out 2>err) &
pid=$!
until [ -s run/metrics.jsonl ] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -INT $pid
wait $pid
echo "ignored: exit $?, $(wc -l <run/metrics.jsonl) steps"
