/* SPDX-License-Identifier: Apache-2.0 */
/* train.h: the whole of libgradscaler-train: tensors, tape, autocast, layers, optimizers, data and
 * checkpoints. */
#ifndef GRADSCALER_TRAIN_H
#define GRADSCALER_TRAIN_H

#include "gradscaler/autocast.h"
#include "gradscaler/checkpoint.h"
#include "gradscaler/data.h"
#include "gradscaler/gradscaler.h"
#include "gradscaler/nn.h"
#include "gradscaler/ops.h"
#include "gradscaler/optim.h"
#include "gradscaler/random.h"
#include "gradscaler/safetensors.h"
#include "gradscaler/state_json.h"
#include "gradscaler/tensor.h"

#endif
