/* SPDX-License-Identifier: Apache-2.0 */
#include "gradscaler/dtype.h"

const DLDataType GSC_FLOAT32 = {kDLFloat, 32, 1};
const DLDataType GSC_FLOAT64 = {kDLFloat, 64, 1};
const DLDataType GSC_BFLOAT16 = {kDLBfloat, 16, 1};
const DLDataType GSC_FLOAT16 = {kDLFloat, 16, 1};
