/* SPDX-License-Identifier: Apache-2.0 */
/* upload.c: see upload.h. */
#include "cuda/upload.h"

#include <string.h>

#include "base/try.h"
#include "cuda/shared.h"

gsc_status gsc__cuda_upload(const gsc__cuda_context *context, CUstream stream, void *to, const void *from, size_t bytes,
                            const char *what)
{
    gsc__cuda_upload_args args = {0};
    for (size_t done = 0, part; done < bytes; done += part) {
        part = bytes - done < sizeof args.words ? bytes - done : sizeof args.words;
        args.to = (uint64_t *)((char *)to + done);
        args.count = (uint32_t)(part / sizeof *args.words);
        memcpy(args.words, (const char *)from + done, part);
        GSC_TRY(gsc__cuda_launch(context, GSC_CUDA_KERNEL_upload, 1, GSC_CUDA_MAX_THREADS, stream, &args, what));
    }
    return GSC_OK;
}
