#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A program that is linked with the CUDA module starts on a machine without a GPU, and says what is missing and what to do;
# and libgradscaler's own needs are what they were. Where there is a GPU, it is hidden.
. "$(dirname "$0")/common.sh"

with_cuda || skip "GSC_CUDA is off"
CUDA_VISIBLE_DEVICES='' "$BUILD/examples/example_cuda_device" >"$WORK/said" || fail "example_cuda_device fails: $(cat "$WORK/said")"
for words in GSC_ERR_DEVICE 'CUDA driver' 'use a scaler on the CPU'; do
    grep -q "$words" "$WORK/said" || fail "example_cuda_device does not say \"$words\", but: $(cat "$WORK/said")"
done
cat "$WORK/said"
