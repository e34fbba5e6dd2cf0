/* SPDX-License-Identifier: Apache-2.0 */
#include "train/optim/kernels.h"

#include <string.h>

const gsc_update_kernels *gsc_update_kernels_of(const char *isa)
{
#if defined(__x86_64__)
    static const gsc_update_kernels *const wider[] = {&gsc_update_kernels_avx512, &gsc_update_kernels_avx2};
    for (size_t i = 0; i < sizeof wider / sizeof wider[0]; i++)
        if (strcmp(wider[i]->isa, isa) == 0)
            return wider[i];
#else
    (void)isa;
#endif
    return &gsc_update_kernels_baseline;
}
