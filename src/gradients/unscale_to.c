/* SPDX-License-Identifier: Apache-2.0 */
/* unscale_to.c: gradients unscaled into other tensors, wider ones for example. */
#include "base/fpenv.h"
#include "base/try.h"
#include "gradients/scale_list.h"
#include "gradients/unscale.h"
#include "gradscaler/gradients.h"

static gsc_status unscale_to(DLTensor *const *grads, DLTensor *const *out, size_t n, double scale, bool *found_inf)
{
    static const char api[] = "gsc_unscale_grads_to";
    GSC_TRY(gsc__unscale_check_scale(scale, api));
    if (n > 0 && (!grads || !out))
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL but n is %zu", api, grads ? "out" : "grads", n);
    const gsc__scale_list list = {.api = api,
                                  .what = "gradient",
                                  .in = grads,
                                  .out = out,
                                  .n = n,
                                  .passes_null_over = true,
                                  .factor = gsc__fpenv_pin(1.0 / scale)};
    return gsc__scale_list_apply(&list, found_inf);
}

gsc_status gsc_unscale_grads_to(DLTensor *const *grads, DLTensor *const *out, size_t n, double scale, bool *found_inf)
{
    bool unused;
    GSC_FPENV_SCOPE;
    return unscale_to(grads, out, n, gsc__fpenv_pin(scale), found_inf ? found_inf : &unused);
}
