/* SPDX-License-Identifier: Apache-2.0 */
/* autocast.h: ops choose their precision themselves.
 *
 * Inside a region, each op casts its floating-point inputs by its policy: lower precision (matmul, linear) to the
 * region's dtype, float32 (losses, sums, mean), widest input (add, mul); the rest keep their input's dtype. float64 and
 * int64 are never cast. Regions nest, belong to the thread, and can be off inside on. (PyTorch's policies, but for
 * mean, which PyTorch leaves in its input's dtype.)
 *
 * Casts are recorded on the tape, so gradients come back in the dtype of what was cast. A parameter is cast once per
 * outermost region and tape: inside a region, later changes to it are not seen. */
#ifndef GRADSCALER_AUTOCAST_H
#define GRADSCALER_AUTOCAST_H

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enters a region: dtype GSC_FLOAT16 or GSC_BFLOAT16 (GSC_ERR_VALUE otherwise; not read when enabled is false). At most
 * 64 deep (GSC_ERR_STATE). Every begin needs its end on the same thread. */
GSC_API gsc_status gsc_autocast_begin(DLDataType dtype, bool enabled);
/* Leaves the innermost region; GSC_ERR_STATE when there is none. */
GSC_API gsc_status gsc_autocast_end(void);
/* Whether the innermost region is on, and its dtype (dtype may be NULL). */
GSC_API bool gsc_autocast_enabled(DLDataType *dtype);

#ifdef __cplusplus
}
#endif
#endif
