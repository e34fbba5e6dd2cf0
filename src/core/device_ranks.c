/* SPDX-License-Identifier: Apache-2.0 */
/* device_ranks.c: collectives on values that lie on the device. They are enqueued on the scaler's stream; what they
 * bring is read there, too. */
#include <math.h>
#include <stdio.h>

#include "core/internal.h"

static int reduce(gsc_scaler *scaler, gsc__reduction *reduction, DLTensor *values)
{
    const gsc__device_part *part = scaler->device;
    return gsc__collective(scaler, reduction, values, part->backend->stream(part->device));
}

gsc_status gsc__device_agree(gsc_scaler *scaler, gsc__record *record, const char *api, bool *failed)
{
    const gsc_backend *backend = scaler->device->backend;
    gsc__device_record *on_device = record->device.record;
    *failed = false;
    if (!scaler->options.comm)
        return gsc__device_status(backend->decide(on_device, false), api);
    DLTensor values;
    gsc_status status = gsc__device_status(backend->agreement(on_device, &values), api);
    if (status != GSC_OK) {
        gsc__device_refuse(scaler);
        return status;
    }
    int failure = reduce(scaler, scaler->comm.allreduce_max, &values);
    *failed = failure != 0;
    status = gsc__device_status(backend->decide(on_device, *failed), api);
    return *failed ? gsc__collective_failed(scaler, failure) : status;
}

/* The message of the refusal, which failures on the way to the collective must not replace. */
typedef struct kept_message {
    char text[GSC_MESSAGE_SIZE];
} kept_message;

static kept_message keep_message(void)
{
    kept_message out;
    snprintf(out.text, sizeof out.text, "%s", gsc_last_error());
    return out;
}

/* Makes the record for refusals one that has refused. */
static gsc_status scan_refused(const gsc__device_part *part)
{
    const gsc__device_scan scan = {.failed = true};
    return part->backend->scan(part->refusals, &scan);
}

void gsc__device_refuse(gsc_scaler *scaler)
{
    const gsc__device_part *part = scaler->device;
    const kept_message kept = keep_message();
    DLTensor values;
    if (scan_refused(part) == GSC_OK && part->backend->agreement(part->refusals, &values) == GSC_OK)
        (void)reduce(scaler, scaler->comm.allreduce_max, &values);
    (void)gsc_fail_message(GSC_OK, kept.text);
}

/* Both return the module's status; *failure is what the collective returned. */
static gsc_status reduce_exponent(gsc_scaler *scaler, gsc__device_record *record, double p, int *failure)
{
    DLTensor values;
    GSC_TRY(scaler->device->backend->norm_exponent(record, p, &values));
    *failure = reduce(scaler, scaler->comm.allreduce_max, &values);
    return GSC_OK;
}

static gsc_status reduce_sums(gsc_scaler *scaler, gsc__device_record *record, double p, int *failure)
{
    const gsc_comm *comm = &scaler->comm;
    const bool as_float32 = isinf(p) && !comm->allreduce_max64;
    gsc__reduction *reduction = !isinf(p)    ? comm->allreduce_sum
                                : as_float32 ? comm->allreduce_max
                                             : comm->allreduce_max64;
    DLTensor values;
    GSC_TRY(scaler->device->backend->norm_sums(record, p, as_float32, &values));
    *failure = reduce(scaler, reduction, &values);
    return GSC_OK;
}

gsc_status gsc__device_reduce_norm(gsc_scaler *scaler, gsc__record *record, double p, const char *api, bool *failed)
{
    int failure = 0;
    *failed = false;
    gsc_status status = GSC_OK;
    if (gsc__norm_needs_exponent(p))
        status = reduce_exponent(scaler, record->device.record, p, &failure);
    const bool only_sums = status == GSC_OK;
    if (status == GSC_OK && failure == 0)
        status = reduce_sums(scaler, record->device.record, p, &failure);
    if (status != GSC_OK) {
        status = gsc__device_status(status, api);
        gsc__device_refuse_norm(scaler, p, only_sums);
        return status;
    }
    *failed = failure != 0;
    return *failed ? gsc__collective_failed(scaler, failure) : GSC_OK;
}

void gsc__device_refuse_norm(gsc_scaler *scaler, double p, bool only_sums)
{
    const gsc__device_part *part = scaler->device;
    const kept_message kept = keep_message();
    int failure = 0;
    gsc_status status = scan_refused(part);
    if (status == GSC_OK && !only_sums && gsc__norm_needs_exponent(p))
        status = reduce_exponent(scaler, part->refusals, p, &failure);
    if (status == GSC_OK && failure == 0)
        (void)reduce_sums(scaler, part->refusals, p, &failure);
    (void)gsc_fail_message(GSC_OK, kept.text);
}

void gsc__device_try_to_learn(gsc_scaler *scaler, gsc__record *record)
{
    const kept_message kept = keep_message();
    if (gsc__device_settle(scaler, "") == GSC_OK)
        gsc__device_learn(scaler, record);
    (void)gsc_fail_message(GSC_OK, kept.text);
}
