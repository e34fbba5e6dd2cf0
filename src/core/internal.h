/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h: the scaler's own structures and what its files offer one another.
 *
 * scaler.c holds the public functions that change a scaler: it checks the pointers, refuses calls from callbacks, sets
 * the floating-point environment and hands over to the file of the topic. */
#ifndef GSC_CORE_INTERNAL_H
#define GSC_CORE_INTERNAL_H

#include "base/fpenv.h"
#include "base/message.h"
#include "base/reserved.h"
#include "base/try.h"
#include "gradients/norm.h"
#include "gradscaler/scaler.h"

/* The gradients of an optimizer's last overflow on this rank. */
typedef struct gsc__report {
    gsc_overflow *entries;
    size_t count, capacity;
    struct gsc__names *names; /* what entries[].name point into */
    struct gsc__names *spare; /* larger, for the next overflow */
} gsc__report;

/* What a scaler knows about one optimizer. */
typedef struct gsc__record {
    const gsc_optimizer *optimizer;
    gsc_stage stage;
    size_t grad_count; /* as last told by the optimizer */
    bool has_grads;    /* the last check saw a gradient */
    bool found_inf;    /* the last check found an overflow: what step goes by */
    bool overflowed;   /* some check since the last update did: what gsc_scaler_found_inf tells */
    bool comm_failed;  /* the ranks could not agree: step skips */
    double max_abs;    /* of the last check */
    bool has_result;
    gsc_step_result result;
    gsc__report report;
} gsc__record;

/* What the next update goes by. Kept apart from the records, so that it outlives them. */
typedef struct gsc__pending {
    bool recorded;    /* some optimizer was unscaled, recorded, stepped or skipped */
    bool checked;     /* some gradient was checked, on any rank */
    bool overflow;    /* and some was not finite */
    bool comm_failed; /* the ranks could not agree: nothing counts */
} gsc__pending;

struct gsc_scaler {
    gsc_scaler_options
        options; /* limits and init_scale rounded to float32; setters write here; comm points to `comm` */
    gsc_comm comm;
    float scale; /* 1 while disabled: what gsc_scaler_scale_view shows */
    int64_t growth_tracker;
    int32_t hysteresis_tracker;
    gsc_scaler_stats stats; /* consecutive_skips is part of the state dict */
    gsc__pending pending;
    char culprits[384];                 /* the overflowed gradients of this iteration, in words */
    struct gsc__names *forgotten_names; /* of forgotten optimizers, until the next overflow */
    gsc__record **records;
    size_t record_count, record_capacity;
    gsc__list list; /* workspace of the call under way */
    int callbacks;  /* of this scaler that are running, one inside the other */
    bool closed;    /* to them, but for const functions */
    bool in_env;    /* in the library's floating-point environment; caller_env is the one to go back to */
    gsc__fpenv caller_env;
};

/* environment.c. Reading the environment costs as much as everything else in a small step, so it is entered only where
 * arithmetic begins; what copies and counts runs in the caller's. Entering twice is entering once. */
void gsc__env_enter(gsc_scaler *scaler);
void gsc__env_leave(gsc_scaler *scaler);
/* The caller's code runs in the caller's environment, with the scaler closed to it. Between begin and end no other
 * callback; end goes back to the environment that begin found. */
bool gsc__callback_begin(gsc_scaler *scaler);
/* The step of a disabled scaler is the optimizer's own, closures included: the scaler stays open to it. */
bool gsc__callback_begin_step(gsc_scaler *scaler);
void gsc__callback_end(gsc_scaler *scaler, bool was_in_env);
void gsc__emit(gsc_scaler *scaler, gsc_event_kind kind, int64_t update, const gsc_optimizer *optimizer);

/* options.c */
gsc_status gsc__options_check(gsc_scaler_options *options); /* rounds the limits and init_scale */
gsc_status gsc__check_device(DLDevice device, const char *what);
gsc_status gsc__check_growth_factor(double factor, const char *what);
gsc_status gsc__check_backoff_factor(double factor, const char *what);
gsc_status gsc__check_growth_interval(int64_t interval, const char *what);
/* Rounds *scale to float32 once and demands low <= *scale <= high. */
gsc_status gsc__round_scale(double *scale, double low, double high, const char *what);

/* records.c */
gsc__record *gsc__record_find(const gsc_scaler *scaler, const gsc_optimizer *optimizer); /* NULL: not known */
gsc_status gsc__record_get(gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc__record **out);
void gsc__record_forget(gsc_scaler *scaler, const gsc_optimizer *optimizer);
void gsc__records_free(gsc_scaler *scaler);
bool gsc__records_all_ready(const gsc_scaler *scaler);
/* The next iteration: all READY, nothing pending. */
void gsc__records_rearm(gsc_scaler *scaler);

/* collect.c: the optimizer's gradients into scaler->list, all checked. Needs no environment. */
typedef struct gsc__collection {
    const char *caller; /* the public function, for messages */
    bool allow_fp16, want_norm;
} gsc__collection;
gsc_status gsc__check_step(const gsc_optimizer *optimizer, const char *caller);
gsc_status gsc__collect(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc__collection *collection);

/* ranks.c */
typedef struct gsc__verdict {
    bool found_inf, checked, failed;
} gsc__verdict;
/* The one collective of a check: the verdict becomes that of all ranks. Not GSC_OK: they cannot go on together, and the
 * reason is in the message unless this rank failed itself. */
gsc_status gsc__ranks_agree(gsc_scaler *scaler, gsc__verdict *verdict);
/* Total norm of scaler->list * r over all ranks. ready != NULL: what a sweep has left for p = 1, 2 or infinity. */
gsc_status gsc__ranks_norm(gsc_scaler *scaler, double r, double p, const gsc__norm_sums *ready, double *norm);
/* For a rank that refused a gradient while the others wait in gsc__ranks_norm. */
void gsc__ranks_norm_refused(gsc_scaler *scaler, double p);

/* report.c */
typedef enum gsc__overflow_source {
    GSC_OVERFLOW_HERE,      /* in this rank's gradients */
    GSC_OVERFLOW_ELSEWHERE, /* in another rank's alone */
    GSC_OVERFLOW_RECORDED   /* the caller says so */
} gsc__overflow_source;
gsc_status gsc__report_reserve(gsc_scaler *scaler, gsc__record *record, size_t grads);
/* Reads this rank's gradients once more (times r), notes those that are not finite, tells the observer. */
void gsc__report_overflow(gsc_scaler *scaler, gsc__record *record, double r, gsc__overflow_source source);
void gsc__report_forget(gsc_scaler *scaler, gsc__report *report);
void gsc__reports_free(gsc_scaler *scaler);

/* unscale.c */
double gsc__inverse_scale(const gsc_scaler *scaler);
typedef struct gsc__exam {
    const char *caller;
    bool writes;          /* unscale in place; false: only look */
    bool want_norm;       /* the list will be asked for a norm afterwards */
    double p;             /* 1, 2 or infinity: take the norm on the way; 0: do not */
    gsc__norm_sums *sums; /* where it goes */
} gsc__exam;
/* Checks (and unscales) a READY optimizer's gradients, agrees with the other ranks, reports an overflow. */
gsc_status gsc__examine(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc__exam *exam, gsc__record **out);
gsc_status gsc__do_unscale(gsc_scaler *scaler, const gsc_optimizer *optimizer);
gsc_status gsc__do_record(gsc_scaler *scaler, const gsc_optimizer *optimizer, bool found_inf);
/* The ranks could not agree on this optimizer's gradients, or on their norm: step will skip. Returns status. */
gsc_status gsc__disagree(gsc_scaler *scaler, gsc__record *record, gsc_status status);
gsc_status gsc__require_ready(const gsc_scaler *scaler, const gsc_optimizer *optimizer, const char *caller);

/* clip.c */
/* Clips what is in scaler->list, with the norm over all ranks. record NULL: the scaler is disabled. */
gsc_status gsc__clip_list(gsc_scaler *scaler, gsc__record *record, double max_norm, double p, double *norm);
/* Collects an optimizer's unscaled gradients and clips them. */
gsc_status gsc__clip_unscaled(gsc_scaler *scaler, const gsc_optimizer *optimizer, double max_norm, double p,
                              const char *caller, double *norm);
gsc_status gsc__do_clip(gsc_scaler *scaler, const gsc_optimizer *optimizer, double max_norm, double p, double *norm);

/* step.c */
gsc_status gsc__do_step(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc_step_args *args,
                        gsc_step_result *result);
gsc_status gsc__do_skip(gsc_scaler *scaler, const gsc_optimizer *optimizer);

/* update.c */
gsc_status gsc__do_update(gsc_scaler *scaler);
gsc_status gsc__do_update_to(gsc_scaler *scaler, double new_scale);

/* state.c */
gsc_status gsc__do_load_state(gsc_scaler *scaler, const gsc_scaler_state *in);

#endif
