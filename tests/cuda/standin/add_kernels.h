/* SPDX-License-Identifier: Apache-2.0 */
/* add_kernels.h: a file of kernels hands its table to the stand-in. C++. */
#ifndef GSC_TESTS_STANDIN_ADD_KERNELS_H
#define GSC_TESTS_STANDIN_ADD_KERNELS_H

#include "standin/standin.h"

/* Where the linker puts the variables that GSC_SHARED declares; NULL if there are none. */
extern "C" {
__attribute__((weak, visibility("hidden"))) extern char __start_gsc_cuda_shared[], __stop_gsc_cuda_shared[];
}

template <typename Args, void (*kernel)(const Args)> static void call_kernel(const void *args)
{
    kernel(*static_cast<const Args *>(args));
}

static inline void add_kernels(const standin_kernel *kernels, size_t count)
{
    standin_add_kernels(kernels, count, __start_gsc_cuda_shared, __stop_gsc_cuda_shared);
}

#endif
