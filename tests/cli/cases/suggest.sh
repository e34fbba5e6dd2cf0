# SPDX-License-Identifier: Apache-2.0
# What was meant: commands, options of other programs, typing errors, data that are not a folder; help by name.
# cli_suggest shows: trial T16
show trian
show tarin --lr 1
show version
show -V
show --lr 1 train
show Help
show nothing-like-it
show help
show help train | head -n 3
show help trian
show help train now

for option in batch-size=64 batch_size=64 Batch=64 learning-rate epoch max_grad_norm=1 optimiser loss-scale fp16 adamw \
    checkpoint random_seed dataset max-step hepl nope; do
    show train --$option
done
show train -lr 0.1
show train -b 64
show train synthetic
show train lr=0.1
show train synthetik

: >train.csv
show train --data train.csv
mkdir empty
show train --data empty
show train --data fashion_mnist

# No message of the command names a function of C.
"$gradscaler" train --data synthetic --scaler static --init-scale 1e30 >out 2>err
echo "exit $?"
grep gsc_ err || echo 'no gsc_'
