/* SPDX-License-Identifier: Apache-2.0 */
/* upload.h: numbers from the host into device memory, in the arguments of kernels: so nothing has to be kept until they
 * arrive, nothing waits, and a captured graph has its own copy. */
#ifndef GSC_CUDA_UPLOAD_H
#define GSC_CUDA_UPLOAD_H

#include <stddef.h>

#include "cuda/context.h"

/* Enqueues the copying of `bytes` bytes, a multiple of 8, to `to`, aligned to 8. A launch takes 8 *
 * GSC_CUDA_UPLOAD_WORDS of them: after a failure the first may still arrive. what: for the message, after "could not".
 * Inside enter and leave. */
gsc_status gsc__cuda_upload(const gsc__cuda_context *context, CUstream stream, void *to, const void *from, size_t bytes,
                            const char *what);

#endif
