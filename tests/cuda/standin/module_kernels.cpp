/* SPDX-License-Identifier: Apache-2.0 */
/* module_kernels.cpp: the module's kernels for the stand-in. kernels.inc, which CMake writes, includes all of them. */
#include "kernels.inc"

#include "cuda/kernel_list.h"
#include "standin/add_kernels.h"

#define MODULE_KERNEL(name)                                                                                            \
    {"gsc__kernel_" #name, call_kernel<gsc__cuda_##name##_args, gsc__kernel_##name>, sizeof(gsc__cuda_##name##_args)},

static const standin_kernel kernels[] = {GSC_CUDA_KERNELS(MODULE_KERNEL)};

__attribute__((constructor)) static void add() { add_kernels(kernels, sizeof kernels / sizeof *kernels); }
