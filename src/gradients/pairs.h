/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h: tensors that are read, each with the tensor that its results go to. */
#ifndef GSC_GRADIENTS_PAIRS_H
#define GSC_GRADIENTS_PAIRS_H

#include <stdbool.h>

#include "gradients/view.h"
#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

/* in.count 0: nothing to do. */
typedef struct gsc__pair {
    gsc__view in, out;
} gsc__pair;

/* Same shape, out's dtype equal to in's or float32/float64 wider than it, one device, which is the CPU or served, out
 * not self-overlapping, out the same view as in or disjoint from it. served NULL: the CPU alone. in_subject is what
 * messages call `in`. */
gsc_status gsc__pair_check(const DLTensor *in, const DLTensor *out, const gsc__served *served,
                           const gsc__message_subject *in_subject, gsc__pair *pair);

/* Of n checked pairs: each out shares no element with another pair's tensors. Of equal pairs, all but the first become
 * empty. subject: the public function, and what messages call an `in`. GSC_ERR_MEMORY: the check needs a list. */
gsc_status gsc__pairs_check(gsc__pair *pairs, size_t n, const gsc__message_subject *subject);

/* The first dimension in which two tensors of one ndim differ; ndim if none does. */
static inline int gsc__different_dimension(const DLTensor *a, const DLTensor *b)
{
    int d = 0;
    while (d < a->ndim && a->shape[d] == b->shape[d])
        d++;
    return d;
}

#endif
