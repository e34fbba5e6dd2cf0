/* SPDX-License-Identifier: Apache-2.0 */
/* unscale_to.c: gradients unscaled into other tensors, wider ones for example. */
#include <stdlib.h>

#include "base/fpenv.h"
#include "base/try.h"
#include "gradients/pairs.h"
#include "gradients/scale.h"
#include "gradients/unscale.h"
#include "gradscaler/gradients.h"

/* Fills in those pairs of which both tensors are there; the others become empty. */
static gsc_status check_pairs(DLTensor *const *grads, DLTensor *const *out, size_t n, gsc__pair *pairs)
{
    gsc__message_subject subject = {.api = "gsc_unscale_grads_to", .what = "gradient", .listed = true};
    for (size_t i = 0; i < n; i++) {
        subject.index = i;
        pairs[i].in.count = 0;
        if (grads[i] && out[i])
            GSC_TRY(gsc__pair_check(grads[i], out[i], &subject, &pairs[i]));
    }
    return gsc__pairs_check(pairs, n, &subject);
}

static gsc_status unscale_pairs(DLTensor *const *grads, DLTensor *const *out, size_t n, double r, gsc__pair *pairs,
                                bool *found_inf)
{
    GSC_TRY(check_pairs(grads, out, n, pairs));
    *found_inf = false;
    for (size_t i = 0; i < n; i++)
        if (pairs[i].in.count > 0)
            gsc__scale_apply(grads[i], out[i], r, found_inf);
    return GSC_OK;
}

static gsc_status unscale_to(DLTensor *const *grads, DLTensor *const *out, size_t n, double scale, bool *found_inf)
{
    static const char api[] = "gsc_unscale_grads_to";
    GSC_TRY(gsc__unscale_check_scale(scale, api));
    if (n > 0 && (!grads || !out))
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL but n is %zu", api, grads ? "out" : "grads", n);
    gsc__pair few[4], *pairs = few; /* a call for one parameter at a time allocates nothing */
    if (n > sizeof few / sizeof *few)
        pairs = n <= SIZE_MAX / sizeof *pairs ? malloc(n * sizeof *pairs) : NULL;
    if (!pairs)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory for a list of %zu gradients", api, n);
    gsc_status status = unscale_pairs(grads, out, n, gsc__fpenv_pin(1.0 / scale), pairs, found_inf);
    if (pairs != few)
        free(pairs);
    return status;
}

gsc_status gsc_unscale_grads_to(DLTensor *const *grads, DLTensor *const *out, size_t n, double scale, bool *found_inf)
{
    bool unused;
    gsc__fpenv saved = gsc__fpenv_enter();
    gsc_status status = unscale_to(grads, out, n, gsc__fpenv_pin(scale), found_inf ? found_inf : &unused);
    gsc__fpenv_leave(saved);
    return status;
}
