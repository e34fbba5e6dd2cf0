/* SPDX-License-Identifier: Apache-2.0 */
/* shared.h: what host code and kernels share: the structs in device memory, and each kernel's argument. Plain C. */
#ifndef GSC_CUDA_SHARED_H
#define GSC_CUDA_SHARED_H

#include "core/backend.h"
#include "core/schedule.h"

enum {
    GSC_CUDA_MAX_THREADS = 256,  /* of a block */
    GSC_CUDA_ITEM = 4096,        /* elements that a warp takes at a time: the CPU's block of a norm */
    GSC_CUDA_UPLOAD_WORDS = 480, /* of 8 bytes: a kernel's argument may have 4 KiB */
    GSC_CUDA_WINDOW_WORDS = 4096 / GSC_SKIP_WINDOW_WORD_BITS
};

/* A tensor in a record's table. */
typedef struct gsc__cuda_tensor {
    uint64_t start, count;   /* as in gsc__device_tensor */
    int64_t row_major_start; /* also */
    uint32_t first_item;     /* items of the tensors before this one */
    uint32_t first_dim;      /* in the table's dims */
    uint32_t index;          /* the gradient's */
    uint16_t ndim, kind;
} gsc__cuda_tensor;

/* The tensors of one record on one device. */
typedef struct gsc__cuda_table {
    const gsc__cuda_tensor *tensors;
    const gsc__device_dim *dims;
    const uint32_t *item_tensors; /* the tensor of each item */
    uint32_t tensor_count, item_count;
} gsc__cuda_table;

/* What is not finite in one gradient, filled in by scan: all 0 if everything is finite. */
typedef struct gsc__cuda_count {
    uint64_t infs, nans;
    uint64_t first_inverted; /* ~ the first row-major index: a maximum, so that 0 means none */
} gsc__cuda_count;

/* A gradient's entry in the report of a record's last overflow: it counts where `check` is that check's number. */
typedef struct gsc__cuda_entry {
    uint64_t infs, nans, first, repeats, check;
} gsc__cuda_entry;

/* One pass over a record's tensors: what it does, and what it finds. Each device has its own. */
typedef struct gsc__cuda_pass {
    double factor;   /* y = x * factor */
    uint32_t stores; /* y is stored, unless factor is 1 */
    uint32_t idle;   /* nothing to do */
    int32_t exponent, unused;
    uint64_t max_bits[GSC_KINDS]; /* the largest |y| of each kind, as bits */
    double sums[3];               /* as gsc__norm_sums of gradients/norm.h: ordinary, tiny, huge */
} gsc__cuda_pass;

typedef enum gsc__cuda_pass_kind {
    GSC_CUDA_CHECK,   /* of the last scan */
    GSC_CUDA_MEASURE, /* of a norm that the scan has not taken */
    GSC_CUDA_CLIP,    /* multiplies by the clip coefficient */
    GSC_CUDA_PASSES
} gsc__cuda_pass_kind;

enum { GSC_CUDA_FOUND_INF, GSC_CUDA_CHECKED, GSC_CUDA_FAILED, GSC_CUDA_SCALE, GSC_CUDA_MINUS_SCALE, GSC_CUDA_AGREED };

/* A record, on the scaler's device. */
typedef struct gsc__cuda_slot {
    gsc__cuda_pass passes[GSC_CUDA_PASSES];
    uint64_t number;
    /* What `begin` notes of a check. */
    double r, scale;
    double host_max_abs;
    uint32_t host_found_inf, checked_here, failed_here, unscales;
    /* For the collectives, in place. */
    double norm_values[3];
    float agreement[GSC_CUDA_AGREED];
    float exponent;
    /* The verdict. */
    double max_abs, norm, coefficient;
    uint64_t checks, reported_check, report_count;
    uint64_t counted, blocks_done; /* inside of `decide` */
    int64_t overflow_epoch;        /* the state's epoch at the last overflow; -1: none */
    uint32_t found_inf, found_inf_here, checked, comm_failed;
    gsc_outcome outcome;
    float found_inf_dev, multiplier; /* of gsc_grad_scaling */
} gsc__cuda_slot;

/* A scaler, on its device. */
typedef struct gsc__cuda_state {
    gsc__schedule schedule; /* first: the scale is where the state is */
    gsc__schedule_rules rules;
    gsc__skip_window window;
    int32_t skip_window, most_overflows;
    int64_t max_consecutive_skips;
    int64_t updates, steps, skipped_steps, backoffs, growths;
    int64_t epoch; /* iterations begun */
    uint64_t pending_repeats, repeats;
    uint32_t pending_overflow, pending_checked, pending_comm_failed;
    gsc__halt halt;
    float least_scale, greatest_scale;
    uint32_t halted_in_window, enabled;
    uint64_t happenings, version;
    uint64_t window_words[GSC_CUDA_WINDOW_WORDS];
} gsc__cuda_state;

/* What the device tells the host, in pinned memory that both see. A snapshot is whole where version_begun and
 * version_done are the same; the device writes the former first. */
typedef struct gsc__cuda_shot {
    uint64_t version_begun;
    gsc__device_snapshot snapshot; /* without log */
    int64_t epoch;
    uint64_t version_done;
    gsc__device_happening log[GSC_DEVICE_LOG];
} gsc__cuda_shot;

/* ---- The kernels' arguments ---- */

typedef struct gsc__cuda_upload_args {
    uint64_t *to;
    uint32_t count, unused;
    uint64_t words[GSC_CUDA_UPLOAD_WORDS];
} gsc__cuda_upload_args;

typedef struct gsc__cuda_items_args {
    const gsc__cuda_tensor *tensors;
    uint32_t *item_tensors;
    uint32_t tensor_count, item_count;
} gsc__cuda_items_args;

typedef struct gsc__cuda_begin_args {
    const gsc__cuda_state *state;
    gsc__cuda_slot *slot;
    double host_max_abs;
    uint32_t host_found_inf, checked, failed, unscales;
    uint32_t already_unscaled; /* for a norm alone: the factor is 1, and no verdict follows */
    uint32_t unused;
} gsc__cuda_begin_args;

/* counts NULL: results are not wanted. */
typedef struct gsc__cuda_scan_args {
    gsc__cuda_table table;
    gsc__cuda_pass *pass;
    gsc__cuda_count *counts; /* by gradient */
} gsc__cuda_scan_args;

typedef struct gsc__cuda_partial {
    double sums[3];
} gsc__cuda_partial;

typedef struct gsc__cuda_sum_args {
    gsc__cuda_table table;
    gsc__cuda_pass *pass;
    gsc__cuda_count *counts;
    gsc__cuda_partial *partials; /* by item */
    uint32_t p, unused;
} gsc__cuda_sum_args;

typedef struct gsc__cuda_power_args {
    gsc__cuda_table table;
    gsc__cuda_pass *pass;
    gsc__cuda_partial *partials;
    double p;
} gsc__cuda_power_args;

/* Adds up count partials in the CPU's order: a block makes one of 256 nodes. */
typedef struct gsc__cuda_tree_args {
    const gsc__cuda_partial *from;
    gsc__cuda_partial *to; /* one per block */
    gsc__cuda_pass *pass;  /* where there is one block: its sums */
    uint32_t count, nodes; /* nodes: the greatest power of two that is at most count */
} gsc__cuda_tree_args;

typedef struct gsc__cuda_gather_args {
    gsc__cuda_pass *into;
    const gsc__cuda_pass *from;
    gsc__cuda_count *counts_into; /* NULL: not counted */
    const gsc__cuda_count *counts_from;
    uint32_t count, unused;
} gsc__cuda_gather_args;

typedef struct gsc__cuda_pack_args {
    gsc__cuda_slot *slot;
} gsc__cuda_pack_args;

typedef struct gsc__cuda_decide_args {
    gsc__cuda_state *state;
    gsc__cuda_slot *slot;
    gsc__cuda_shot *shot;
    gsc__cuda_count *counts;
    gsc__cuda_entry *entries;
    uint32_t grad_count;
    uint32_t agreed;            /* slot->agreement is reduced */
    uint32_t collective_failed; /* it could not be */
    uint32_t unused;
} gsc__cuda_decide_args;

typedef struct gsc__cuda_measure_args {
    gsc__cuda_slot *slot;
    uint32_t finds_exponent; /* sets slot->exponent from the check */
    uint32_t begins_pass;    /* prepares the pass GSC_CUDA_MEASURE */
    double p;
} gsc__cuda_measure_args;

typedef struct gsc__cuda_norm_values_args {
    gsc__cuda_slot *slot;
    const gsc__cuda_pass *pass; /* that has the sums */
    uint32_t infinite, unused;  /* p is */
} gsc__cuda_norm_values_args;

typedef struct gsc__cuda_clip_args {
    gsc__cuda_state *state;
    gsc__cuda_slot *slot;
    double p, max_norm;
    uint32_t sharded; /* slot->norm_values are reduced over ranks */
    uint32_t in_place;
} gsc__cuda_clip_args;

typedef struct gsc__cuda_finish_args {
    gsc__cuda_state *state;
    gsc__cuda_slot *slot;
    gsc_outcome outcome;
    uint32_t unused;
} gsc__cuda_finish_args;

typedef struct gsc__cuda_update_args {
    gsc__cuda_state *state;
    gsc__cuda_shot *shot;
    uint32_t counts, unused;
} gsc__cuda_update_args;

typedef struct gsc__cuda_load_args {
    gsc__cuda_state *state;
    gsc__schedule schedule;
    gsc__schedule_rules rules;
    uint32_t has_schedule, empties_window, counts_as_update, unused;
} gsc__cuda_load_args;

typedef struct gsc__cuda_acknowledge_args {
    gsc__cuda_state *state;
} gsc__cuda_acknowledge_args;

typedef struct gsc__cuda_snapshot_args {
    gsc__cuda_state *state;
    gsc__cuda_shot *shot;
} gsc__cuda_snapshot_args;

typedef struct gsc__cuda_pair {
    uint64_t in, out, count;
    uint32_t first_item;
    uint16_t first_dim, ndim; /* ndim 0: both are dense */
    uint16_t in_kind, out_kind;
    uint32_t unused;
} gsc__cuda_pair;

typedef struct gsc__cuda_pair_dim {
    int64_t shape, in_stride, out_stride;
} gsc__cuda_pair_dim;

typedef struct gsc__cuda_scale_args {
    const float *scale; /* NULL: copies */
    uint32_t pair_count, item_count;
    uint64_t words[GSC_CUDA_UPLOAD_WORDS]; /* the pairs, then their dims */
} gsc__cuda_scale_args;

#endif
