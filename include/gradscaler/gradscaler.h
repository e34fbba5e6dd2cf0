/* SPDX-License-Identifier: Apache-2.0 */
/* gradscaler.h: the whole of libgradscaler, dynamic loss scaling for mixed-precision training.
 *
 * Intended use, once per training step:
 *     gsc_scaler_scale(scaler, loss, loss);       // or: seed the backward pass with gsc_scaler_get_scale(scaler)
 *     ... backward pass ...
 *     gsc_scaler_step(scaler, optimizer, NULL, &result);   // unscale, check, step or skip
 *     gsc_scaler_update(scaler);                  // adapt the scale
 */
#ifndef GRADSCALER_GRADSCALER_H
#define GRADSCALER_GRADSCALER_H

#include "gradscaler/dtype.h"
#include "gradscaler/gradients.h"
#include "gradscaler/optimizer.h"
#include "gradscaler/runtime.h"
#include "gradscaler/scaler.h"
#include "gradscaler/status.h"
#include "gradscaler/version.h"

#endif
