# SPDX-License-Identifier: Apache-2.0
# The same seed gives the same run, with any number of threads; if an option is given twice, the last value is used.
run() { summary "$@" --data synthetic --steps 60; }
run first --seed 7 --threads 1
run again --seed 3 --seed 7 --threads=1
run other --seed 8 --threads 1
run two --seed 7 --threads 2
holds 'first_code == 0 && first_seed == 7 && first_loss == again_loss && first_initial_loss == again_initial_loss'
holds 'other_loss != first_loss && other_initial_loss != first_initial_loss'
holds 'two_code == 0 && two_loss == first_loss'

# --epochs and --steps: whichever ends first.
summary epochs --data synthetic --epochs 2 --batch 1024
holds 'epochs_steps == 16 && epochs_epochs == 2'
summary both --data synthetic --epochs 2 --steps 9 --batch 1024 --lr-schedule constant
holds 'both_steps == 9 && both_epochs == 2'
summary more --data synthetic --epochs 1 --steps 9 --batch 1024
holds 'more_steps == 8 && more_epochs == 1'
summary longer --data synthetic --epochs 2 --batch 16
holds 'longer_steps == 1024 && longer_epochs == 2'

# The linear schedule: its first step equals the constant schedule's, and in all it moves less.
for schedule in constant linear; do
    summary ${schedule}_1 --data synthetic --lr-schedule $schedule --steps 1 --lr 1e-3
    summary ${schedule}_9 --data synthetic --lr-schedule $schedule --steps 9 --lr 1e-3
done
holds 'linear_1_loss == constant_1_loss && linear_9_loss > constant_9_loss && linear_9_loss < linear_1_loss'

# AdamW is not Adam: it decays the weights.
for optimizer in adam adamw; do
    summary $optimizer --data synthetic --optimizer $optimizer --steps 20
done
holds 'adam_code == 0 && adamw_code == 0 && adam_loss != adamw_loss'

# --threads 1: no thread but the first; more: at least as many.
count_threads() {
    "$gradscaler" train --data synthetic --steps 1000000 --threads "$1" >/dev/null 2>&1 &
    count=0
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        sleep 0.2
        now=$(ls /proc/$!/task | wc -l)
        [ "$now" -gt "$count" ] && count=$now
        [ "$count" -ge 3 ] && break
    done
    kill $!
    wait $! 2>/dev/null
}
if [ -d /proc/self/task ]; then
    count_threads 1
    [ "$count" -eq 1 ] || echo "FAILED: --threads 1 gave $count threads"
    count_threads 3
    [ "$count" -ge 3 ] || echo "FAILED: --threads 3 gave $count threads"
else
    note_skipped 'threads are not counted: no /proc'
fi
