/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h: the scaler's own structures, and what its files offer one another.
 *
 * The files stand in the order in which they may call each other: one that stands later calls those before it. The
 * public functions stand in the file of their topic; scaler.c, scale.c and getters.c have nothing else and come last.
 */
#ifndef GSC_CORE_INTERNAL_H
#define GSC_CORE_INTERNAL_H

#include <math.h>

#include "base/fpenv.h"
#include "base/message.h"
#include "base/reserved.h"
#include "base/try.h"
#include "core/arrays.h"
#include "core/claims.h"
#include "core/extents.h"
#include "core/on_device.h"
#include "core/schedule.h"
#include "gradients/list.h"
#include "gradients/norm.h"
#include "gradients/sweep.h"
#include "gradscaler/scaler.h"

/* The gradients of an optimizer's last overflow on this rank. */
typedef struct gsc__report {
    gsc_overflow *entries;
    size_t count, capacity;
    size_t previous;          /* while entries are added: the first one left of the overflow before */
    uint64_t check;           /* the record's check that found the overflow */
    struct gsc__names *names; /* what entries[].name point into */
} gsc__report;

typedef enum gsc__record_use {
    GSC_USED_BY_NOBODY,    /* so far the key has only been compared */
    GSC_USED_AS_OPTIMIZER, /* the key is an optimizer's address */
    GSC_USED_WITH_BUFFERS  /* it stands for arrays that come with each call, and is never read */
} gsc__record_use;

/* Why the ranks cannot go on with an optimizer's gradients. */
typedef enum gsc__comm_failure {
    GSC_COMM_FINE,
    GSC_COMM_REFUSED_HERE,      /* this rank refused a gradient */
    GSC_COMM_REFUSED_ELSEWHERE, /* another one did */
    GSC_COMM_SCALES_DIFFER,
    GSC_COMM_COLLECTIVE_FAILED
} gsc__comm_failure;

/* What a scaler knows about one optimizer. */
struct gsc__record {
    const void *key; /* the optimizer's address, or the caller's key for arrays */
    gsc__record_use use;
    const gsc_optimizer *optimizer;        /* whose callbacks the running call uses; else it may be gone */
    uint64_t iteration;                    /* which the stage and the flags below belong to */
    gsc_stage stage;                       /* set by gsc__record_set_stage */
    bool step_failed;                      /* since the last update */
    bool claim_added;                      /* the scaler's claims have it: */
    uint64_t claim;                        /* the number of the last check; 0: none since the last update */
    const char *claimed_by;                /* the function that made it */
    size_t claimed_count, claimed_present; /* gradients then, and how many of them had elements */
    struct gsc__record *previous_unscaled, *next_unscaled; /* the other UNSCALED ones */
    size_t grad_count;                                     /* what the optimizer's grad_count last returned */
    bool has_grads;                                        /* the last check saw a gradient, on this rank */
    bool checked;                                          /* on any rank */
    bool found_inf;                                        /* the last check found an overflow: step will skip */
    bool overflowed;                /* a check since the last update found one: what gsc_scaler_found_inf returns */
    bool partly_written;            /* an exception interrupted a loop that writes the gradients: no step */
    gsc__comm_failure comm_failure; /* since the last update; unless fine, step will skip */
    uint64_t check;                 /* the number of checks so far */
    double max_abs;                 /* that the last check saw */
    double scale;                   /* that the gradients carried then */
    bool has_result;
    gsc_step_result result;
    gsc__report report;
    gsc__extents extents; /* of the last checked list; not valid: that is in scaler->list, or forgotten */
    gsc__device_use device;
};

/* All records of a scaler. */
typedef struct gsc__records {
    gsc__record **slots;
    size_t slot_count, count;
    uint64_t iteration;    /* the number of iterations before this one */
    size_t busy;           /* records that are not READY */
    gsc__record *unscaled; /* the UNSCALED ones, linked */
} gsc__records;

/* What the next update depends on. Kept apart from the records, since they may be forgotten before it. */
typedef struct gsc__pending {
    bool recorded;    /* some optimizer was unscaled, recorded, stepped or skipped */
    bool checked;     /* some gradient was checked, on any rank */
    bool overflow;    /* and some was not finite */
    uint64_t repeats; /* of the gradient that has overflowed most often in a row with the same counts */
    bool comm_failed; /* a collective failed, a rank refused a gradient, or the ranks' scales differ: nothing counts */
} gsc__pending;

/* What the running call does, for the exception that may interrupt it. */
typedef enum gsc__activity {
    GSC_IDLE,       /* nothing that needs more than a callback's failure does */
    GSC_COLLECTING, /* asks for gradients or reads them; the other ranks will wait in gsc__ranks_agree */
    GSC_UNSCALING,  /* writes them; the other ranks as before */
    GSC_REPORTING,  /* an overflow, on which all ranks have agreed */
    GSC_MEASURING,  /* asks for gradients or reads them; the other ranks will wait in gsc__ranks_norm */
    GSC_SUMMING,    /* the same behind its first collective, where it has two */
    GSC_CLIPPING,   /* writes gradients */
    GSC_REDUCING    /* is in a collective */
} gsc__activity;

typedef struct gsc__progress {
    gsc__activity activity;
    gsc__record *record;  /* whose gradients; NULL: a disabled scaler's */
    double p;             /* of the norm */
    bool collective_said; /* the last collective has left a message */
} gsc__progress;

struct gsc_scaler {
    gsc_scaler_options options; /* limits and init_scale are rounded to float32; .comm is &comm */
    gsc__schedule_rules rules;  /* those of the options: gsc__set_options keeps both */
    gsc_comm comm;
    gsc__schedule schedule; /* .scale: 1 while disabled; gsc_scaler_scale_view points there */
    gsc_scaler_stats stats; /* but for consecutive_skips, which is in the schedule */
    gsc__pending pending;
    gsc__skip_window window;
    uint64_t *window_words;  /* NULL: skip_window is 0 */
    int32_t window_most;     /* as many overflows in a full window are allowed: the greatest share <= max_skip_share */
    char overflow_text[384]; /* describes this iteration's overflows */
    char last_overflow_text[384];     /* those of the last update that had some, for GSC_ERR_DIVERGED */
    uint64_t last_repeats;            /* pending.repeats then */
    struct gsc__names *retired_names; /* no report needs them, but callers may hold some until the next overflow */
    gsc__records records;
    gsc__arrays arrays;       /* of the call that is running, as tensors */
    gsc__list list;           /* the gradients of the call that is running */
    gsc__record *list_record; /* whose last checked list is in `list`; NULL: nobody's */
    bool list_is_last;        /* `list` is what its optimizer's last check saw */
    bool list_is_copied;      /* its optimizer's extents are those of `list`, valid once it has passed all checks */
    size_t list_present;      /* gradients with elements, those that are listed twice included */
    gsc__claims claims;       /* of this iteration; complete only where they are needed */
    uint64_t claim_count;     /* of all iterations */
    gsc__progress progress;
    int callbacks; /* how many of this scaler are running, one inside the other */
    bool closed;   /* a callback is running that may call const functions only */
    gsc__device_part
        *device; /* NULL: on the CPU. Else the schedule and stats above may lag, and what of the records and
                    of `pending` depends on a check's result is known only where this has been settled */
    const gsc__served *served; /* besides the CPU; NULL: none */
    bool in_env;               /* in the library's floating-point environment */
    gsc__fpenv callers_env;    /* what to go back to from there */
};

static inline gsc__schedule_rules gsc__rules_of(const gsc_scaler_options *options)
{
    return (gsc__schedule_rules){.growth_factor = options->growth_factor,
                                 .backoff_factor = options->backoff_factor,
                                 .growth_interval = options->growth_interval,
                                 .init_scale = (float)options->init_scale,
                                 .min_scale = (float)options->min_scale,
                                 .max_scale = (float)options->max_scale,
                                 .hysteresis = options->hysteresis,
                                 .hysteresis_until_growth = options->hysteresis_until_growth};
}

static inline void gsc__set_options(gsc_scaler *scaler, const gsc_scaler_options *options)
{
    scaler->options = *options;
    scaler->rules = gsc__rules_of(options);
}

/* With allreduce_sum, each rank holds a shard of the gradients. Without it, all hold the same gradients, and each rank
 * computes the norm alone. */
static inline bool gsc__is_sharded(const gsc_scaler *scaler)
{
    return scaler->options.comm && scaler->comm.allreduce_sum;
}

/* Whether the ranks must agree on a power of two before they sum shards for this norm. */
static inline bool gsc__norm_needs_exponent(double p) { return p != 1.0 && p != 2.0 && !isinf(p); }

/* Arithmetic. */
static inline double gsc__inverse_scale(const gsc_scaler *scaler)
{
    return gsc__fpenv_pin(1.0 / gsc__fpenv_pin((double)scaler->schedule.scale));
}

/* environment.c: the library's floating-point environment, and callbacks.
 *
 * Arithmetic begins with gsc__env_enter. Callbacks go back to the caller's environment, and so does gsc__env_leave,
 * with which every public function returns that may have entered; those that call back do so by GSC_CALL_SCOPE.
 * Entering where arithmetic begins, instead of at the beginning of each public function and again after each callback,
 * is worth it: scale, step and update of one small gradient take 120 ns this way and 146 ns that way. */
void gsc__env_enter(gsc_scaler *scaler);                          /* again: no effect */
gsc_status gsc__env_leave(gsc_scaler *scaler, gsc_status status); /* returns status */
/* A callback runs between these two, in the caller's environment, with the scaler closed to it. */
void gsc__callback_begin(gsc_scaler *scaler);
void gsc__callback_end(gsc_scaler *scaler);
/* Calls grad_count. */
size_t gsc__count_gradients(gsc_scaler *scaler, const gsc_optimizer *optimizer);
/* Calls the observer. record: of an OVERFLOW, else NULL. */
void gsc__tell_observer(gsc_scaler *scaler, const gsc_event *event); /* there is one */
void gsc__emit(gsc_scaler *scaler, gsc_event_kind kind, int64_t update, const gsc__record *record, double scale_before);

/* options.c */
gsc_status gsc__check_options(gsc_scaler_options *options); /* rounds the limits and init_scale */
gsc_status gsc__check_device(DLDevice device, const char *api);
gsc_status gsc__check_growth_factor(double factor, const char *api);
gsc_status gsc__check_backoff_factor(double factor, const char *api);
gsc_status gsc__check_growth_interval(int64_t interval, const char *api);
/* Rounds *scale to float32 and demands low <= *scale <= high. `what` is the beginning of the message. */
gsc_status gsc__round_scale(double *scale, double low, double high, const char *what);

/* window.c: as the options say. The caller has entered the environment. GSC_ERR_MEMORY */
gsc_status gsc__window_create(gsc_scaler *scaler);

/* report.c: which gradients overflowed. */
typedef enum gsc__overflow_source {
    GSC_OVERFLOW_HERE,      /* this rank's gradients overflowed */
    GSC_OVERFLOW_ELSEWHERE, /* only another rank's */
    GSC_OVERFLOW_RECORDED,  /* the caller's own kernels found it */
    GSC_OVERFLOW_FORGOTTEN  /* the optimizer's, of which nothing is known any more */
} gsc__overflow_source;
/* Begins with another overflow's names. */
void gsc__report_begin(gsc_scaler *scaler, gsc__report *report);
/* Returns the copy of a name; NULL without one, or without memory for it. */
const char *gsc__report_keep_name(gsc_scaler *scaler, gsc__report *report, const char *name);
/* Adds it to scaler->overflow_text. */
void gsc__report_describe(gsc_scaler *scaler, const gsc__report *report, gsc__overflow_source source);
/* Makes room for `grads` entries and the names of all. */
gsc_status gsc__report_reserve(gsc_scaler *scaler, gsc__record *record, size_t grads);
/* Reads this rank's gradients once more (times r), notes those that are not finite, tells the observer. */
void gsc__report_overflow(gsc_scaler *scaler, gsc__record *record, double r, gsc__overflow_source source);
void gsc__report_free(gsc_scaler *scaler, gsc__report *report); /* retires its names */
void gsc__retired_names_free(gsc_scaler *scaler);

/* records.c: the optimizers that a scaler knows. */
gsc__record *gsc__record_find(const gsc_scaler *scaler, const void *key); /* NULL: not known */
gsc_status gsc__record_get(gsc_scaler *scaler, const void *key, gsc__record **out);
void gsc__record_set_stage(gsc_scaler *scaler, gsc__record *record, gsc_stage stage);
void gsc__record_remove(gsc_scaler *scaler, gsc__record *record);
/* Who makes a call that uses gradients. */
typedef struct gsc__user {
    const char *api;
    const void *key; /* what the scaler knows it by */
    gsc__record_use use;
    const gsc_optimizer *optimizer; /* whose callbacks are used; key itself if GSC_USED_AS_OPTIMIZER */
    const gsc_buffer *buffers;      /* if GSC_USED_WITH_BUFFERS */
    size_t count;                   /* of buffers */
} gsc__user;
static inline gsc__user gsc__optimizer_user(const gsc_optimizer *optimizer, const char *api)
{
    return (gsc__user){.api = api, .key = optimizer, .use = GSC_USED_AS_OPTIMIZER, .optimizer = optimizer};
}
/* Prepares the record for such a call; makes it where *record is NULL, not known. */
gsc_status gsc__record_open(gsc_scaler *scaler, const gsc__user *user, gsc__record **record);
/* Some of a record's gradients may be unscaled or clipped, and others not: it is UNSCALED, and no step may follow. */
void gsc__note_written(gsc_scaler *scaler, gsc__record *record);
bool gsc__records_all_ready(const gsc_scaler *scaler);
/* Begins the next iteration: all READY, nothing pending. */
void gsc__records_reset(gsc_scaler *scaler);
void gsc__records_free(gsc_scaler *scaler);

/* collect.c: fills scaler->list with an optimizer's gradients, each checked. Needs no environment. */
typedef struct gsc__collect_rules {
    const char *api;
    bool claims; /* this list is the record's last one from now on */
    bool allow_fp16;
    bool want_norm; /* the list will be asked for a norm */
} gsc__collect_rules;
gsc_status gsc__check_step_callback(const gsc_optimizer *optimizer, const char *api);
gsc_status gsc__collect(gsc_scaler *scaler, gsc__record *record, const gsc__collect_rules *rules);

/* misuse.c */
/* Whether the environment variable GSC_STRICT is 1. */
bool gsc__strict_environment(void);
/* Before scaler->list gets other views: the extents of an UNSCALED record that are only there are copied. */
gsc_status gsc__keep_extents(gsc_scaler *scaler);
/* scaler->list has a READY optimizer's gradients, which `api` is about to use: refuses (GSC_ERR_STATE) memory that
 * another optimizer has claimed, else claims it. */
gsc_status gsc__claim_gradients(gsc_scaler *scaler, gsc__record *record, const char *api);
/* Refuses (GSC_ERR_STATE) the step of an UNSCALED optimizer one of whose gradients was not checked. */
gsc_status gsc__check_same_gradients(gsc_scaler *scaler, gsc__record *record, const char *api);

/* collective.c */
typedef int gsc__reduction(void *self, DLTensor *values, void *stream);
/* Returns what the collective returned: 0 on success. Leaves the library's environment. */
int gsc__collective(gsc_scaler *scaler, gsc__reduction *reduction, DLTensor *values, void *stream);
/* These fail with GSC_ERR_COMM: a collective returned `failure`; another rank refused; the scales differ. */
gsc_status gsc__collective_failed(const gsc_scaler *scaler, int failure);
gsc_status gsc__refused_elsewhere(void);
gsc_status gsc__scales_differ(float here, float least, float greatest);

/* ranks.c: the collectives, which note themselves in scaler->progress. Afterwards the library's environment is entered.
 */
typedef struct gsc__agreement {
    bool found_inf, checked, failed;
    gsc__comm_failure failure; /* why gsc__ranks_agree fails */
} gsc__agreement;
/* The one collective of a check: what this rank saw becomes what any rank saw. An error means that the ranks cannot go
 * on together; its message says why, unless this rank itself has failed and left a message. */
gsc_status gsc__ranks_agree(gsc_scaler *scaler, gsc__agreement *agreement);
/* Enters that collective for a rank that could not begin its check. The message of its failure stays. record NULL:
 * there was no memory for one. */
void gsc__ranks_refuse(gsc_scaler *scaler, gsc__record *record);
/* Total norm of scaler->list * r over all ranks. known: this rank's sums where an earlier pass has them, else NULL. */
/* record NULL: the scaler is disabled. After an error, step will skip. */
gsc_status gsc__ranks_norm(gsc_scaler *scaler, gsc__record *record, double r, double p, const gsc__norm_sums *known,
                           double *norm);
/* Enters the collectives of gsc__ranks_norm for a rank that refused a gradient, because the others wait there. Its step
 * will skip, as theirs. */
void gsc__ranks_norm_refused(gsc_scaler *scaler, gsc__record *record, double p);

/* Those that are left where progress is GSC_SUMMING. */
void gsc__ranks_sums_refused(gsc_scaler *scaler, gsc__record *record, double p);
/* The ranks cannot go on with this optimizer's gradients: step will skip. Returns status. */
gsc_status gsc__ranks_failed(gsc_scaler *scaler, gsc__record *record, gsc__comm_failure failure, gsc_status status);

/* unwind.c: exceptions that pass through a public function: C++'s, a thread's cancellation or exit.
 *
 * A function that calls back, or runs a host's parallel-for, has GSC_CALL_SCOPE in its body. At its end this goes back
 * to the caller's environment. Where an exception ends it, it brings the scaler into the state that a failure would
 * have left, and enters the collective in which the other ranks wait. */
typedef struct gsc__call {
    gsc_scaler *scaler;
    int callbacks; /* scaler->callbacks at the beginning: the step of a disabled scaler may call functions */
} gsc__call;
void gsc__call_interrupted(const gsc__call *call);

static inline void gsc__call_end(const gsc__call *call)
{
    if (call->scaler->progress.activity != GSC_IDLE || call->scaler->callbacks != call->callbacks)
        gsc__call_interrupted(call);
    (void)gsc__env_leave(call->scaler, GSC_OK);
}

#define GSC_CALL_SCOPE(of)                                                                                             \
    __attribute__((unused, cleanup(gsc__call_end))) const gsc__call call_scope = {(of), (of)->callbacks}

/* unscale.c */
/* record NULL: not known, so READY. */
gsc_status gsc__require_ready(const gsc__record *record, const char *api);
/* Fails with the reason for record->comm_failure, which is not fine. */
gsc_status gsc__refuse_comm(const gsc__record *record, const char *api);
struct gsc__check_request {
    const char *api;
    bool unscales;        /* in place; else the gradients are only read */
    bool want_norm;       /* the list will be asked for a norm */
    double p;             /* 1, 2 or infinity: add up this norm in the same pass; 0: none */
    gsc__norm_sums *sums; /* that pass's */
};
/* Checks (and unscales) a READY optimizer's gradients, agrees with the other ranks, reports an overflow. The gradients
 * stay in scaler->list. */
gsc_status gsc__check_gradients(gsc_scaler *scaler, gsc__record *record, const gsc__check_request *request);

/* An exception left the gradients written in part, and the ranks, if there are any, do not know: a step would use them.
 */
gsc_status gsc__require_whole(const gsc__record *record, const char *api);
/* Does what gsc_scaler_unscale is for. record NULL: not known. */
gsc_status gsc__unscale(gsc_scaler *scaler, const gsc__user *user, gsc__record *record);

/* clip.c */
/* Clips what is in scaler->list, with the norm over all ranks. record NULL: the scaler is disabled. norm NULL: not
 * wanted. */
gsc_status gsc__clip_list(gsc_scaler *scaler, gsc__record *record, double max_norm, double p, double *norm);
/* Collects an optimizer's gradients, unscaled or a disabled scaler's; p: of the norm in which the other ranks will
 * wait.
 */
gsc_status gsc__clip_collect(gsc_scaler *scaler, gsc__record *record, double p, const char *api);
/* Hands what gsc__clip_collect has collected to the device. */
gsc_status gsc__clip_hand_over(gsc_scaler *scaler, gsc__record *record, double p, const char *api);
/* Collects an optimizer's unscaled gradients and clips them. norm NULL: not wanted, on a device alone. */
gsc_status gsc__clip_unscaled(gsc_scaler *scaler, gsc__record *record, double max_norm, double p, const char *api,
                              double *norm);

/* divergence.c: fail with GSC_ERR_DIVERGED, for so many overflows. */
gsc_status gsc__diverged_in_a_row(const gsc_scaler *scaler, int64_t skips);
gsc_status gsc__diverged_in_window(const gsc_scaler *scaler, int32_t overflows, int32_t filled);

/* step.c: does what gsc_scaler_step is for. record NULL: not known. */
gsc_status gsc__step(gsc_scaler *scaler, const gsc__user *user, gsc__record *record, const gsc_step_args *args,
                     gsc_step_result *result);

#endif
