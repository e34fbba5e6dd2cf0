/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.h: what a scaler needs to know of an optimizer: where its gradients are and how to step it. */
#ifndef GRADSCALER_OPTIMIZER_H
#define GRADSCALER_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Structs that callers fill end in `reserved`: it must be zero (GSC_ERR_VALUE otherwise), so that they can grow. */

/* Arguments of one optimizer step. All zero is the plain step. */
typedef struct gsc_step_args {
    double (*closure)(void *closure_ctx); /* re-evaluates the model, returns the loss; NULL: none. Refused
                                             (GSC_ERR_STATE) while the scaler is enabled: gradients of a re-evaluation
                                             would never be unscaled */
    void *closure_ctx;
    void *extra;           /* passed on unread */
    double clip_norm;      /* > 0: clip the total gradient norm to this as part of the step; 0: no */
    double clip_norm_type; /* p of that norm, > 0 or infinity; 0 means 2 */
    void *stream; /* NULL; in the callback `step` of a scaler on a device, whose gradients are all on one device (the
                     CPU aside): that device's stream, never NULL (the legacy default stream is cudaStreamLegacy); work
                     that is launched there comes after the scaler's */
    uint64_t reserved[7];
} gsc_step_args;

/* What a scale-aware step gets: the gradients are still scaled, and it multiplies on the fly. */
typedef struct gsc_grad_scaling {
    double multiplier; /* gradient to use = stored gradient * this (1/scale * clip coefficient); NaN on a device */
    /* Devices (see scaler.h); all NULL on the CPU. */
    const DLTensor *multiplier_dev; /* float32[1] on the gradients' device */
    const DLTensor *found_inf_dev;  /* float32[1], non-zero: leave everything unchanged */
    void *stream;
    const DLTensor
        *multiplier64_dev; /* float64[1]: multiplier_dev before it was rounded; may be NULL where that is not */
    uint64_t reserved[7];
} gsc_grad_scaling;

/* What grad() returns when it fails, after gsc_fail or gsc_fail_message: the scaler's call returns GSC_ERR_OPTIMIZER
 * with that message, nothing written and the stage unchanged. NULL, in contrast, means that there is no gradient. */
extern GSC_API DLTensor *const GSC_GRAD_FAILED;

/* An optimizer as a scaler sees it. Its address is its identity: it must not move while a scaler knows it (see
 * gsc_scaler_forget). Callbacks run on the caller's thread in the caller's floating-point environment. scaler.h tells
 * what they may call. An exception may leave them (a C++ throw, pthread_exit, a thread's cancellation): it passes
 * through the library to the caller, and the scaler is in the state that a failure of that callback leaves. longjmp may
 * not: it cleans nothing up, and the scaler is then good for nothing but an error message. */
typedef struct gsc_optimizer {
    void *self;                                    /* first argument of each callback */
    size_t (*grad_count)(void *self);              /* how many gradients there may be; not NULL */
    DLTensor *(*grad)(void *self, size_t index);   /* not NULL; returns NULL: no gradient now; GSC_GRAD_FAILED: it could
                                                      not be had. Every pointer given stays valid until the scaler call
                                                      returns */
    const char *(*name)(void *self, size_t index); /* may be NULL and may return NULL; copied when kept */
    /* Applies the unscaled gradients. args is never NULL. *value and *has_value are 0 and false on entry: set them to
     * return something, e.g. the loss. Not NULL. Any status but GSC_OK means that it failed. */
    gsc_status (*step)(void *self, const gsc_step_args *args, double *value, bool *has_value);
    /* May be NULL. The same with gradients that are still scaled. */
    gsc_status (*step_scaled)(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                              bool *has_value);
    uint64_t reserved[8];
} gsc_optimizer;

/* A plain array of gradients: count elements, contiguous, of one of the four dtypes of dtype.h. */
typedef struct gsc_buffer {
    void *data; /* NULL: a parameter that has no gradient */
    size_t count;
    DLDataType dtype;
    const char *name; /* NULL: none */
} gsc_buffer;

/* Five-line adoption: an optimizer made of n arrays and a step function that reads them. The descriptors and names are
 * copied, the arrays are borrowed and must outlive the optimizer. step(ctx) returns GSC_OK, or any other status (see
 * gsc_fail) when it failed. n == 0 is allowed. *out is set on success only; free it with gsc_optimizer_free, after
 * gsc_scaler_forget or gsc_scaler_destroy.
 * Errors: GSC_ERR_VALUE (NULL, dtype), GSC_ERR_UNSUPPORTED (complex), GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_optimizer_from_buffers(const gsc_buffer *grads, size_t n, gsc_status (*step)(void *ctx),
                                              void *ctx, gsc_optimizer **out);

/* Frees what gsc_optimizer_from_buffers made, and only that. NULL is fine. */
GSC_API void gsc_optimizer_free(gsc_optimizer *optimizer);

#ifdef __cplusplus
}
#endif
#endif
