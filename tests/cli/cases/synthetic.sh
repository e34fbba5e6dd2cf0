# SPDX-License-Identifier: Apache-2.0
# The synthetic data: learned in float32, not in float16, but in float16 with a scaler.
summary fp32 --data synthetic --precision fp32
holds 'fp32_code == 0 && fp32_loss < 0.2 * fp32_initial_loss && fp32_accuracy == "null"'
holds 'fp32_steps == 600 && fp32_skipped == 0 && fp32_epochs == 19'
holds 'fp32_growths == 12 && fp32_final_scale == 65536 * 2 ^ 12'

summary off --data synthetic --scaler off
holds 'off_code == 0 && off_loss > 0.99 * off_initial_loss && off_steps == 600'
holds 'off_final_scale == 1 && off_growths == 0 && off_backoffs == 0'

summary dynamic --data synthetic
holds 'dynamic_code == 0 && dynamic_precision == "fp16" && dynamic_scaler == "dynamic"'
holds 'dynamic_loss - fp32_loss < 0.05 * fp32_initial_loss && fp32_loss - dynamic_loss < 0.05 * fp32_initial_loss'

summary fixed --data synthetic --scaler static --init-scale 1048576
holds 'fixed_code == 0 && fixed_loss - fp32_loss < 0.05 * fp32_initial_loss && fp32_loss - fixed_loss < 0.05 * fp32_initial_loss'
holds 'fixed_final_scale == 1048576 && fixed_growths == 0 && fixed_backoffs == 0'

summary adam --data synthetic --optimizer adam --lr 0.01 --precision bf16
holds 'adam_code == 0 && adam_loss < 0.2 * adam_initial_loss'
