/* SPDX-License-Identifier: Apache-2.0 */
#include "train/optim/kernels.h"

#include <string.h>

const gsc__update_kernels *gsc__update_kernels_of(const char *isa)
{
#if defined(__x86_64__)
    static const gsc__update_kernels *const wider[] = {&gsc__update_kernels_avx512, &gsc__update_kernels_avx2};
    for (size_t i = 0; i < sizeof wider / sizeof wider[0]; i++)
        if (strcmp(wider[i]->isa, isa) == 0)
            return wider[i];
#else
    (void)isa;
#endif
    return &gsc__update_kernels_baseline;
}
