/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.h: the scaler's loops without a scaler.
 *
 * A list holds n pointers to DLPack tensors on the CPU, of float32, float64, bfloat16 or float16, of any strides and
 * any alignment that the element allows. NULL entries and empty tensors are passed over; n == 0 is fine. Identical
 * views listed twice are processed once. Where elements are written, strides that reach one element twice and tensors
 * that share elements, or that are too irregular to tell, are refused (GSC_ERR_VALUE, naming both tensors); where
 * nothing is written, they are fine. All checks come before the first write. Errors of all: GSC_ERR_VALUE (NULL, dtype,
 * layout, a bad number), GSC_ERR_UNSUPPORTED (complex), GSC_ERR_DEVICE, GSC_ERR_MEMORY. Results are the same bits for
 * every thread count and instruction set (norms: for p = 1, 2, infinity).
 */
#ifndef GRADSCALER_GRADIENTS_H
#define GRADSCALER_GRADIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplies every element by r = 1/scale, in place: r is computed in double; float32, bfloat16 and float16 use r
 * rounded to float32 and form the product in float32, float64 uses double; one rounding to the stored dtype. scale 1
 * leaves every bit. *found_inf (may be NULL) is set, not or-ed: whether some result is not finite. scale in [FLT_MIN,
 * FLT_MAX]. */
GSC_API gsc_status gsc_unscale_grads(DLTensor *const *grads, size_t n, double scale, bool *found_inf);

/* The same out of place: out[i] = grads[i] * r, of the same shape, rounded once to out's dtype, which is the gradient's
 * or float32/float64 wider than it: float16 gradients go into float32 masters, 2^-10 / 2^20 as 2^-30. Computed in
 * float32, or in double where the gradient or out is float64. found_inf speaks of the results. An entry that is NULL in
 * grads or in out is passed over and not checked. out[i] is grads[i] itself or shares no element with it, nor with any
 * other tensor of the call (GSC_ERR_VALUE); a pair that is listed twice is processed once. */
GSC_API gsc_status gsc_unscale_grads_to(DLTensor *const *grads, DLTensor *const *out, size_t n, double scale,
                                        bool *found_inf);

/* *found_inf (may be NULL) says whether some element is infinite or NaN. */
GSC_API gsc_status gsc_check_grads(DLTensor *const *grads, size_t n, bool *found_inf);

/* *norm = (sum of |x|^norm_type over all elements)^(1/norm_type), in double whatever the dtype; norm_type > 0 or
 * infinity (the largest magnitude). NaN if any element is NaN; 0 without elements. norm must not be NULL. */
GSC_API gsc_status gsc_grad_norm(DLTensor *const *grads, size_t n, double norm_type, double *norm);

/* Multiplies all by max_norm / (norm + 1e-6) where that is < 1, so that the total norm is at most max_norm (>= 0,
 * infinity allowed). A norm that is not finite leaves the gradients alone. *total_norm (may be NULL): before clipping.
 */
GSC_API gsc_status gsc_clip_grad_norm(DLTensor *const *grads, size_t n, double max_norm, double norm_type,
                                      double *total_norm);

/* Clamps every element to [-clip_value, clip_value] (rounded to the stored dtype towards zero); NaN stays NaN.
 * clip_value >= 0, infinity allowed. */
GSC_API gsc_status gsc_clip_grad_value(DLTensor *const *grads, size_t n, double clip_value);

typedef struct gsc_grad_stats {
    uint64_t count, zeros, infs, nans;
    double min_abs;          /* smallest non-zero finite magnitude, 0 if there is none */
    double max_abs;          /* largest finite magnitude, 0 if there is none */
    uint64_t exponents[280]; /* [e + 150]: how many finite non-zero values have floor(log2|x|) = e, e clamped to
                                -150 ... 129 */
    uint64_t reserved[8];
} gsc_grad_stats;

/* Fills *out from one tensor. NULL grad: GSC_ERR_VALUE. */
GSC_API gsc_status gsc_grad_statistics(const DLTensor *grad, gsc_grad_stats *out);

#ifdef __cplusplus
}
#endif
#endif
