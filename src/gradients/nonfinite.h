/* SPDX-License-Identifier: Apache-2.0 */
/* nonfinite.h: which elements of a tensor are not finite. */
#ifndef GSC_GRADIENTS_NONFINITE_H
#define GSC_GRADIENTS_NONFINITE_H

#include <stdint.h>

#include "gradients/view.h"

/* What is not finite in one tensor * r, in row-major order: all 0 if everything is finite. */
typedef struct gsc__nonfinite {
    uint64_t inf_count, nan_count, first_index;
} gsc__nonfinite;

enum { GSC_NONFINITE_BATCH = 64 }; /* tensors at a time */

/* Makes the view of a tensor. NULL, or a tensor that a list refuses, gives a view without elements. */
void gsc__nonfinite_view(const DLTensor *tensor, gsc__view *out);
/* Sets out[i] for each of the n views, at most GSC_NONFINITE_BATCH. Returns whether anything is not finite.
 * likely_nonfinite is the caller's guess of that answer and only affects speed: with true, the check that would come
 * before the count is left out. Arithmetic: the caller has entered the environment of base/fpenv.h. */
bool gsc__count_nonfinite(const gsc__view *views, size_t n, double r, bool likely_nonfinite, gsc__nonfinite *out);

#endif
