# SPDX-License-Identifier: Apache-2.0
# metrics.jsonl with lines of something else, torn, doubled or cut off: nothing is lost, and it is said.
# cli_metrics shows: trial T38
run() { show "$@" | grep -v '^[a-z].*  '; } # without the summary
steps_of() { sed -n 's/^{"step": \([0-9]*\), .*/\1/p' "$1" | tr '\n' ' '; echo; }
"$gradscaler" train --data synthetic --threads 1 --lr-schedule constant --steps 12 --checkpoint-every 6 --out run >out 2>err
"$gradscaler" train --resume run --steps 16 --out whole >out 2>err
steps_of whole/metrics.jsonl

# An unknown line, an own one that lost its end, one that came twice, a step that is missing, and a line that was being
# written.
spoil() {
    awk 'NR == 3 { print "a note of mine" } NR == 5 { print substr($0, 1, 40); next } NR == 8 { print } NR == 9 { next }
        { print }' whole/metrics.jsonl | head -n 14 | cat - ends >"$1/metrics.jsonl"
}
printf '{"step": 1' >ends
for name in here there; do cp -a run $name; done
spoil here
cp here/metrics.jsonl spoiled
run train --resume here --steps 16
steps_of here/metrics.jsonl
cut -c 1-15 here/metrics.jsonl.aside
sort -u spoiled >all
sort -u here/metrics.jsonl here/metrics.jsonl.aside >kept
sed 's/, "seconds.*//' all >all_steps # the steps after the checkpoint were made again
sed 's/, "seconds.*//' kept | sort -u | comm -23 all_steps - | wc -l
cmp here/model.safetensors whole/model.safetensors && echo 'the same model'

# In another folder the first one stays as it is.
spoil there
run train --resume there --steps 16 --out other
steps_of other/metrics.jsonl
cmp there/metrics.jsonl spoiled && ls there other | grep aside

# The run is finished: nothing is written, so nothing is moved.
spoil run
run train --resume run
cmp run/metrics.jsonl spoiled && ls run | grep -c aside

# Where the lines cannot be kept aside, nothing is cut.
mkdir run/metrics.jsonl.aside
run train --resume run --steps 16
cmp run/metrics.jsonl spoiled && echo 'not changed'

# 100 lines, one of them foreign.
"$gradscaler" train --data synthetic --threads 1 --lr-schedule constant --steps 100 --out hundred >out 2>err
sed -i '10s/.*/# restarted/' hundred/metrics.jsonl
"$gradscaler" train --resume hundred --steps 101 >out 2>err
wc -l <hundred/metrics.jsonl
cat err hundred/metrics.jsonl.aside

# Another program cuts the file, or adds to it, while the run writes.
freeze() {
    rm -rf live
    "$gradscaler" train --data synthetic --threads 1 --steps 3000 --out live >out 2>err &
    until [ -s live/metrics.jsonl ] || ! kill -0 $! 2>/dev/null; do sleep 0.01; done
    kill -STOP $!
    sleep 0.2 # until it stands still
}
go_on() {
    kill -CONT $!
    wait $!
    echo "exit $?, $(tr -d '\0' <live/metrics.jsonl | cmp - live/metrics.jsonl && echo 'no holes')"
    sed 's/ [0-9][0-9]*\([: ]\)/ N\1/g' err
    tail -n 1 live/metrics.jsonl | cut -c 1-13
}
freeze
: >live/metrics.jsonl
go_on
freeze
whole=$(head -n "$(wc -l <live/metrics.jsonl)" live/metrics.jsonl | wc -c) # the last line may be written in part
truncate -s $((whole - 5)) live/metrics.jsonl
go_on
grep -vc '}$' live/metrics.jsonl
freeze
printf 'a note' >>live/metrics.jsonl
go_on
grep '^a note$' live/metrics.jsonl
