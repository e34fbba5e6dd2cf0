# SPDX-License-Identifier: Apache-2.0
# Scales that are too large: recovery, giving up, warnings, and runs that diverge.
summary huge --data synthetic --init-scale 1e30
holds 'huge_code == 0 && huge_skipped > 40 && huge_backoffs == huge_skipped && huge_steps + huge_skipped == 600'
holds 'huge_loss < 0.2 * huge_initial_loss'
summary stuck --data synthetic --scaler static --init-scale 1e30 --steps 5
holds 'stuck_code == 0 && stuck_steps == 0 && stuck_skipped == 5 && stuck_loss == stuck_initial_loss'
summary late --data synthetic --init-scale 1e30 --hysteresis 3 --steps 4
holds 'late_code == 0 && late_skipped == 4 && late_backoffs == 2'
summary limits --data synthetic --init-scale 8 --max-scale 16 --growth-interval 2 --growth-factor 1.5 --steps 8
holds 'limits_code == 0 && limits_growths == 1 && limits_final_scale == 12'
show train --data synthetic --json --scaler static --init-scale 1e30 --max-consecutive-skips 3
show train --data synthetic --json --precision fp32 --scaler off --lr 1e6
