/* SPDX-License-Identifier: Apache-2.0 */
/* unscale.h: what the functions that unscale without a scaler have in common. */
#ifndef GSC_GRADIENTS_UNSCALE_H
#define GSC_GRADIENTS_UNSCALE_H

#include <float.h>

#include "gradscaler/status.h"

/* GSC_ERR_VALUE unless the scale is in [FLT_MIN, FLT_MAX]. api: the public function, for the message. */
static inline gsc_status gsc__unscale_check_scale(double scale, const char *api)
{
    if (scale >= (double)FLT_MIN && scale <= (double)FLT_MAX)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: scale is %g; allowed is %g to %g", api, scale, (double)FLT_MIN,
                    (double)FLT_MAX);
}

#endif
