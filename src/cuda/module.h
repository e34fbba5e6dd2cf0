/* SPDX-License-Identifier: Apache-2.0 */
/* module.h: the module's part of a scaler and of its optimizers' records. */
#ifndef GSC_CUDA_MODULE_H
#define GSC_CUDA_MODULE_H

#include "base/try.h"
#include "cuda/context.h"
#include "cuda/shared.h"

/* A scaler's part on one device. */
typedef struct gsc__cuda_site {
    struct gsc__cuda_site *next; /* the scaler's own device first */
    gsc__cuda_context *context;
    CUstream stream;
    CUevent event;    /* for others that wait for this site's stream */
    float *scale;     /* on other devices than the scaler's: a copy; NULL: none yet */
    bool shows_scale; /* gsc_scaler_scale_view: the copy follows each change */
} gsc__cuda_site;

struct gsc__device {
    gsc__cuda_site *sites;
    bool enabled, has_comm;
    gsc__cuda_state *state;                      /* on the scaler's device */
    gsc__cuda_shot *shot, *shot_on_device;       /* of the host, and how the device sees it */
    gsc__device_record *records, *spare_records; /* spare: destroyed, with all their memory, for the next one */
    /* What peek and settle have returned. */
    uint64_t version_seen, happenings_seen;
    uint64_t fresh_starts; /* enqueued so far: halts of snapshots from before the last one do not count */
    gsc__device_happening log[GSC_DEVICE_LOG];
    int64_t settled_epoch;
    gsc__device *next_left; /* destroyed during a capture, too */
};

/* Device memory that grows. What it was before stays allocated, since enqueued work and captured graphs may use it. */
typedef struct gsc__cuda_buffer {
    CUdeviceptr address;
    size_t capacity; /* bytes */
} gsc__cuda_buffer;

/* A record's tensors on one device. */
typedef struct gsc__cuda_part {
    struct gsc__cuda_part *next; /* that on the scaler's device first */
    gsc__cuda_site *site;
    gsc__cuda_table table;
    gsc__cuda_buffer tensors, dims, item_tensors, partials, counts;
    gsc__cuda_pass *passes; /* on the site's device; on the scaler's: the slot's */
    /* Other devices: copies of what they found, on the scaler's device. */
    gsc__cuda_pass *home_pass;
    gsc__cuda_buffer home_counts;
    /* The table as it is made on the host. */
    gsc__cuda_tensor *host_tensors;
    gsc__device_dim *host_dims;
    size_t tensor_capacity, dim_capacity; /* of these two */
    size_t tensor_count, dim_count;
    uint64_t item_count;
} gsc__cuda_part;

/* What is enqueued for norms of the tensors that were scanned or replaced last. */
typedef struct gsc__cuda_norm_progress {
    bool failed;
    bool unscaled;               /* norms are of the elements as they are, else of the check's products */
    bool has_check, has_measure; /* these passes have the tensors' maxima */
    double check_p, measure_p;   /* and these sums; 0: none */
    double exponent_p;           /* slot->norm_value is the exponent for it; 0: for none */
    double reduced_p;            /* slot's values are what ranks have reduced for it; 0: for none */
    gsc__cuda_norm_kind reduced_kind;
} gsc__cuda_norm_progress;

struct gsc__device_record {
    gsc__device_record *next;
    gsc__device *device;
    gsc__cuda_slot *slot;    /* on the scaler's device */
    gsc__cuda_slot *settled; /* of the host: a copy, as settle has found it */
    gsc__cuda_part *parts;
    gsc__cuda_buffer entries;
    size_t grad_count;
    CUdeviceptr *outgrown; /* memory that was too small */
    CUcontext *outgrown_contexts;
    size_t outgrown_count;
    bool is_captured; /* a graph may change the tables: they are sent each time */
    bool is_listed;   /* the tables hold the list of the last scan or replace */
    bool is_counted;  /* a scan has counted, and no verdict has emptied the counts */
    gsc__cuda_norm_progress norm;
    int64_t value_count; /* the shape of what ranks reduce */
    DLTensor multiplier, multiplier64, found_inf;
    int64_t one; /* their shape */
};

/* capture.c */
/* GSC_ERR_STATE where the site's stream is being captured. what: "allocate memory …", "wait …". Inside enter. */
gsc_status gsc__cuda_refuse_capture(const gsc__cuda_site *site, const char *what);

/* device.c */
/* The site on that device; made where it is not there yet. */
gsc_status gsc__cuda_site_get(gsc__device *device, int32_t device_id, gsc__cuda_site **out);
/* What is enqueued on `later` from now on waits for what was enqueued on `earlier`. In any context. */
gsc_status gsc__cuda_site_wait(const gsc__cuda_site *later, const gsc__cuda_site *earlier);
/* The copies of the scale that views show follow it. */
gsc_status gsc__cuda_show_scale(gsc__device *device);
/* Refreshes the site's copy of the scale, for what the site enqueues next. */
gsc_status gsc__cuda_copy_scale(gsc__device *device, gsc__cuda_site *site);

/* record.c */
/* At least so many bytes of memory on the site, all zero where it is new. Not inside enter. */
gsc_status gsc__cuda_reserve(gsc__device_record *record, const gsc__cuda_site *site, gsc__cuda_buffer *buffer,
                             size_t bytes);
void gsc__cuda_record_free(gsc__device_record *record);
/* What ranks reduce: count numbers in the slot. Its shape is the record's until the next call. */
DLTensor gsc__cuda_values(gsc__device_record *record, void *data, DLDataType dtype, int64_t count);

/* tables.c */
/* Puts a list into the record's tables, and sends it where it is new. */
gsc_status gsc__cuda_list_tensors(gsc__device_record *record, const gsc__device_tensor *tensors, size_t count,
                                  bool same_tensors);
/* Room for counts and a report of so many gradients, and for the partial sums of a norm of the list. */
gsc_status gsc__cuda_reserve_counts(gsc__device_record *record, size_t grad_count);
gsc_status gsc__cuda_reserve_partials(gsc__device_record *record);

/* passes.c */
typedef struct gsc__cuda_run {
    gsc__cuda_pass_kind pass;
    int kernel;   /* GSC_CUDA_KERNEL_scan, _sum or _power */
    double p;     /* of the last two */
    bool counts;  /* what is not finite */
    bool gathers; /* the results of other devices are wanted */
    const char *what;
} gsc__cuda_run;
/* Enqueues a pass over all parts, whose beginning is in slot->passes. */
gsc_status gsc__cuda_run_pass(gsc__device_record *record, const gsc__cuda_run *run);

/* A kernel of one thread on the scaler's device. Not inside enter. */
gsc_status gsc__cuda_launch_one(const gsc__device *device, int kernel, const void *args, const char *what);

/* Pieces of GSC_CUDA_ITEM elements, of which the last may be shorter. */
static inline uint64_t gsc__cuda_items_of(const gsc__device_tensor *tensor)
{
    return tensor->count / GSC_CUDA_ITEM + (tensor->count % GSC_CUDA_ITEM != 0);
}

/* The functions of core/backend.h, by file. */
gsc_status gsc__cuda_create(const gsc__device_options *options, gsc__device **out);
void gsc__cuda_destroy(gsc__device *device);
gsc_status gsc__cuda_set_stream(gsc__device *device, DLDevice on, void *stream);
void *gsc__cuda_stream(const gsc__device *device);
void *gsc__cuda_step_stream(const gsc__device *device, int32_t device_id);
gsc_status gsc__cuda_scale_view(gsc__device *device, DLDevice on, DLTensor *out);
gsc_status gsc__cuda_scale(gsc__device *device, const gsc__device_tensor *in, const gsc__device_tensor *out, size_t n);
gsc_status gsc__cuda_record_create(gsc__device *device, uint64_t number, gsc__device_record **out);
void gsc__cuda_record_destroy(gsc__device_record *record);
gsc_status gsc__cuda_scan(gsc__device_record *record, const gsc__device_scan *scan);
gsc_status gsc__cuda_agreement(gsc__device_record *record, DLTensor *values);
gsc_status gsc__cuda_decide(gsc__device_record *record, bool collective_failed);
gsc_status gsc__cuda_replace(gsc__device_record *record, const gsc__device_tensor *tensors, size_t count,
                             bool same_tensors);
gsc_status gsc__cuda_norm_exponent(gsc__device_record *record, double p, DLTensor *values);
gsc_status gsc__cuda_norm_sums(gsc__device_record *record, double p, bool as_float32, DLTensor *values);
gsc_status gsc__cuda_clip(gsc__device_record *record, double p, double max_norm, gsc__device_clip_use use);
gsc_status gsc__cuda_multiply(gsc__device_record *record, double factor);
gsc_status gsc__cuda_scaling(gsc__device_record *record, gsc_grad_scaling *out);
gsc_status gsc__cuda_finish(gsc__device_record *record, gsc_outcome outcome, bool clipped);
gsc_status gsc__cuda_update(gsc__device *device, bool counts);
gsc_status gsc__cuda_update_to(gsc__device *device, float scale);
gsc_status gsc__cuda_load(gsc__device *device, const gsc__schedule *schedule, const gsc__schedule_rules *rules);
gsc_status gsc__cuda_set_rules(gsc__device *device, const gsc__schedule_rules *rules);
gsc_status gsc__cuda_acknowledge(gsc__device *device);
gsc_status gsc__cuda_settle(gsc__device *device, gsc__device_snapshot *out);
bool gsc__cuda_peek(gsc__device *device, gsc__device_snapshot *out);
void gsc__cuda_verdict(const gsc__device_record *record, gsc__device_verdict *out);
gsc_status gsc__cuda_report(gsc__device_record *record, gsc_overflow *entries, size_t capacity);
gsc_status gsc__cuda_read_element(gsc__device *device, const gsc__device_tensor *tensor, double *value);

#endif
