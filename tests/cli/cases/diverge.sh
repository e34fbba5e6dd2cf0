# SPDX-License-Identifier: Apache-2.0
# Runs that diverge end early, say why and since when, and leave the last checkpoint whose weights are finite.
# cli_diverge shows: trial T9, T25, T42
run() { # as show, without the numbers that depend on the machine's rounding
    show "$@" | sed -e 's/[0-9]* inf, [0-9]* nan/N inf, N nan/g' -e 's/to [0-9.e+-]*; grad/to X; grad/' \
        -e '/skipped steps$/d'
}
diverges() { run "$@" | sed -e 's/step [0-9]*/step N/g' -e 's/[0-9.]* to [0-9.e+-]* in [0-9]*/X to X in N/'; }
# whole DIR: the checkpoint is the one that the message spoke of, and a new process goes on from it.
whole() {
    step=$(sed -n 's/.*the checkpoint of step \([0-9]*\) is intact.*/\1/p' err)
    grep -q "\"step\": $step," "$1/run.json" || echo "FAILED: the checkpoint of $1 is not of step $step"
    [ "$(wc -l <"$1/metrics.jsonl")" -gt "$step" ] || echo "FAILED: no step after the checkpoint of $1"
    "$gradscaler" train --resume "$1" >/dev/null 2>err
    grep -q "in the checkpoint" err && { echo "FAILED: its weights are not finite"; cat err; }
    grep -c 'since step\|after step' err
}

# Finite gradients of an infinite loss ruin the weights after a few steps.
for every in 5 1000; do
    diverges train --data synthetic --precision bf16 --lr 3.5 --steps 200 --threads 1 --checkpoint-every $every --out z$every
    whole z$every
    [ "$(wc -l <z$every/metrics.jsonl)" -lt 118 ] || echo 'FAILED: it went on'
done

# A loss that is not finite, with finite weights: the default limit of 100 skipped steps in a row.
diverges train --data synthetic --lr 30 --lr-schedule constant --steps 140 --threads 1 --out x
whole x
[ "$(grep -c '"skipped"' x/metrics.jsonl)" -ge 100 ] || echo 'FAILED: it gave up before'

# A finite loss: the scale is too large. Another limit, none, and the run's own limit on --resume.
run train --data synthetic --scaler static --init-scale 1e30 --threads 1
run train --data synthetic --init-scale 1e30 --max-consecutive-skips 7 --checkpoint-every 5 --threads 1 --out w
run train --resume w
run train --resume w --max-consecutive-skips 12
summary none --data synthetic --scaler static --init-scale 1e30 --max-consecutive-skips 0 --steps 140
holds 'none_code == 0 && none_skipped == 140 && none_last_overflow == 140'

# Every second step overflows: never many in a row, but too large a share.
often="--data synthetic --init-scale 1e13 --growth-interval 1 --threads 1 --steps 80"
# shellcheck disable=SC2086
{
    summary often $often | grep -v "skipped steps$"
    holds 'often_code == 0 && often_skipped > 35'
    run train $often --skip-window 20 --max-skip-share 0.4 --out v
    whole v
    summary seldom $often --skip-window 20 --max-skip-share 0.7 | grep -v "skipped steps$"
    holds 'seldom_code == 0 && seldom_loss == often_loss && seldom_skipped == often_skipped'
    "$gradscaler" train --resume v --skip-window 0 >out 2>err
    echo "without the window: exit $?"
    wc -l <v/metrics.jsonl
}

# With --hysteresis-until-growth a clean step does not restore the credit, so that later overflows lower the scale at once.
hysteresis="--data synthetic --init-scale 1e13 --growth-interval 4 --hysteresis 3 --steps 100 --threads 1"
# shellcheck disable=SC2086
{
    summary clean $hysteresis | grep -v "skipped steps$"
    summary growth $hysteresis --hysteresis-until-growth --out u | grep -v "skipped steps$"
    holds 'clean_code == 0 && growth_code == 0 && growth_skipped < clean_skipped'
    show train --resume u --hysteresis-until-growth --json | grep -c '"steps"'
    show train --resume v --hysteresis-until-growth
}
