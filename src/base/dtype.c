/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.c: the constants of dtype.h. */
#include "gradscaler/dtype.h"

const DLDataType GSC_FLOAT32 = GSC_FLOAT32_INIT;
const DLDataType GSC_FLOAT64 = GSC_FLOAT64_INIT;
const DLDataType GSC_BFLOAT16 = GSC_BFLOAT16_INIT;
const DLDataType GSC_FLOAT16 = GSC_FLOAT16_INIT;
