/* SPDX-License-Identifier: Apache-2.0 */
/* nonfinite.h: which elements of a tensor are not finite. */
#ifndef GSC_GRADIENTS_NONFINITE_H
#define GSC_GRADIENTS_NONFINITE_H

#include "gradients/view.h"

/* What is not finite in one tensor * r, in row-major order: all 0 if nothing is. */
typedef struct gsc__nonfinite {
    uint64_t inf_count, nan_count, first_index;
} gsc__nonfinite;
enum { GSC_NONFINITE_BATCH = 64 }; /* tensors at a time */
/* The view of a tensor that a list accepts; one without elements for NULL. */
void gsc__nonfinite_view(const DLTensor *tensor, gsc__view *out);
/* out[i] becomes that of views[i]; returns whether anything is not finite, which is faster if it was expected. */
bool gsc__count_nonfinite(const gsc__view *views, size_t n, double r, bool expected, gsc__nonfinite *out);

#endif
