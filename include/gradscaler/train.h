/* SPDX-License-Identifier: Apache-2.0 */
/* train.h: the whole of libgradscaler-train: tensors, tape, autocast, layers, optimizers, data and checkpoints.
 *
 * Names: `create` allocates an object and `free` frees it (`open` and `close` for files); a constructor of one kind
 * names the kind last (gsc_optim_create_adam, gsc_module_relu). A property that can be set has get_ and set_; what can
 * only be read has neither. Structs are zero-initialised; one with other defaults has a function named `_default`. */
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
#include "gradscaler/tape.h"
#include "gradscaler/tensor.h"

#endif
