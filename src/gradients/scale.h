/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h: out = in * scale, the loss's side of the scaler. */
#ifndef GSC_GRADIENTS_SCALE_H
#define GSC_GRADIENTS_SCALE_H

#include <stdbool.h>

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

/* Same shape, out's dtype equal to in's or float32/float64 wider than it, CPU, out not self-overlapping, out the same
 * view as in or disjoint from it. index and total place the pair in a list (total 0: a single one). Errors name what is
 * wrong. */
gsc_status gsc__scale_check(const DLTensor *in, const DLTensor *out, size_t index, size_t total);

/* For a checked pair: computed in float32 (double where in or out is float64), rounded once to out's dtype; factor is a
 * float32 value. factor 1 copies: equal dtypes keep every bit. The caller sets the environment of base/fpenv.h. */
void gsc__scale_apply(const DLTensor *in, const DLTensor *out, double factor);

/* Both at once for nearly every loss: a small, compact pair of one dtype. false: nothing is done, and that says
 * nothing.
 */
bool gsc__scale_fast(const DLTensor *in, const DLTensor *out, double factor);

#endif
