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

/* The view of a tensor that a list accepts; one without elements for NULL. */
void gsc__nonfinite_view(const DLTensor *tensor, gsc__view *out);
/* Sets out[i] for each of the n views, at most GSC_NONFINITE_BATCH. Returns whether anything is not finite; `expected`
 * is the likely answer and only affects speed. Arithmetic: the caller has entered the environment of base/fpenv.h. */
bool gsc__count_nonfinite(const gsc__view *views, size_t n, double r, bool expected, gsc__nonfinite *out);

#endif
