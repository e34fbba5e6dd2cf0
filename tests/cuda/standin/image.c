/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: what tests give the module in place of compiled kernels. The stand-in has the kernels themselves. */
#include "cuda/image.h"

const unsigned char gsc__cuda_image[] = "stand-in";
const size_t gsc__cuda_image_size = sizeof gsc__cuda_image - 1;
