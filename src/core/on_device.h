/* SPDX-License-Identifier: Apache-2.0 */
/* on_device.h: a scaler whose numbers lie on a device: what core/device*.c offer one another and the rest of the core.
 *
 * The files stand in the order in which they may call each other, as those of internal.h. */
#ifndef GSC_CORE_ON_DEVICE_H
#define GSC_CORE_ON_DEVICE_H

#include "core/backend.h"
#include "gradients/list.h"
#include "gradients/pairs.h"

typedef struct gsc__record gsc__record;
typedef struct gsc__check_request gsc__check_request;

/* device_tensors.c: what a module is told of tensors. Starts zeroed. */
typedef struct gsc__device_tensors {
    gsc__device_tensor *list;
    size_t count, capacity;
    gsc__device_dim *dims; /* of all of them */
    size_t dim_capacity;
} gsc__device_tensors;
/* Whether they are those of the list that are not on the CPU. */
bool gsc__device_tensors_match(const gsc__device_tensors *tensors, const gsc__list *list);
/* Become those. GSC_ERR_MEMORY: there were never so many. */
gsc_status gsc__device_tensors_take(gsc__device_tensors *tensors, const gsc__list *list);
/* in and out become the tensors of the checked pairs that are on a device and not empty, as gsc_backend.scale takes
 * them. */
gsc_status gsc__device_tensors_take_pairs(gsc__device_tensors *in, gsc__device_tensors *out, const gsc__pair *pairs,
                                          size_t n);
void gsc__device_tensors_free(gsc__device_tensors *tensors);

/* What a scaler on a device keeps. NULL in those on the CPU. */
typedef struct gsc__device_part {
    const gsc_backend *backend;
    gsc__device *device;
    gsc_scaler *scaler; /* getters may change what they have brought from the device */
    gsc__served served;
    uint64_t records;             /* that were made so far: their numbers are 1 … records */
    gsc__device_record *refusals; /* with comm: takes part in collectives where this rank refuses its gradients */
    gsc__device_snapshot seen;    /* the last one; its log is below */
    gsc__device_happening log[GSC_DEVICE_LOG];
    uint64_t told; /* happenings that the observer has heard of, or that were lost before */
    bool is_telling;
    uint64_t halts;              /* that were reported */
    gsc__list host;              /* of the running call's gradients, those on the CPU */
    gsc__device_tensors in, out; /* of gsc_scaler_scale */
    gsc__pair *pairs;
    size_t pair_capacity;
} gsc__device_part;

/* The first of so many happenings that is still in the log. */
static inline uint64_t gsc__device_oldest(uint64_t happenings)
{
    return happenings > GSC_DEVICE_LOG ? happenings - GSC_DEVICE_LOG : 0;
}

/* Happening i of those that were seen; NULL: it is lost. */
static inline const gsc__device_happening *gsc__device_happening_at(const gsc__device_part *part, uint64_t i)
{
    const gsc__device_happening *happening = &part->log[i % GSC_DEVICE_LOG];
    return happening->number == i + 1 ? happening : NULL;
}

/* What it knows of an optimizer. Starts zeroed. */
typedef struct gsc__device_use {
    gsc__device_record *record; /* NULL: not checked so far */
    uint64_t number;
    gsc__device_tensors sent; /* what the module was handed last, */
    bool is_sent;             /* if that succeeded */
    bool is_here;             /* all gradients of the last check are on the scaler's own device, and there are some */
    bool is_word;             /* that check was gsc_scaler_record */
    bool has_coefficient;     /* the multiplier has one from a clip that was not in place */
    bool has_host_norm;       /* the norm is below, since some gradients are on the CPU */
    double host_norm;
    gsc_overflow *host_entries; /* report of the gradients on the CPU, by index, without names */
    size_t host_count, host_capacity;
    size_t before_count; /* while they are noted: those of the overflow just before, of all gradients, behind them */
    uint64_t host_check; /* the record's check that found them; 0: none */
} gsc__device_use;

/* device_part.c: a module's device and records, and bringing numbers from there. */
gsc_status gsc__device_check_options(const gsc_scaler_options *options, const char *api);
/* After the options have been checked and copied. */
gsc_status gsc__device_create(gsc_scaler *scaler);
void gsc__device_destroy(gsc_scaler *scaler); /* after the records */
/* Makes the module's part of a record, unless it is there. */
gsc_status gsc__device_open(gsc_scaler *scaler, gsc__record *record, const char *api);
void gsc__device_close(gsc_scaler *scaler, gsc__record *record);
/* Enqueue another state of the scaler; an enabled one's, the latter two, after which no halt of before is told. */
gsc_status gsc__device_set_rules(gsc_scaler *scaler, const gsc_scaler_options *options, const char *api);
gsc_status gsc__device_load(gsc_scaler *scaler, const gsc_scaler_options *options, const gsc__schedule *schedule,
                            const char *api);
gsc_status gsc__device_update_to(gsc_scaler *scaler, float new_scale, const char *api);
/* Waits. Of a view with one element. */
gsc_status gsc__device_read_element(gsc_scaler *scaler, const gsc__view *view, double *value, const char *api);
/* Puts the public function in front of a module's message. Returns status. */
gsc_status gsc__device_status(gsc_status status, const char *api);
/* Brings the scaler's schedule and stats up to date: waits. */
gsc_status gsc__device_settle(const gsc_scaler *scaler, const char *api);
/* To those that have arrived. */
void gsc__device_peek(const gsc_scaler *scaler);
/* After settle. Zeros for a record without a part of the module. */
gsc__device_verdict gsc__device_verdict_of(const gsc_scaler *scaler, const gsc__record *record);
/* After settle: the record's fields on its last check become those of the verdict. */
void gsc__device_learn(gsc_scaler *scaler, gsc__record *record);
gsc_status gsc__device_set_stream(gsc_scaler *scaler, DLDevice device, void *stream, const char *api);

/* device_scale.c: does what gsc_scaler_scale and gsc_scaler_scale_list are for. subject: of each `in`. */
gsc_status gsc__device_scale(const gsc_scaler *scaler, const DLTensor *const *in, DLTensor *const *out, size_t n,
                             const gsc__message_subject *subject);
/* And gsc_scaler_scale_view. */
gsc_status gsc__device_scale_view(gsc_scaler *scaler, DLDevice device, DLTensor *out, const char *api);

/* device_ranks.c: collectives on values that lie on the device. */
/* After a scan: agrees with the other ranks, and decides. *failed: a collective did, with this status. */
gsc_status gsc__device_agree(gsc_scaler *scaler, gsc__record *record, const char *api, bool *failed);
/* Enters that collective for a rank that refuses. The message stays. */
void gsc__device_refuse(gsc_scaler *scaler);
/* Of shards. */
gsc_status gsc__device_reduce_norm(gsc_scaler *scaler, gsc__record *record, double p, const char *api, bool *failed);
/* Enters those collectives, or only the last one, for a rank that refuses. The message stays. */
void gsc__device_refuse_norm(gsc_scaler *scaler, double p, bool only_sums);

/* Before a refusal whose effect depends on the last check. The message stays. */
void gsc__device_try_to_learn(gsc_scaler *scaler, gsc__record *record);

/* device_host.c: gradients on the CPU. */
/* part->host becomes those of scaler->list. */
gsc_status gsc__device_take_host(gsc_scaler *scaler, const char *api, bool want_norm);
/* Sweeps them, notes what is not finite, fills in the scan. Waits for the scale if there are some. */
gsc_status gsc__device_sweep_host(gsc_scaler *scaler, gsc__record *record, gsc__device_scan *scan, const char *api);
/* Norm of these and of those on devices, whose norm is `device`. */
double gsc__device_total_norm(gsc_scaler *scaler, double p, double device);

/* device_check.c */
/* The device's part of gsc__check_gradients. status: how collecting them went. Gradients elsewhere than on the scaler's
 * own device, and none, are unscaled also where the request does not ask for it: then the stage is UNSCALED. */
gsc_status gsc__device_check(gsc_scaler *scaler, gsc__record *record, const gsc__check_request *request,
                             gsc_status status);
/* The same with the caller's word for it. */
gsc_status gsc__device_record_check(gsc_scaler *scaler, gsc__record *record, bool found_inf, const char *api);
/* The gradients of scaler->list, unscaled or a disabled scaler's, are those that a clip is for. */
gsc_status gsc__device_replace(gsc_scaler *scaler, gsc__record *record, const char *api);

/* device_clip.c */
typedef struct gsc__device_clip_request {
    const char *api;
    double p, max_norm;
    gsc__device_clip_use use;
} gsc__device_clip_request;
/* Waits only where some gradients are on the CPU. */
gsc_status gsc__device_clip(gsc_scaler *scaler, gsc__record *record, const gsc__device_clip_request *request);
/* After settle: the norm before the last clip. */
double gsc__device_norm(const gsc_scaler *scaler, const gsc__record *record);

/* device_stream.c. *stream: for the plain step, as gsc_step_args has it. collected: the call has the gradients in its
 * list if it has sent one. */
gsc_status gsc__device_step_stream(gsc_scaler *scaler, const gsc__record *record, bool collected, const char *api,
                                   void **stream);

/* device_report.c */
/* After settle. The report of the record's last overflow is in record->report then. optimizer: whose names it gets,
 * NULL: none. Waits if it is not here already. */
gsc_status gsc__device_fetch_report(const gsc_scaler *scaler, gsc__record *record, const gsc_optimizer *optimizer,
                                    const char *api);
/* For getters: settles, and fetches it. After a failure of the device the message stays, and an overflow is assumed. */
void gsc__device_bring_report(const gsc_scaler *scaler, gsc__record *record, const char *api);
bool gsc__device_overflowed(const gsc_scaler *scaler, const gsc__record *record, const char *api);
/* Waits. scaler->overflow_text describes the overflows of the last iteration that had some. */
gsc_status gsc__device_describe_overflows(gsc_scaler *scaler, const char *api);

/* device_events.c */
/* Calls the observer for each event that has arrived, once. */
void gsc__device_tell(gsc_scaler *scaler);
/* Fails with the reason if the device has halted since this was last asked for, and has it go on. */
gsc_status gsc__device_halted(gsc_scaler *scaler, const char *api);
/* Waits, then does both. */
gsc_status gsc__device_catch_up(const gsc_scaler *scaler, const char *api);
/* Waits for a record's last check, and fails where the ranks cannot go on with it. optimizer: not NULL while its names
 * can be had: the report of an overflow is fetched. */
gsc_status gsc__device_know(gsc_scaler *scaler, gsc__record *record, const gsc_optimizer *optimizer, const char *api);

#endif
