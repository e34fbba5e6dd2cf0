/* SPDX-License-Identifier: Apache-2.0 */
/* norm.h: norms over all elements of a list, over ranks too, and the coefficient that clips them.
 *
 * All are arithmetic: the caller has entered the environment of base/fpenv.h. */
#ifndef GSC_GRADIENTS_NORM_H
#define GSC_GRADIENTS_NORM_H

#include "gradients/sweep.h"

/* What a norm is computed from. Over ranks: reduce `sums` with allreduce_sum (p finite) or max_abs with allreduce_max
 * (p infinite), then call gsc__norm_from_sums. */
typedef struct gsc__norm_sums {
    double p;
    double sums[3]; /* p = 1, 2: over ordinary, tiny and huge blocks, the latter two prescaled by a power of two so that
                       nothing over- or underflows; other finite p: sums[0] is the sum of (|x| * 2^-exponent)^p */
    int exponent;   /* finite p other than 1 and 2: gsc__norm_exponent's, set by the caller before gsc__norm_sum */
    double max_abs; /* p infinite */
} gsc__norm_sums;

/* For finite p other than 1 and 2: an exponent e such that max |x * r| * 2^-e is about 1 (INT_MIN/2 when there is no
 * non-zero finite element), to be agreed on by all ranks (the maximum) and put into sums.exponent. 0 for other p. */
int gsc__norm_exponent(const gsc__list *list, double r, double p);
/* Fills sums from x * r (rounded as by unscale) and the check result, in one reading pass. p > 0 or infinity. list must
 * have been finished with want_norm. result may be NULL. */
void gsc__norm_sum(const gsc__list *list, double r, double p, gsc__norm_sums *sums, gsc__check_result *result);
/* (sum of |x|^p)^(1/p); NaN if any element is NaN. */
double gsc__norm_from_sums(const gsc__norm_sums *sums);
/* max_norm / (norm + 1e-6) where that is < 1, else exactly 1; 1 for a norm that is not finite. */
double gsc__clip_coefficient(double max_norm, double norm);

#endif
