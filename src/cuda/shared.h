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
    uint16_t ndim;           /* 0: the elements are neighbours in row-major order */
    uint8_t kind;
    uint8_t dense; /* in the order of the dims, the elements are neighbours */
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
    double factor;    /* y = x * factor */
    uint32_t stores;  /* y is stored, unless factor is 1 */
    uint32_t idle;    /* nothing to do */
    int32_t exponent; /* power: the magnitudes are divided by 2^exponent */
    uint32_t unused;
    uint64_t max_bits[GSC_KINDS]; /* the largest |y| of each kind, as bits */
    double sums[3];               /* as gsc__norm_sums of gradients/norm.h: ordinary, tiny, huge */
} gsc__cuda_pass;

typedef enum gsc__cuda_pass_kind {
    GSC_CUDA_CHECK,    /* of the last scan */
    GSC_CUDA_MEASURE,  /* of a norm that the scan has not taken */
    GSC_CUDA_MULTIPLY, /* in place, by the clip coefficient or another factor */
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
    float norm_value; /* the norm's exponent, or for p infinite the largest magnitude in float32 */
    /* The verdict. */
    gsc__device_numbers numbers, finished;
    uint64_t checks, reported_check, report_count;
    uint64_t counted, blocks_done;             /* while `decide` runs */
    int64_t overflow_epoch, comm_failed_epoch; /* the state's epoch at the last one; -1: none */
    uint32_t found_inf, found_inf_here, checked;
    uint32_t clipped; /* the last step that finished */
    gsc_outcome outcome;
    /* Of gsc_grad_scaling. */
    double multiplier64;
    float multiplier, found_inf_dev;
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
    uint64_t halts, happenings, version;
    uint64_t
        fresh_start; /* the number of the last one that was not captured: what ends a halt that nobody was told of */
    uint64_t window_words[GSC_CUDA_WINDOW_WORDS];
} gsc__cuda_state;

/* What the device tells the host, in pinned memory that both see. A snapshot is whole where version_begun and
 * version_done are the same; the device writes the former first. */
typedef struct gsc__cuda_shot {
    uint64_t version_begun;
    gsc__device_snapshot snapshot; /* without log */
    int64_t epoch;
    uint64_t fresh_start;
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

/* A pass other than the check. */
typedef struct gsc__cuda_prepare_args {
    gsc__cuda_slot *slot;
    double factor;
    uint32_t pass;         /* gsc__cuda_pass_kind */
    uint32_t begins;       /* sets the factor and empties the results */
    uint32_t uses_r;       /* the factor is the check's r */
    uint32_t stores;       /* the pass does */
    uint32_t has_exponent; /* the exponent is slot->norm_value */
    uint32_t unused;
} gsc__cuda_prepare_args;

typedef struct gsc__cuda_exponent_args {
    gsc__cuda_slot *slot;
    double p;
    uint32_t pass;   /* that has the maxima */
    uint32_t failed; /* the least exponent */
} gsc__cuda_exponent_args;

typedef enum gsc__cuda_norm_kind {
    GSC_CUDA_NORM_SUMS,       /* slot->norm_values are the three sums */
    GSC_CUDA_NORM_MAXIMUM,    /* slot->norm_values[0] is the largest magnitude */
    GSC_CUDA_NORM_MAXIMUM_F32 /* slot->norm_value is */
} gsc__cuda_norm_kind;

typedef struct gsc__cuda_norm_values_args {
    gsc__cuda_slot *slot;
    uint32_t pass;   /* that has the sums, or the maxima */
    uint32_t kind;   /* gsc__cuda_norm_kind */
    uint32_t failed; /* NaN instead */
    uint32_t unused;
} gsc__cuda_norm_values_args;

typedef struct gsc__cuda_clip_args {
    gsc__cuda_state *state;
    gsc__cuda_slot *slot;
    double p, max_norm;
    uint32_t pass;    /* that has the maxima */
    uint32_t sums;    /* and the one that has the sums */
    uint32_t kind;    /* gsc__cuda_norm_kind: where the norm's values are, if reduced */
    uint32_t reduced; /* over ranks: else they are the passes' */
    uint32_t use;     /* gsc__device_clip_use: in place, the coefficient is for the pass GSC_CUDA_MULTIPLY */
    uint32_t unused;
} gsc__cuda_clip_args;

typedef struct gsc__cuda_finish_args {
    gsc__cuda_state *state;
    gsc__cuda_slot *slot;
    gsc_outcome outcome;
    uint32_t clipped;
} gsc__cuda_finish_args;

typedef struct gsc__cuda_update_args {
    gsc__cuda_state *state;
    gsc__cuda_shot *shot;
    uint32_t counts, unused;
} gsc__cuda_update_args;

/* What `load` does. */
enum {
    GSC_CUDA_LOAD_SCALE = 1,
    GSC_CUDA_LOAD_SCHEDULE = 2,
    GSC_CUDA_LOAD_RULES = 4,
    GSC_CUDA_END_ITERATION = 8, /* nothing is pending, the window is empty */
    GSC_CUDA_COUNT_UPDATE = 16,
    GSC_CUDA_CLEAR_HALT = 32
};

typedef struct gsc__cuda_load_args {
    gsc__cuda_state *state;
    gsc__cuda_shot *shot;
    gsc__schedule schedule;
    gsc__schedule_rules rules;
    uint64_t fresh_start; /* as in the state; 0: it stays */
    uint32_t what, unused;
} gsc__cuda_load_args;

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
