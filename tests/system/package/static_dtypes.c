/* SPDX-License-Identifier: Apache-2.0 */
/* static_dtypes.c: static objects initialised with the macros of dtype.h, in C and in C++. */
/* package_install shows: trial T30 */
#include <gradscaler/gradscaler.h>

static const DLDataType initialised[] = {GSC_FLOAT32_INIT, GSC_FLOAT64_INIT, GSC_BFLOAT16_INIT, GSC_FLOAT16_INIT};
static float weight[4];
static const gsc_buffer gradients[] = {{weight, 4, GSC_FLOAT32_INIT, "weight"}};

static int differ(DLDataType a, DLDataType b) { return a.code != b.code || a.bits != b.bits || a.lanes != b.lanes; }

int main(void)
{
    return differ(initialised[0], GSC_FLOAT32) || differ(initialised[1], GSC_FLOAT64) ||
           differ(initialised[2], GSC_BFLOAT16) || differ(initialised[3], GSC_FLOAT16) ||
           differ(gradients[0].dtype, GSC_FLOAT32);
}
