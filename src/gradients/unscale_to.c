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

/* Also where an exception of a host's parallel-for passes through. */
static void free_pairs(gsc__pair **pairs) { free(*pairs); }

static gsc_status unscale_to(DLTensor *const *grads, DLTensor *const *out, size_t n, double scale, bool *found_inf)
{
    static const char api[] = "gsc_unscale_grads_to";
    GSC_TRY(gsc__unscale_check_scale(scale, api));
    if (n > 0 && (!grads || !out))
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL but n is %zu", api, grads ? "out" : "grads", n);
    gsc__pair few[4]; /* a call for one parameter at a time allocates nothing */
    __attribute__((cleanup(free_pairs))) gsc__pair *many = NULL;
    if (n > sizeof few / sizeof *few) {
        many = n <= SIZE_MAX / sizeof *many ? malloc(n * sizeof *many) : NULL;
        if (!many)
            return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory for a list of %zu gradients", api, n);
    }
    return unscale_pairs(grads, out, n, gsc__fpenv_pin(1.0 / scale), many ? many : few, found_inf);
}

gsc_status gsc_unscale_grads_to(DLTensor *const *grads, DLTensor *const *out, size_t n, double scale, bool *found_inf)
{
    bool unused;
    GSC_FPENV_SCOPE;
    return unscale_to(grads, out, n, gsc__fpenv_pin(scale), found_inf ? found_inf : &unused);
}
