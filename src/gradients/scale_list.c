/* SPDX-License-Identifier: Apache-2.0 */
/* scale_list.c: the checks of a list of pairs, then its products. */
#include "gradients/scale_list.h"

#include <stdlib.h>

#include "base/try.h"
#include "gradients/pairs.h"
#include "gradients/scale.h"

enum { FEW = 4 }; /* pairs that need no allocation */

/* Pairs to be passed over become empty. */
static gsc_status check_pairs(const gsc__scale_list *list, gsc__pair *pairs)
{
    gsc__message_subject subject = {.api = list->api, .what = list->what, .listed = true};
    for (size_t i = 0; i < list->n; i++) {
        subject.index = i;
        pairs[i].in.count = 0;
        if (!list->passes_null_over || (list->in[i] && list->out[i]))
            GSC_TRY(gsc__pair_check(list->in[i], list->out[i], NULL, &subject, &pairs[i]));
    }
    return gsc__pairs_check(pairs, list->n, &subject);
}

/* Also where an exception of a host's parallel-for passes through. */
static void free_pairs(gsc__pair **pairs) { free(*pairs); }

gsc_status gsc__scale_list_apply(const gsc__scale_list *list, bool *found_inf)
{
    gsc__pair few[FEW], *pairs = few;
    __attribute__((cleanup(free_pairs))) gsc__pair *many = NULL;
    if (list->n > FEW) {
        pairs = many = list->n <= SIZE_MAX / sizeof *many ? malloc(list->n * sizeof *many) : NULL;
        if (!many)
            return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory for a list of %zu pairs", list->api, list->n);
    }
    GSC_TRY(check_pairs(list, pairs));
    if (found_inf)
        *found_inf = false;
    for (size_t i = 0; i < list->n; i++)
        if (pairs[i].in.count > 0)
            gsc__scale_apply(list->in[i], list->out[i], list->factor, found_inf);
    return GSC_OK;
}
