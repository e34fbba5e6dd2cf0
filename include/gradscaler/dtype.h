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

#ifdef __cplusplus
}
#endif
#endif
