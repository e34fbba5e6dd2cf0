/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h: the element types that the library computes with. Tensors at the boundary are DLPack's DLTensor. */
#ifndef GRADSCALER_DTYPE_H
#define GRADSCALER_DTYPE_H

#include <dlpack/dlpack.h>

#include "gradscaler/status.h"

#ifdef __cplusplus
extern "C" {
#endif

extern GSC_API const DLDataType GSC_FLOAT32;
extern GSC_API const DLDataType GSC_FLOAT64;
extern GSC_API const DLDataType GSC_BFLOAT16;
extern GSC_API const DLDataType GSC_FLOAT16;

/* The same for initialisers of static objects, where C asks for constants:
 *     static const gsc_buffer gradients[] = {{weight, 100, GSC_FLOAT32_INIT, "weight"}}; */
/* clang-format off */
#define GSC_FLOAT32_INIT {kDLFloat, 32, 1}
#define GSC_FLOAT64_INIT {kDLFloat, 64, 1}
#define GSC_BFLOAT16_INIT {kDLBfloat, 16, 1}
#define GSC_FLOAT16_INIT {kDLFloat, 16, 1}
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif
