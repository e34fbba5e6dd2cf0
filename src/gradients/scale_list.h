/* SPDX-License-Identifier: Apache-2.0 */
/* scale_list.h: out = in * factor for a list of pairs. */
#ifndef GSC_GRADIENTS_SCALE_LIST_H
#define GSC_GRADIENTS_SCALE_LIST_H

#include <stdbool.h>

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

typedef struct gsc__scale_list {
    const char *api, *what; /* the public function, and what its messages call an `in` */
    DLTensor *const *in, *const *out;
    size_t n;
    bool passes_null_over; /* pairs without one of their tensors; else they are refused */
    double factor;
} gsc__scale_list;

/* All are checked before any is written; a pair that is listed twice is multiplied once. *found_inf (NULL: not wanted),
 * set on success only: whether some result is not finite. The caller sets the environment of base/fpenv.h.
 * GSC_ERR_MEMORY: lists of more than a few pairs need memory for the checks. */
gsc_status gsc__scale_list_apply(const gsc__scale_list *list, bool *found_inf);

#endif
