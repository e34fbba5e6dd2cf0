/* SPDX-License-Identifier: Apache-2.0 */
/* device_part.c: a module's part of a scaler and of its records, and bringing numbers from there. */
#include <stdlib.h>

#include "base/dtype_text.h"
#include "core/internal.h"

gsc_status gsc__device_status(gsc_status status, const char *api)
{
    return status == GSC_OK ? GSC_OK : gsc_fail(status, "%s: %s", api, gsc_last_error());
}

gsc_status gsc__device_check_options(const gsc_scaler_options *options, const char *api)
{
    const gsc_backend *backend = options->backend;
    if (backend->version != GSC_BACKEND_VERSION)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s: backend has version %u, this library (%s) needs %u; use the module that came with it", api,
                        (unsigned)backend->version, gsc_version(), (unsigned)GSC_BACKEND_VERSION);
    if (options->device.device_type == kDLCPU)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s: backend is the module for %s, but device is the CPU; set device to one of its devices, or "
                        "backend to NULL",
                        api, backend->name);
    return backend->check_device(options->device, api);
}

static gsc_status make_parts(gsc_scaler *scaler, gsc__device_part *part)
{
    const gsc_scaler_options *options = &scaler->options;
    const gsc__device_options device_options = {.device = options->device,
                                                .enabled = options->enabled,
                                                .schedule = scaler->schedule,
                                                .rules = scaler->rules,
                                                .skip_window = options->skip_window,
                                                .most_overflows = scaler->window_most,
                                                .max_consecutive_skips = options->max_consecutive_skips,
                                                .has_comm = options->comm != NULL};
    GSC_TRY(part->backend->create(&device_options, &part->device));
    gsc_status status = options->comm ? part->backend->record_create(part->device, 0, &part->refusals) : GSC_OK;
    if (status != GSC_OK)
        part->backend->destroy(part->device);
    return status;
}

gsc_status gsc__device_create(gsc_scaler *scaler)
{
    const gsc_backend *backend = scaler->options.backend;
    if (!backend)
        return GSC_OK;
    gsc__device_part *part = calloc(1, sizeof *part);
    if (!part)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_scaler_create: no memory for a scaler on a device");
    part->backend = backend;
    part->scaler = scaler;
    part->served = (gsc__served){.device = scaler->options.device, .check = backend->check_device};
    gsc_status status = make_parts(scaler, part);
    if (status != GSC_OK) {
        free(part);
        return gsc__device_status(status, "gsc_scaler_create");
    }
    scaler->device = part;
    scaler->served = &part->served;
    return GSC_OK;
}

void gsc__device_destroy(gsc_scaler *scaler)
{
    gsc__device_part *part = scaler->device;
    if (!part)
        return;
    if (part->refusals)
        part->backend->record_destroy(part->refusals);
    part->backend->destroy(part->device);
    gsc__list_free(&part->host);
    gsc__device_tensors_free(&part->in);
    gsc__device_tensors_free(&part->out);
    free(part->pairs);
    free(part);
}

gsc_status gsc__device_open(gsc_scaler *scaler, gsc__record *record, const char *api)
{
    gsc__device_part *part = scaler->device;
    if (record->device.record)
        return GSC_OK;
    const uint64_t number = part->records + 1;
    GSC_TRY(gsc__device_status(part->backend->record_create(part->device, number, &record->device.record), api));
    record->device.number = part->records = number;
    return GSC_OK;
}

void gsc__device_close(gsc_scaler *scaler, gsc__record *record)
{
    gsc__device_use *use = &record->device;
    if (use->record)
        scaler->device->backend->record_destroy(use->record);
    gsc__device_tensors_free(&use->sent);
    free(use->host_entries);
    *use = (gsc__device_use){0};
}

gsc_status gsc__device_set_stream(gsc_scaler *scaler, DLDevice device, void *stream, const char *api)
{
    gsc__device_part *part = scaler->device;
    GSC_TRY(part->backend->check_device(device, api));
    return gsc__device_status(part->backend->set_stream(part->device, device, stream), api);
}

gsc_status gsc__device_set_rules(gsc_scaler *scaler, const gsc_scaler_options *options, const char *api)
{
    const gsc__device_part *part = scaler->device;
    const gsc__schedule_rules rules = gsc__rules_of(options);
    if (!options->enabled)
        return GSC_OK;
    return gsc__device_status(part->backend->set_rules(part->device, &rules), api);
}

gsc_status gsc__device_load(gsc_scaler *scaler, const gsc_scaler_options *options, const gsc__schedule *schedule,
                            const char *api)
{
    gsc__device_part *part = scaler->device;
    const gsc__schedule_rules rules = gsc__rules_of(options);
    GSC_TRY(gsc__device_status(part->backend->load(part->device, schedule, &rules), api));
    part->seen.halt = GSC_HALT_NONE;
    return GSC_OK;
}

gsc_status gsc__device_update_to(gsc_scaler *scaler, float new_scale, const char *api)
{
    gsc__device_part *part = scaler->device;
    GSC_TRY(gsc__device_status(part->backend->update_to(part->device, new_scale), api));
    part->seen.halt = GSC_HALT_NONE;
    return GSC_OK;
}

gsc_status gsc__device_read_element(gsc_scaler *scaler, const gsc__view *view, double *value, const char *api)
{
    const gsc__device_part *part = scaler->device;
    const gsc__device_tensor tensor = {
        .start = view->start, .count = 1, .device_id = view->tensor->device.device_id, .kind = view->kind};
    return gsc__device_status(part->backend->read_element(part->device, &tensor, value), api);
}

/* The core's own numbers become those of the snapshot, and its log is copied as far as it is new. */
static void take_snapshot(gsc__device_part *part, const gsc__device_snapshot *snapshot)
{
    gsc_scaler *scaler = part->scaler;
    if (!scaler->options.enabled)
        return;
    const uint64_t known = part->seen.happenings, oldest = gsc__device_oldest(snapshot->happenings);
    for (uint64_t i = known > oldest ? known : oldest; i < snapshot->happenings; i++)
        part->log[i % GSC_DEVICE_LOG] = snapshot->log[i % GSC_DEVICE_LOG];
    if (part->told < oldest)
        part->told = oldest;
    part->seen = *snapshot;
    part->seen.log = part->log;
    scaler->schedule = snapshot->schedule;
    scaler->stats = snapshot->stats;
}

gsc_status gsc__device_settle(const gsc_scaler *scaler, const char *api)
{
    gsc__device_part *part = scaler->device;
    gsc__device_snapshot snapshot;
    GSC_TRY(gsc__device_status(part->backend->settle(part->device, &snapshot), api));
    take_snapshot(part, &snapshot);
    return GSC_OK;
}

void gsc__device_peek(const gsc_scaler *scaler)
{
    gsc__device_part *part = scaler->device;
    gsc__device_snapshot snapshot;
    if (part->backend->peek(part->device, &snapshot))
        take_snapshot(part, &snapshot);
}

gsc__device_verdict gsc__device_verdict_of(const gsc_scaler *scaler, const gsc__record *record)
{
    gsc__device_verdict verdict = {0};
    if (record->device.record)
        scaler->device->backend->verdict(record->device.record, &verdict);
    return verdict;
}

void gsc__device_learn(gsc_scaler *scaler, gsc__record *record)
{
    const gsc__device_verdict verdict = gsc__device_verdict_of(scaler, record);
    record->found_inf = verdict.found_inf;
    record->overflowed = verdict.overflowed;
    record->checked = verdict.checked;
    record->max_abs = verdict.numbers.max_abs;
    record->scale = verdict.numbers.scale;
    if (!verdict.comm_failed)
        return;
    scaler->pending.comm_failed = true;
    if (record->comm_failure == GSC_COMM_FINE)
        record->comm_failure =
            scaler->device->seen.halt == GSC_HALT_SCALES_DIFFER ? GSC_COMM_SCALES_DIFFER : GSC_COMM_REFUSED_ELSEWHERE;
}
