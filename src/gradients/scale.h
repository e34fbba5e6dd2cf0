/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h: out = in * scale, the loss's side of the scaler. */
#ifndef GSC_GRADIENTS_SCALE_H
#define GSC_GRADIENTS_SCALE_H

#include <stdbool.h>

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

/* Same shape, out's dtype equal to in's or float32/float64 wider than it, CPU, out not self-overlapping, out the same
 * view as in or disjoint from it. index and total say in messages which pair of a list it is (total 0: a single one).
 */
gsc_status gsc__scale_check(const DLTensor *in, const DLTensor *out, size_t index, size_t total);

/* For a checked pair: computed in float32 (double where in or out is float64), rounded once to out's dtype; factor is a
 * float32 value. factor 1 copies: equal dtypes keep every bit. The caller sets the environment of base/fpenv.h. */
void gsc__scale_apply(const DLTensor *in, const DLTensor *out, double factor);

/* Check and product at once for a small, compact pair of one dtype, as nearly every loss is. Returns false if
 * undecided, with nothing written; then call the two above. */
bool gsc__scale_fast(const DLTensor *in, const DLTensor *out, double factor);

#endif
