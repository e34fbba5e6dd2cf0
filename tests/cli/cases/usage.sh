# SPDX-License-Identifier: Apache-2.0
# Every kind of wrong command line: one line on stderr, exit 2, nothing on stdout.
show
show tarin
show --version now

show train --nope
show train --nope=1
show train extra
show train -x
show train --
show train --json=yes
show train --json yes

show train --lr
show train --lr --json
show train --lr=
show train --lr abc
show train --lr 1e-3x
show train --lr ' 1'
show train --lr 1,5
show train --lr nan
show train --lr inf
show train --lr -1
show train --lr 1e400
show train --lr 1e-400
show train --batch 0
show train --batch 1.5
show train --batch 1e3
show train --epochs 0
show train --steps -5
show train --seed -1
show train --seed 99999999999999999999
show train --threads -1
show train --clip-norm 0
show train --out=
show train --resume
show train --checkpoint-every 0

show train --precision fp8
show train --scaler on
show train --optimizer lion
show train --lr-schedule cosine
show train --model cnn
show train --data=

show train --init-scale 0
show train --init-scale 1e39
show train --growth-factor 1
show train --growth-factor inf
show train --backoff-factor 1
show train --backoff-factor 0
show train --growth-interval 0
show train --min-scale 1e-40
show train --max-scale inf
show train --hysteresis 0
show train --max-consecutive-skips -1

# Options that are right by themselves, but not together.
show train --data synthetic --scaler off --init-scale 3
show train --data synthetic --scaler off --max-consecutive-skips 3
for option in growth-factor=2 backoff-factor=0.5 growth-interval=3 min-scale=1 max-scale=1e9 hysteresis=2; do
    show train --data synthetic --scaler static --$option
done
show train --data synthetic --min-scale 1e6
show train --data synthetic --max-scale 5
show train --data synthetic --min-scale 4 --init-scale 2
show train --data synthetic --clip-norm 1
show train --data synthetic --batch 10000
show train --data synthetic --checkpoint-every 5
