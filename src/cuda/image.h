/* SPDX-License-Identifier: Apache-2.0 */
/* image.h: the compiled kernels, as the build embeds them: a fatbin of nvcc, or PTX. */
#ifndef GSC_CUDA_IMAGE_H
#define GSC_CUDA_IMAGE_H

#include <stddef.h>

extern const unsigned char gsc__cuda_image[]; /* for cuModuleLoadData; a zero byte follows */
extern const size_t gsc__cuda_image_size;     /* without that byte */

#endif
