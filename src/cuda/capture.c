/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c: what cannot be done while a stream is being captured into a graph. */
#include "cuda/module.h"

gsc_status gsc__cuda_refuse_capture(const gsc__cuda_site *site, const char *what)
{
    bool is_capturing;
    GSC_TRY(gsc__cuda_is_capturing(site->stream, &is_capturing));
    if (!is_capturing)
        return GSC_OK;
    return gsc_fail(
        GSC_ERR_STATE,
        "CUDA: the stream is being captured into a graph, so the scaler could not %s; run one whole iteration "
        "before the capture, with the same calls and the same clipping, and read results after it",
        what);
}
