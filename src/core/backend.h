/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h: what a device module does for a scaler: all that the core knows about devices.
 *
 * The scale, its schedule and every verdict lie on the scaler's device. A call of the scaler checks its arguments and
 * keeps the stages on the host, as ever, then has the module enqueue the arithmetic on the stream of the device. Only
 * `settle` waits. So the core's own numbers may lag; they are what the last `settle` or `peek` has brought.
 *
 * A module is a library of its own. It may include the public headers, base's inline headers and this one; it calls
 * the public functions of libgradscaler (gsc_fail) and nothing else. Each function below returns GSC_OK, or one of
 * three errors: GSC_ERR_DEVICE with a message that ends in the driver's text; GSC_ERR_MEMORY; GSC_ERR_STATE where the
 * stream is being captured into a graph and the call would have to allocate or wait. Then nothing was enqueued that
 * counts; but after GSC_ERR_DEVICE from a scan that unscales, from clip in place or multiply, gradients may be written
 * in part. Only create, record_create and the first scan of a longer list than before allocate; only settle, and what
 * says so, waits for the device.
 */
#ifndef GSC_CORE_BACKEND_H
#define GSC_CORE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype_kind.h"
#include "core/schedule.h"
#include "gradscaler/scaler.h"

enum {
    GSC_BACKEND_VERSION = 1, /* of this header: a module of another version is refused */
    GSC_DEVICE_LOG = 256     /* happenings that a snapshot can hold */
};

/* A dimension of a tensor whose elements are not neighbours in row-major order. */
typedef struct gsc__device_dim {
    int64_t shape;     /* > 1 */
    int64_t stride;    /* in elements, >= 0 (0 only where nothing is written), the smallest first */
    int64_t row_major; /* what one step along it adds to the row-major index; may be negative */
} gsc__device_dim;

/* A checked tensor on a device. With dims its elements may still be neighbours from start on, in another order than the
 * row-major one (a transposed matrix). */
typedef struct gsc__device_tensor {
    void *start;                 /* lowest address of an element, aligned for it */
    uint64_t count;              /* elements, > 0 */
    int64_t row_major_start;     /* the row-major index of the element at start: 0 unless a stride is negative */
    const gsc__device_dim *dims; /* ndim of them, borrowed for the call */
    int32_t ndim;                /* 0: element i of the row-major order is start[i] */
    int32_t device_id;
    uint32_t index; /* the gradient's, for the report */
    gsc__kind kind; /* GSC_F32, GSC_F64, GSC_BF16 or GSC_F16 */
} gsc__device_tensor;

typedef struct gsc__device gsc__device;               /* the module's part of a scaler */
typedef struct gsc__device_record gsc__device_record; /* and of an optimizer */

typedef struct gsc__device_options {
    DLDevice device;
    bool enabled; /* else the scale is 1, and of the calls below that enqueue only scale, replace, norm_*, clip
                     and multiply are made */
    gsc__schedule schedule; /* where it begins */
    gsc__schedule_rules rules;
    int32_t skip_window, most_overflows; /* as options.skip_window; 0: none */
    int64_t max_consecutive_skips;
    bool has_comm;
} gsc__device_options;

/* One check of an optimizer's gradients. */
typedef struct gsc__device_scan {
    const gsc__device_tensor *tensors; /* those on devices; those on the CPU are in host_* */
    size_t count;
    bool same_tensors;   /* the same as in the record's scan or replace before this one, which succeeded */
    size_t grad_count;   /* indices are below this */
    bool unscales;       /* in place; else the gradients are only read */
    double p;            /* 1, 2, infinity or another p > 0: add up this norm of the products, too; 0: none */
    bool host_found_inf; /* what the core has seen of gradients on the CPU, or was told by gsc_scaler_record */
    double host_max_abs;
    bool checked; /* this rank has gradients, on devices or the CPU */
    bool failed;  /* this rank refused its gradients (count is 0) and only takes part in the collectives: agreement, or
                     the norm's with the least exponent and NaN as sums; decide and clip do not follow */
} gsc__device_scan;

/* As in gsc_step_result: of the last check, the scale then, the last norm (before clipping). */
typedef struct gsc__device_numbers {
    double max_abs, scale, norm;
} gsc__device_numbers;

/* What the module knows of one optimizer after `settle`. */
typedef struct gsc__device_verdict {
    bool found_inf, checked; /* on any rank, in the last check */
    bool found_inf_here;     /* on this rank */
    bool overflowed;         /* in any check since the last update */
    bool comm_failed;        /* since the last update: the ranks cannot go on with its gradients; `halt` says why */
    gsc__device_numbers numbers;
    gsc_outcome outcome;          /* of the last `finish`, which may be replayed by a graph; never PENDING */
    gsc__device_numbers finished; /* the numbers then */
    bool clipped;                 /* that step was asked to clip */
    uint64_t checks;              /* so far; the one with the report below: */
    uint64_t reported_check;      /* the last one that found an overflow, on any rank; 0: none yet */
    size_t report_count;          /* gradients on devices of this rank that were not finite in it */
} gsc__device_verdict;

typedef enum gsc__halt {
    GSC_HALT_NONE,
    GSC_HALT_REFUSED_ELSEWHERE,
    GSC_HALT_SCALES_DIFFER,
    GSC_HALT_DIVERGED
} gsc__halt;

/* What becomes of a clip coefficient. */
typedef enum gsc__device_clip_use {
    GSC_CLIP_MULTIPLIER, /* it is a part of the multiplier of `scaling` */
    GSC_CLIP_FOR_STEP,   /* the gradients are multiplied by it in place if it is < 1 and no overflow was found */
    GSC_CLIP_WHATEVER    /* the same, also where an overflow was found */
} gsc__device_clip_use;

/* An event, as the device has noted it. */
typedef struct gsc__device_happening {
    gsc_event_kind kind;
    int64_t update;
    double scale_before, scale;
    uint64_t record; /* OVERFLOW: the record's number; else 0 */
    uint64_t number; /* of all happenings, from 1 on; 0: it is lost */
} gsc__device_happening;

/* The scaler's numbers as the device had them after some update, the last one where it comes from settle. */
typedef struct gsc__device_snapshot {
    gsc__schedule schedule;
    gsc_scaler_stats stats;
    gsc__halt halt;                    /* the first that is not acknowledged: until then the device skips every step */
    uint64_t halts;                    /* so far: a snapshot from before the acknowledgement has the same halt again */
    float least_scale, greatest_scale; /* GSC_HALT_SCALES_DIFFER: over all ranks */
    bool halted_in_window;             /* GSC_HALT_DIVERGED: by skip_window, else by max_consecutive_skips */
    int32_t window_overflows, window_filled;
    uint64_t repeats;                 /* of the last update that overflowed: as gsc_overflow.repeats, the greatest */
    uint64_t happenings;              /* events so far. The log has the last GSC_DEVICE_LOG of them, event i, whose
                                         number is i + 1, in log[i % GSC_DEVICE_LOG], but for those of which it has
                                         another one's number: they are lost, the device has gone on since */
    const gsc__device_happening *log; /* valid until the next call */
} gsc__device_snapshot;

struct gsc_backend {
    uint32_t version; /* GSC_BACKEND_VERSION */
    const char *name; /* of the driver, for messages */

    /* Whether tensors on this device can be used: GSC_ERR_DEVICE with the reason. `api` begins the message. */
    gsc_status (*check_device)(DLDevice device, const char *api);

    gsc_status (*create)(const gsc__device_options *options, gsc__device **out);
    void (*destroy)(gsc__device *device); /* waits for the work enqueued; during a capture it leaves memory allocated */
    /* What is enqueued from now on waits for what was enqueued before on the stream until now. GSC_ERR_STATE: one of
     * the two is being captured, and they differ. */
    gsc_status (*set_stream)(gsc__device *device, DLDevice on, void *stream);
    void *(*stream)(const gsc__device *device); /* of the scaler's own device */
    /* That of any device, for gsc_step_args.stream: never NULL. */
    void *(*step_stream)(const gsc__device *device, int32_t device_id);

    /* numbers.md: out = in * scale, or a copy where disabled; the tensors of a pair have the same shape, are on one
     * device and equal in kind, or out is float32 or float64 and wider. dims of `in` and `out` are in the same order:
     * the row-major one, innermost first (so strides may be negative and unsorted, and start is the first element). */
    gsc_status (*scale)(gsc__device *device, const gsc__device_tensor *in, const gsc__device_tensor *out, size_t n);
    /* float32[] that holds the scale on that device. */
    gsc_status (*scale_view)(gsc__device *device, DLDevice on, DLTensor *out);

    gsc_status (*record_create)(gsc__device *device, uint64_t number, gsc__device_record **out);
    void (*record_destroy)(gsc__device_record *record); /* an overflow that it noted still counts at `update` */

    /* Enqueues a check: reads (and unscales) the gradients and notes for each what is not finite. */
    gsc_status (*scan)(gsc__device_record *record, const gsc__device_scan *scan);
    /* With comm, between scan and decide: enqueues the packing of {found_inf, checked, failed, scale, -scale}; *values
     * is then float32[5] on the scaler's device for allreduce_max. */
    gsc_status (*agreement)(gsc__device_record *record, DLTensor *values);
    /* Enqueues the verdict of the last scan: from this rank's, or with comm from the values, which are reduced by now.
     * collective_failed: allreduce_max failed, so all that is left is to skip. */
    gsc_status (*decide)(gsc__device_record *record, bool collective_failed);

    /* The gradients that norm, clip and multiply work on from now on, as they are (r is 1): before a norm that is not
     * of the call that scanned. They may be others by now, or have other values, so nothing that is known of them
     * counts. same_tensors: as in a scan. Verdict and report of the last check stay. */
    gsc_status (*replace)(gsc__device_record *record, const gsc__device_tensor *tensors, size_t count,
                          bool same_tensors);
    /* Norms of the gradients last scanned or replaced. A scan with p has the sums already where p is 1, 2 or infinite
     * (and where it did not unscale: r is its 1/scale; else 1). The steps between are for shards: *values is float32[1]
     * for allreduce_max (the exponent; p other than 1, 2 and infinity), then float64[3] for allreduce_sum. p infinite:
     * float64[1] for allreduce_max64, or as_float32 float32[1] for allreduce_max. */
    gsc_status (*norm_exponent)(gsc__device_record *record, double p, DLTensor *values);
    gsc_status (*norm_sums)(gsc__device_record *record, double p, bool as_float32, DLTensor *values);
    /* Enqueues norm and coefficient as numbers.md has them, and what is done with it: gsc__device_clip_use. Where
     * shards' sums were reduced and give NaN though no rank's check found an overflow, a rank refused its gradients
     * since: comm_failed, GSC_HALT_REFUSED_ELSEWHERE, and the step skips. */
    gsc_status (*clip)(gsc__device_record *record, double p, double max_norm, gsc__device_clip_use use);
    /* Enqueues x = x * factor, in each dtype's arithmetic (factor rounded to float32 for all but float64). */
    gsc_status (*multiply)(gsc__device_record *record, double factor);

    /* What a scale-aware step gets: multiplier NaN, multiplier_dev = 1/scale (1 after a scan that unscaled) * the clip
     * coefficient in float32, multiplier64_dev the same in float64 (what the CPU's optimizers get: float64
     * gradients, and multipliers below float32's normal numbers, need it), found_inf_dev, the stream. Filled in after
     * decide and clip; lives as long as the record. */
    gsc_status (*scaling)(gsc__device_record *record, gsc_grad_scaling *out);
    /* Enqueues the counting of a step. PENDING: as found_inf says, SKIPPED_OVERFLOW or STEPPED. clipped: it was asked
     * to clip. */
    gsc_status (*finish)(gsc__device_record *record, gsc_outcome outcome, bool clipped);

    /* Enqueues the end of an iteration (schedule.h), then a new snapshot for peek. counts: false after a refusal or a
     * failed collective on the host's side, when nothing counts. */
    gsc_status (*update)(gsc__device *device, bool counts);
    /* The same with a scale of the caller's: updates + 1, the rest of the schedule stays, nothing that is pending
     * counts, the skip window is empty. A halt is over: no later snapshot has one of before. */
    gsc_status (*update_to)(gsc__device *device, float scale);
    /* Enqueues another state. Nothing is pending, the skip window is empty, a halt is over as after update_to. */
    gsc_status (*load)(gsc__device *device, const gsc__schedule *schedule, const gsc__schedule_rules *rules);
    /* Enqueues other rules; all else stays. */
    gsc_status (*set_rules)(gsc__device *device, const gsc__schedule_rules *rules);
    /* The halt of the last snapshot has been reported: the device goes on. */
    gsc_status (*acknowledge)(gsc__device *device);

    /* Waits for all work enqueued so far; a failure of the device is returned here at the latest. */
    gsc_status (*settle)(gsc__device *device, gsc__device_snapshot *out);
    /* The latest snapshot that has reached the host; does not wait. Returns false if it is not newer than what peek and
     * settle have returned before. */
    bool (*peek)(gsc__device *device, gsc__device_snapshot *out);
    /* As it was at the last settle. */
    void (*verdict)(const gsc__device_record *record, gsc__device_verdict *out);
    /* Waits. Fills in entries (by index; names NULL) of the last overflow's report, `capacity` at most. */
    gsc_status (*report)(gsc__device_record *record, gsc_overflow *entries, size_t capacity);
    /* Waits. The value of a tensor of one element. */
    gsc_status (*read_element)(gsc__device *device, const gsc__device_tensor *tensor, double *value);
};

#endif
