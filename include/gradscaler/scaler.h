/* SPDX-License-Identifier: Apache-2.0 */
/* scaler.h: the dynamic loss scaler.
 *
 * One iteration: scale the loss, run the backward pass, then for each optimizer (unscale, look at or clip the
 * gradients,) step, and at the end one update. Each optimizer goes READY -> UNSCALED -> STEPPED; update makes all
 * READY. A scaler belongs to one thread at a time; different scalers are independent. A disabled scaler passes through:
 * scale copies, step calls the optimizer, the other calls check their arguments, succeed and do nothing.
 *
 * Errors. A function that returns an error has changed nothing, unless its comment says otherwise. All return
 * GSC_ERR_VALUE for a NULL pointer that their comment does not allow, and for a reserved word that is not zero;
 * comments do not repeat that.
 *
 * Callbacks (the optimizer's, the observer, the collectives) may call of the same scaler only functions that take it
 * const; the others return GSC_ERR_STATE and change nothing. But the step of a disabled scaler may call all of them
 * except destroy. Other scalers may be called freely. Exceptions may leave them, longjmp may not: see optimizer.h. One
 * that leaves the observer undoes nothing: what it was told of has happened. With ranks, one that leaves grad_count,
 * grad or name enters the collective as a refusal, so that the others do not wait; one that leaves a collective counts
 * as its failure. */
#ifndef GRADSCALER_SCALER_H
#define GRADSCALER_SCALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradscaler/dtype.h"
#include "gradscaler/optimizer.h"
#include "gradscaler/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gsc_scaler gsc_scaler;

/* Devices. Without a backend a scaler serves the CPU alone: another device is GSC_ERR_DEVICE, a stream GSC_ERR_VALUE,
 * no outcome is GSC_PENDING, and what gsc_grad_scaling has for devices is NULL.
 *
 * With a module's backend the scale, its schedule and every check live on options.device. Functions check their
 * arguments and keep the stages at once, and enqueue the rest on the device's stream (gsc_scaler_set_stream). These
 * wait for nothing, and from the second iteration on allocate nothing: scale, unscale, record, a step with step_scaled,
 * clip_grad_norm without total_norm, update, update_to, the setters, skip, rearm. So they can be captured into a graph.
 * A plain step waits once, and so do result, found_inf, overflows, state_dict, load_state_dict, unscale_buffers with
 * found_inf, update_to_tensor, clip_grad_norm with total_norm, and scale for a loss on the CPU.
 *
 * What the device knows lags. get_scale and get_stats tell what has arrived. The observer is called in update, step and
 * result, and in clip_grad_norm and unscale_buffers where they wait; of more than 256 events between two of these calls
 * the first are lost, also where the last of them belong to an iteration that the device has not ended.
 *
 * A step with step_scaled has the outcome GSC_PENDING (without gradients step is called, with GSC_NO_GRADS at once;
 * with ranks that waits): after an overflow the device skips it (found_inf_dev), and gsc_scaler_result knows. An
 * UNSCALED optimizer gets step_scaled, too, with a multiplier of 1 x the clip coefficient; it is not clipped in place.
 *
 * GSC_ERR_DIVERGED and GSC_ERR_COMM may be found on the device. It then skips every step until an update, a plain step
 * or gsc_scaler_result has returned the error, or load_state_dict or update_to has begun anew. GSC_ERR_DEVICE comes
 * also where the driver fails, with its text in the message: the call has done nothing, or what the stage and the
 * message say; gradients that were perhaps written in part are refused by step. Where the device cannot be asked,
 * found_inf is true.
 *
 * Gradients, arrays (gsc_buffer, always on options.device) and collectives: gradients on other devices of the module
 * and on the CPU are taken, too; those on the CPU wait for the scale. Then step is called, not step_scaled. Shards
 * (allreduce_sum) with gradients on the CPU cannot be clipped: GSC_ERR_UNSUPPORTED. Collectives get values on
 * options.device and its stream, and should only enqueue work. A gradient that is listed twice is reported once. */
typedef struct gsc_backend gsc_backend; /* a device module's, e.g. gsc_cuda_backend() */

typedef enum gsc_event_kind {
    GSC_EVENT_OVERFLOW = 0,    /* an optimizer's gradients are not finite */
    GSC_EVENT_BACKOFF = 1,     /* update made the scale smaller */
    GSC_EVENT_GROWTH = 2,      /* update made the scale larger */
    GSC_EVENT_AT_MIN_SCALE = 3 /* a due backoff ended at min_scale, where that is below init_scale */
} gsc_event_kind;

typedef struct gsc_event {
    gsc_event_kind kind;
    double scale;                   /* the scale after the event */
    int64_t update;                 /* updates completed before this one */
    const gsc_optimizer *optimizer; /* OVERFLOW only, else NULL; on a device NULL also if it was forgotten by now */
    const gsc_scaler *scaler;
    double scale_before; /* the scale before the event; OVERFLOW: that the gradients carried */
    uint64_t reserved[7];
} gsc_event;

/* Collectives over the ranks that train together; return 0 on success. Copied at creation; self must outlive the
 * scaler. Every rank makes the same calls in the same order. */
typedef struct gsc_comm {
    void *self;
    int (*allreduce_max)(void *self, DLTensor *values /* float32, in place */, void *stream); /* not NULL */
    int (*allreduce_sum)(void *self, DLTensor *values /* float64, in place */, void *stream); /* NULL: gradients are the
                                                              same on every rank; else they are sharded */
    int (*allreduce_max64)(void *self, DLTensor *values /* float64, in place */, void *stream); /* for norms with p =
                                                              infinity; NULL: through float32 */
    uint64_t reserved[7];
} gsc_comm;

typedef struct gsc_scaler_options {
    DLDevice device;               /* {kDLCPU, 0}: where scale and flags live; see Devices above */
    const gsc_backend *backend;    /* serves `device`, which is not the CPU then, and gradients there; NULL: CPU only */
    double init_scale;             /* 65536 */
    double growth_factor;          /* 2, > 1 */
    double backoff_factor;         /* 0.5, in (0, 1) */
    int64_t growth_interval;       /* 2000, > 0 */
    bool enabled;                  /* true */
    double min_scale;              /* FLT_MIN (also the least allowed): so that 1/scale stays finite */
    double max_scale;              /* FLT_MAX (also the greatest allowed) */
    int32_t hysteresis;            /* 1, >= 1: the first hysteresis - 1 overflows skip their step but leave the scale */
    int64_t max_consecutive_skips; /* 0: no limit; N: update returns GSC_ERR_DIVERGED from the N-th iteration in a row
                                      with an overflow on */
    bool allow_fp16_grads;         /* false: float16 gradients are refused, keep float32 parameters */
    const gsc_comm *comm;          /* NULL: this process alone */
    void (*observer)(void *ctx, const gsc_event *event); /* NULL: none */
    void *observer_ctx;
    bool strict; /* false; also GSC_STRICT=1 in the environment: refuse misuse, too, that takes a look-up
                    per gradient to find: docs/scaler.md */
    bool hysteresis_until_growth; /* false: a clean update restores the credit of hysteresis; true: only growth does */
    int32_t skip_window;          /* 0: off; else 2 ... 4096: of the last so many updates that checked a gradient ... */
    double max_skip_share;        /* ... at most this share, in (0, 1), may overflow: else update returns
                                     GSC_ERR_DIVERGED. Not looked at while skip_window is 0 */
    uint64_t reserved[6];
} gsc_scaler_options; /* min_scale == init_scale == max_scale is a static scale */

/* The values in the comments above. */
GSC_API gsc_scaler_options gsc_scaler_options_default(void);

/* Options are checked, enabled or not; limits and init_scale are rounded to float32 first. *out is set on success only.
 * Errors: GSC_ERR_VALUE naming the field, its value and its range; GSC_ERR_DEVICE: a device that the backend cannot
 * serve, no driver, or a backend of another version; GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_scaler_create(const gsc_scaler_options *options /* NULL: defaults */, gsc_scaler **out);
/* NULL is fine. In a callback of this scaler, enabled or not, it leaves a message and the scaler alive: destroy it
 * afterwards. On a device it waits for the work enqueued; not while the scaler's stream is being captured into a graph:
 * then the scaler's memory on devices is never freed. */
GSC_API void gsc_scaler_destroy(gsc_scaler *scaler);

/* out = in * scale, same shape, rounded once to out's dtype, which is in's dtype or float32/float64 wider than it.
 * Computed in float32, or in double where in or out is float64. out is in itself or disjoint from it.
 * Errors: GSC_ERR_VALUE (dtype, shape, layout), GSC_ERR_UNSUPPORTED (complex), GSC_ERR_DEVICE. */
GSC_API gsc_status gsc_scaler_scale(const gsc_scaler *scaler, const DLTensor *in, DLTensor *out);
/* The same for n pairs; all are checked before any is written. A pair listed twice is multiplied once; an out that
 * shares an element with another pair's tensors is GSC_ERR_VALUE. in and out may be NULL where n is 0. GSC_ERR_MEMORY:
 * more than four pairs need memory for these checks. */
GSC_API gsc_status gsc_scaler_scale_list(const gsc_scaler *scaler, DLTensor *const *in, DLTensor *const *out, size_t n);
/* A borrowed read-only float32[] (0-d) that always holds the current scale: for frameworks that multiply in their own
 * graph. Shape and data live as long as the scaler. GSC_ERR_DEVICE: device is not served, or is
 * the CPU while the scale lives on another one. */
GSC_API gsc_status gsc_scaler_scale_view(gsc_scaler *scaler, DLDevice device, DLTensor *out);

/* Divides the optimizer's gradients by the scale in place and records whether a result is not finite. READY ->
 * UNSCALED. Optional: step does it where it was not done. Errors, before any element is touched: GSC_ERR_STATE
 * (unscaled or stepped since the last update; gradients that are new or have moved and lie in memory that another
 * optimizer has unscaled and not stepped), GSC_ERR_VALUE (float16 unless allowed, other dtypes, self-overlapping
 * strides, gradients that share elements), GSC_ERR_UNSUPPORTED (complex), GSC_ERR_DEVICE, GSC_ERR_MEMORY. With ranks:
 * GSC_ERR_COMM, see docs/ranks.md. */
GSC_API gsc_status gsc_scaler_unscale(gsc_scaler *scaler, const gsc_optimizer *optimizer);
/* READY -> UNSCALED for a caller that has unscaled and checked with its own kernels; counts as checked.
 * Errors: GSC_ERR_STATE, GSC_ERR_MEMORY, GSC_ERR_COMM as gsc_scaler_unscale. */
GSC_API gsc_status gsc_scaler_record(gsc_scaler *scaler, const gsc_optimizer *optimizer, bool found_inf);

typedef enum gsc_outcome {
    GSC_STEPPED = 0,
    GSC_SKIPPED_OVERFLOW = 1,
    GSC_NO_GRADS = 2, /* the step was called, without a gradient on any rank */
    GSC_PENDING = 3   /* a device knows; gsc_scaler_result waits for it */
} gsc_outcome;

typedef struct gsc_step_result {
    gsc_outcome outcome; /* GSC_PENDING: grad_norm, max_abs and scale are NaN until gsc_scaler_result has them; the
                            scale also after GSC_NO_GRADS of an optimizer with step_scaled on a device */
    bool has_value;
    double value;     /* what the optimizer returned; 0 without */
    double grad_norm; /* total norm before clipping where clip_norm was asked (not finite after an overflow, 0 without
                         gradients), else NaN */
    double max_abs;   /* largest unscaled magnitude seen by the check (NaN if a NaN), 0 if none */
    double scale;     /* that the gradients carried (1 when disabled): divide a scaled loss by this one, not by
                         gsc_scaler_get_scale after update */
    uint64_t reserved[7];
} gsc_step_result;

/* Unscales if READY, then calls the optimizer's step, unless an element of this optimizer's gradients is not finite.
 * args NULL: a plain step. result may be NULL. A scale-aware step (step_scaled) that finds READY gets the gradients
 * still scaled, with clipping folded in; otherwise clip_norm clips in place.
 * Errors: as gsc_scaler_unscale; GSC_ERR_STATE also for a closure, a second step, a gradient that was absent at unscale
 * and is there now, and after a failed step for gradients other than were unscaled; GSC_ERR_OPTIMIZER: the step
 * failed, with its message; then the optimizer is UNSCALED (step) or READY (step_scaled), and the check still counts.
 */
GSC_API gsc_status gsc_scaler_step(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc_step_args *args,
                                   gsc_step_result *result);
/* Arrays in place of an optimizer: for programs and languages that have gradients in their hands and no callbacks.
 *
 * gsc_scaler_step_buffers unscales the arrays in place, unless gsc_scaler_unscale_buffers has done so in this
 * iteration, clips them where args asks for it, and decides:
 *
 *     gsc_step_result result;
 *     if (gsc_scaler_step_buffers(scaler, model, grads, n, NULL, &result) != GSC_OK)
 *         ...                                                   an error, see gsc_last_error
 *     else if (result.outcome != GSC_SKIPPED_OVERFLOW)
 *         ...                                                   make your own step, with the unscaled gradients
 *
 * The stage is STEPPED before your step. If that fails, the gradients are unscaled: repeat it, or drop the batch, and
 * call update either way.
 *
 * key stands for the optimizer: any address of yours, compared and never read. With it, cast to const gsc_optimizer *,
 * call the getters, gsc_scaler_result, _skip, _rearm (then pass newly computed, scaled gradients) and _forget.
 * unscale, step and clip_grad_norm with it are GSC_ERR_STATE, and so is a key that is a known optimizer's address.
 *
 * Only the key, the arrays' addresses as numbers, and copies of names are kept: the arrays may lie elsewhere in each
 * call. grads may be NULL where n is 0; a buffer's data NULL: no gradient now. args may be NULL; closure or extra in it
 * is GSC_ERR_VALUE. result must not be NULL; found_inf may be. Disabled: clips, GSC_STEPPED. Errors: else as
 * gsc_scaler_unscale. */
GSC_API gsc_status gsc_scaler_step_buffers(gsc_scaler *scaler, const void *key, const gsc_buffer *grads, size_t n,
                                           const gsc_step_args *args, gsc_step_result *result);
GSC_API gsc_status gsc_scaler_unscale_buffers(gsc_scaler *scaler, const void *key, const gsc_buffer *grads, size_t n,
                                              bool *found_inf);

/* The result of the optimizer's last step, also after update. None so far: GSC_ERR_STATE. On a device it waits, tells
 * the observer what has happened, and returns a GSC_ERR_COMM or GSC_ERR_DIVERGED that was found there, once; a graph's
 * replays are steps, too. */
GSC_API gsc_status gsc_scaler_result(const gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc_step_result *result);
/* Unscales if READY, then clips as gsc_clip_grad_norm. *total_norm (may be NULL): before clipping. After step:
 * GSC_ERR_STATE. */
GSC_API gsc_status gsc_scaler_clip_grad_norm(gsc_scaler *scaler, const gsc_optimizer *optimizer, double max_norm,
                                             double norm_type, double *total_norm);
/* The user's own skip: READY or UNSCALED -> STEPPED without a step.
 * Errors: GSC_ERR_STATE (already STEPPED), GSC_ERR_MEMORY; GSC_ERR_COMM: READY because this rank refused the
 * optimizer's gradients. */
GSC_API gsc_status gsc_scaler_skip(gsc_scaler *scaler, const gsc_optimizer *optimizer);
/* Back to READY within an iteration, from any stage, e.g. for the second pass of SAM; an overflow seen so far still
 * counts at update. An optimizer that the scaler does not know is READY already. */
GSC_API gsc_status gsc_scaler_rearm(gsc_scaler *scaler, const gsc_optimizer *optimizer);

/* Ends the iteration: backs the scale off after an overflow in any optimizer, grows it after growth_interval clean
 * updates, makes every optimizer READY. GSC_ERR_STATE: no optimizer was unscaled, recorded, stepped or skipped.
 * GSC_ERR_DIVERGED: the update was made, and it was the max_consecutive_skips-th (or a further) one in a row with an
 * overflow, or a larger share than max_skip_share of the last skip_window ones overflowed. */
GSC_API gsc_status gsc_scaler_update(gsc_scaler *scaler);
/* Ends the iteration with a scale of the caller's, in [min_scale, max_scale] once rounded to float32. Tracker and
 * hysteresis are kept, a pending overflow is forgotten, and the skip window begins anew. */
GSC_API gsc_status gsc_scaler_update_to(gsc_scaler *scaler, double new_scale);
GSC_API gsc_status gsc_scaler_update_to_tensor(gsc_scaler *scaler,
                                               const DLTensor *new_scale /* one element, value copied */);
/* Before an optimizer is freed or moved. Its overflow still counts at update. The optimizer is not read; one that the
 * scaler does not know is fine. */
GSC_API gsc_status gsc_scaler_forget(gsc_scaler *scaler, const gsc_optimizer *optimizer);
/* The stream of that device on which work is enqueued from now on, after what is enqueued already; NULL: the legacy
 * default stream. It must outlive its use here. The CPU has none: only NULL. GSC_ERR_DEVICE; GSC_ERR_STATE: it is
 * another stream than until now, and one of the two is being captured into a graph. */
GSC_API gsc_status gsc_scaler_set_stream(gsc_scaler *scaler, DLDevice device, void *stream);

/* Getters. Given a NULL scaler they leave a message and return NaN, 0, false or READY. An optimizer that the scaler
 * does not know, NULL too, is READY, without an overflow. */
GSC_API double gsc_scaler_get_scale(const gsc_scaler *scaler); /* 1.0 when disabled */
GSC_API double gsc_scaler_get_growth_factor(const gsc_scaler *scaler);
GSC_API double gsc_scaler_get_backoff_factor(const gsc_scaler *scaler);
GSC_API int64_t gsc_scaler_get_growth_interval(const gsc_scaler *scaler);
GSC_API bool gsc_scaler_is_enabled(const gsc_scaler *scaler);
GSC_API gsc_status gsc_scaler_set_growth_factor(gsc_scaler *scaler, double factor);      /* > 1, finite */
GSC_API gsc_status gsc_scaler_set_backoff_factor(gsc_scaler *scaler, double factor);     /* in (0, 1) */
GSC_API gsc_status gsc_scaler_set_growth_interval(gsc_scaler *scaler, int64_t interval); /* > 0 */

typedef enum gsc_stage { GSC_STAGE_READY = 0, GSC_STAGE_UNSCALED = 1, GSC_STAGE_STEPPED = 2 } gsc_stage;
GSC_API gsc_stage gsc_scaler_get_stage(const gsc_scaler *scaler, const gsc_optimizer *optimizer);
/* Whether this optimizer's gradients overflowed since the last update, on any rank. */
GSC_API bool gsc_scaler_found_inf(const gsc_scaler *scaler, const gsc_optimizer *optimizer);

/* The state dict; all zero = empty = saved while disabled. */
typedef struct gsc_scaler_state {
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval, growth_tracker;
    double min_scale, max_scale;            /* zero in a loaded state: keep the scaler's own */
    int32_t hysteresis, hysteresis_tracker; /* hysteresis zero in a loaded state: keep the scaler's own of both */
    int64_t consecutive_skips;
    uint64_t reserved[8];
} gsc_scaler_state;

/* Read it after update: an iteration that is under way is not part of it. It never fails but for NULL, and on a device
 * with its driver: GSC_ERR_DEVICE. */
GSC_API gsc_status gsc_scaler_state_dict(const gsc_scaler *scaler, gsc_scaler_state *out);
/* All or nothing; the skip window, which is not saved, begins anew. GSC_ERR_VALUE: a field out of range. GSC_ERR_STATE:
 * an optimizer is not READY, or an empty state is loaded into an enabled scaler. Disabled: checked and ignored. */
GSC_API gsc_status gsc_scaler_load_state_dict(gsc_scaler *scaler, const gsc_scaler_state *in);

/* One gradient of an optimizer's last overflow on this rank. */
typedef struct gsc_overflow {
    size_t index;     /* as in gsc_optimizer's grad() */
    const char *name; /* the scaler's copy, valid until the next overflow or destroy; NULL: it has none */
    uint64_t inf_count, nan_count;
    uint64_t first_index; /* of the first element that is not finite, row-major */
    uint64_t repeats;     /* overflows in a row of this gradient with these counts and this first_index, this one
                             included */
    uint64_t reserved[1];
} gsc_overflow;

/* Returns how many there are and fills out[0 … capacity) with the first of them; out may be NULL. A NULL scaler leaves
 * a message and has none; neither has an optimizer that the scaler does not know. */
GSC_API size_t gsc_scaler_overflows(const gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc_overflow *out,
                                    size_t capacity);

typedef struct gsc_scaler_stats {
    int64_t updates;
    int64_t steps;         /* outcome GSC_STEPPED */
    int64_t skipped_steps; /* for overflow */
    int64_t backoffs, growths, consecutive_skips;
    uint64_t reserved[8];
} gsc_scaler_stats;
/* A NULL scaler leaves a message and gives zeros; out NULL leaves a message. */
GSC_API void gsc_scaler_get_stats(const gsc_scaler *scaler, gsc_scaler_stats *out);

#ifdef __cplusplus
}
#endif
#endif
