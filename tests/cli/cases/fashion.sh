# SPDX-License-Identifier: Apache-2.0
# One epoch of Fashion-MNIST, if it is installed.
[ -e "${GRADSCALER_DATA:-/usr/share/datasets}/fashion-mnist/train-images-idx3-ubyte.gz" ] || skip 'Fashion-MNIST is not installed'
summary fashion --epochs 1
holds 'fashion_code == 0 && fashion_data == "fashion-mnist" && fashion_model == "mlp" && fashion_precision == "fp16"'
holds 'fashion_steps + fashion_skipped == 469 && fashion_growths >= 3'
holds 'fashion_initial_loss > 2.2 && fashion_loss < 0.5 && fashion_accuracy > 0.8 && fashion_accuracy < 1'
holds 'fashion_peak_rss_mb < 500'
summary clipped --steps 100 --precision bf16 --scaler off --clip-norm 0.5 --optimizer sgd --lr 0.1
holds 'clipped_code == 0 && clipped_loss < 0.8 * clipped_initial_loss && clipped_final_scale == 1'
