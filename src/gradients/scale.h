/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h: out = in * factor: the loss's side of the scaler, and gradients that are unscaled out of place. */
#ifndef GSC_GRADIENTS_SCALE_H
#define GSC_GRADIENTS_SCALE_H

#include <stdbool.h>

#include "gradscaler/dtype.h"

/* For a pair that gsc__pair_check accepts: computed in float32 (double where in or out is float64) with the factor
 * rounded to that, rounded once to out's dtype. factor 1 copies: equal dtypes keep every bit. *found_inf (NULL: not
 * wanted) becomes true if some result is not finite, else it is left. The caller sets the environment of base/fpenv.h.
 */
void gsc__scale_apply(const DLTensor *in, const DLTensor *out, double factor, bool *found_inf);

/* Check and product at once for a small, compact pair of one dtype, as nearly every loss is. Returns false if
 * undecided, with nothing written; then call gsc__pair_check and gsc__scale_apply. */
bool gsc__scale_fast(const DLTensor *in, const DLTensor *out, double factor);

#endif
