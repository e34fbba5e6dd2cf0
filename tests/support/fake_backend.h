/* SPDX-License-Identifier: Apache-2.0 */
/* fake_backend.h: a device module for tests of the core (core/backend.h): two "CUDA" devices whose memory the host can
 * touch only while the module works. What is enqueued is done at once; what peek shows arrives when the test lets it.
 *
 *     fake_backend_reset();
 *     options.backend = &fake_backend; options.device = FAKE_DEVICE;
 *     float *grad = fake_device_alloc(n * sizeof *grad);       // freed by the next reset
 *     fake_device_write(grad, values, n * sizeof *grad);
 *
 * It counts what waits, and makes the k-th call fail: fake_module.fail_at = fake_module.calls + k. */
#ifndef GSC_TESTS_FAKE_BACKEND_H
#define GSC_TESTS_FAKE_BACKEND_H

#include "fake_module.h"
#include "fake_norms.h"

static inline gsc_status fake_check_device(DLDevice device, const char *api)
{
    if (device.device_type == kDLCUDA && (device.device_id == 0 || device.device_id == 1))
        return GSC_OK;
    return gsc_fail(GSC_ERR_DEVICE, "%s is on a device that the fake does not serve", api);
}

static inline gsc_status fake_create(const gsc__device_options *options, gsc__device **out)
{
    FAKE_CALL("create");
    gsc__device *device = calloc(1, sizeof *device);
    device->options = *options;
    device->schedule = options->schedule;
    device->rules = options->rules;
    device->scale_view = fake_device_alloc(sizeof(float));
    device->now.schedule = device->schedule;
    fake_module.live_devices++;
    *out = device;
    return GSC_OK;
}

static inline void fake_destroy(gsc__device *device)
{
    fake_module.live_devices--;
    free(device);
}

static inline gsc_status fake_set_stream(gsc__device *device, DLDevice on, void *stream)
{
    (void)on;
    FAKE_CALL("set_stream");
    device->stream = fake_module.last_stream = stream;
    return GSC_OK;
}

static inline void *fake_stream(const gsc__device *device) { return device->stream; }

static inline void *fake_step_stream(const gsc__device *device, int32_t device_id)
{
    (void)device_id;
    return device->stream ? device->stream : &fake_module;
}

static inline gsc_status fake_scale(gsc__device *device, const gsc__device_tensor *in, const gsc__device_tensor *out,
                                    size_t n)
{
    FAKE_CALL("scale");
    fake_open();
    for (size_t t = 0; t < n; t++)
        for (uint64_t i = 0; i < in[t].count; i++) {
            uint64_t unused;
            double value = gsc__element(in[t].kind, fake_at(&in[t], i, &unused), 0);
            fake_store(out[t].kind, fake_at(&out[t], i, &unused), value * (double)device->schedule.scale);
        }
    fake_close();
    return GSC_OK;
}

static inline gsc_status fake_scale_view(gsc__device *device, DLDevice on, DLTensor *out)
{
    FAKE_CALL("scale_view");
    fake_device_write(device->scale_view, &device->schedule.scale, sizeof(float));
    *out = (DLTensor){.data = device->scale_view, .device = on, .dtype = {kDLFloat, 32, 1}};
    return GSC_OK;
}

static inline gsc_status fake_record_create(gsc__device *device, uint64_t number, gsc__device_record **out)
{
    FAKE_CALL("record_create");
    gsc__device_record *record = calloc(1, sizeof *record);
    record->device = device;
    record->number = number;
    record->overflow_epoch = record->comm_epoch = -1;
    record->coefficient = 1.0;
    record->shape[0] = 1;
    record->multiplier = fake_device_alloc(sizeof(float));
    record->found_inf = fake_device_alloc(sizeof(float));
    fake_module.live_records++;
    *out = record;
    return GSC_OK;
}

static inline void fake_record_destroy(gsc__device_record *record)
{
    fake_module.live_records--;
    free(record);
}

static inline void fake_take(gsc__device_record *record, const gsc__device_tensor *tensors, size_t count)
{
    FAKE_DEMAND(count <= FAKE_MAX_TENSORS);
    record->count = count;
    for (size_t i = 0; i < count; i++) {
        record->tensors[i] = tensors[i];
        FAKE_DEMAND(tensors[i].count > 0 && tensors[i].ndim <= FAKE_MAX_DIMS);
        for (int32_t d = 0; d < tensors[i].ndim; d++)
            record->dims[i][d] = tensors[i].dims[d];
        record->tensors[i].dims = record->dims[i];
    }
}

static inline void fake_same(const gsc__device_record *record, const gsc__device_tensor *tensors, size_t count)
{
    FAKE_DEMAND(record->count == count);
    for (size_t i = 0; i < count; i++)
        FAKE_DEMAND(record->tensors[i].start == tensors[i].start && record->tensors[i].count == tensors[i].count &&
                    record->tensors[i].index == tensors[i].index && record->tensors[i].kind == tensors[i].kind);
}

static inline void fake_note(gsc__device_record *record, const gsc__device_tensor *tensor, double value, uint64_t index)
{
    gsc_overflow *last = record->found_count > 0 ? &record->found[record->found_count - 1] : NULL;
    if (!last || last->index != tensor->index) {
        last = &record->found[record->found_count++];
        *last = (gsc_overflow){.index = tensor->index, .first_index = UINT64_MAX};
    }
    last->inf_count += isinf(value) ? 1u : 0u;
    last->nan_count += isnan(value) ? 1u : 0u;
    last->first_index = index < last->first_index ? index : last->first_index;
}

static inline void fake_pass(gsc__device_record *record, double r, bool stores)
{
    for (size_t t = 0; t < record->count; t++) {
        const gsc__device_tensor *tensor = &record->tensors[t];
        for (uint64_t i = 0; i < tensor->count; i++) {
            uint64_t index;
            char *at = fake_at(tensor, i, &index);
            double value = fake_times(tensor->kind, gsc__element(tensor->kind, at, 0), r), size = fabs(value);
            if (stores)
                fake_store(tensor->kind, at, value);
            if (!isfinite(value))
                fake_note(record, tensor, value, index);
            record->here_found_inf |= !isfinite(value);
            if (isnan(value) || size > record->here_max_abs)
                record->here_max_abs = isnan(record->here_max_abs) ? record->here_max_abs : size;
        }
    }
}

static inline gsc_status fake_scan(gsc__device_record *record, const gsc__device_scan *scan)
{
    FAKE_CALL("scan");
    fake_module.scans++;
    if (scan->same_tensors)
        fake_same(record, scan->tensors, scan->count);
    else
        fake_take(record, scan->tensors, scan->count);
    fake_module.sent += !scan->same_tensors && scan->count > 0;
    const double r = 1.0 / (double)record->device->schedule.scale;
    record->failed = scan->failed;
    record->found_count = 0;
    record->here_found_inf = scan->host_found_inf;
    record->here_max_abs = scan->host_max_abs;
    record->here_checked = scan->checked;
    record->here_scale = (double)record->device->schedule.scale;
    record->coefficient = 1.0;
    record->r = scan->unscales ? 1.0 : r;
    record->reduced = record->agreed = false;
    record->scanned = true;
    fake_open();
    fake_pass(record, r, scan->unscales);
    fake_close();
    return GSC_OK;
}

/* The values are on the host, so that the test's collectives need nothing from here. */
static inline gsc_status fake_agreement(gsc__device_record *record, DLTensor *values)
{
    FAKE_CALL("agreement");
    FAKE_DEMAND(record->device->options.has_comm && record->scanned);
    fake_module.agreements++;
    record->values[0] = record->here_found_inf;
    record->values[1] = record->here_checked;
    record->values[2] = record->failed;
    record->values[3] = record->device->schedule.scale;
    record->values[4] = -record->device->schedule.scale;
    record->agreed = true;
    *values = fake_values(record, record->values, (DLDataType){kDLFloat, 32, 1}, 5);
    return GSC_OK;
}

static inline void fake_happen(gsc__device *device, gsc_event_kind kind, double before, double scale, uint64_t record)
{
    const uint64_t number = ++device->now.happenings;
    device->log[(number - 1) % GSC_DEVICE_LOG] = (gsc__device_happening){.kind = kind,
                                                                         .update = device->stats.updates,
                                                                         .scale_before = before,
                                                                         .scale = scale,
                                                                         .record = record,
                                                                         .number = number};
}

static inline void fake_report(gsc__device_record *record)
{
    bool in_a_row = record->now.reported_check + 1 == record->now.checks;
    for (size_t i = 0; i < record->found_count; i++) {
        gsc_overflow *found = &record->found[i];
        found->repeats = 1;
        for (size_t j = 0; in_a_row && j < record->report_count; j++) {
            const gsc_overflow *before = &record->report[j];
            if (before->index == found->index && before->inf_count == found->inf_count &&
                before->nan_count == found->nan_count && before->first_index == found->first_index)
                found->repeats = before->repeats + 1;
        }
        if (found->repeats > record->device->repeats)
            record->device->repeats = found->repeats;
    }
    memcpy(record->report, record->found, sizeof record->report);
    record->report_count = record->found_count;
    record->now.reported_check = record->now.checks;
    record->now.report_count = record->report_count;
}

static inline gsc_status fake_decide(gsc__device_record *record, bool collective_failed)
{
    gsc__device *device = record->device;
    FAKE_CALL("decide");
    FAKE_DEMAND(record->scanned && !record->failed && record->agreed == device->options.has_comm);
    fake_module.decisions++;
    record->scanned = false;
    const bool agreed = record->agreed && !collective_failed;
    const float *values = record->values;
    record->now.checks++;
    record->now.numbers = (gsc__device_numbers){record->here_max_abs, record->here_scale, 0.0};
    record->now.found_inf_here = record->here_found_inf;
    record->now.found_inf = agreed ? values[0] > 0.0f : record->here_found_inf;
    record->now.checked = agreed ? values[1] > 0.0f : record->here_checked;
    if (collective_failed) {
        fake_comm_failed(record);
        return GSC_OK;
    }
    if (agreed && (values[2] > 0.0f || values[3] != -values[4])) {
        fake_comm_failed(record);
        fake_halt(device, values[2] > 0.0f ? GSC_HALT_REFUSED_ELSEWHERE : GSC_HALT_SCALES_DIFFER);
        device->now.least_scale = -values[4];
        device->now.greatest_scale = values[3];
        record->now.found_inf = record->now.checked = false;
        return GSC_OK;
    }
    device->overflow |= record->now.found_inf;
    device->checked |= record->now.checked;
    if (!record->now.found_inf)
        return GSC_OK;
    record->overflow_epoch = device->epoch;
    fake_report(record);
    fake_happen(device, GSC_EVENT_OVERFLOW, record->here_scale, (double)device->schedule.scale, record->number);
    return GSC_OK;
}

static inline gsc_status fake_replace(gsc__device_record *record, const gsc__device_tensor *tensors, size_t count,
                                      bool same_tensors)
{
    FAKE_CALL("replace");
    fake_module.replaced++;
    if (same_tensors)
        fake_same(record, tensors, count);
    else
        fake_take(record, tensors, count);
    record->r = 1.0;
    record->reduced = false;
    return GSC_OK;
}

static inline bool fake_skips(const gsc__device_record *record)
{
    const gsc__device *device = record->device;
    return record->now.found_inf || record->comm_epoch == device->epoch || device->now.halt != GSC_HALT_NONE;
}

static inline gsc_status fake_scaling(gsc__device_record *record, gsc_grad_scaling *out)
{
    FAKE_CALL("scaling");
    const double multiplier = record->r * record->coefficient;
    const float multiplier_f32 = (float)multiplier, found_inf = fake_skips(record);
    const DLDataType f32 = {kDLFloat, 32, 1};
    fake_device_write(record->multiplier, &multiplier_f32, sizeof(float));
    fake_device_write(record->found_inf, &found_inf, sizeof(float));
    record->shape[0] = 1;
    record->multiplier_tensor = fake_values(record, record->multiplier, f32, 1);
    record->found_inf_tensor = fake_values(record, record->found_inf, f32, 1);
    *out = (gsc_grad_scaling){.multiplier = (double)NAN,
                              .multiplier_dev = &record->multiplier_tensor,
                              .found_inf_dev = &record->found_inf_tensor,
                              .stream = record->device->stream};
    return GSC_OK;
}

static inline gsc_status fake_finish(gsc__device_record *record, gsc_outcome outcome, bool clipped)
{
    FAKE_CALL("finish");
    if (outcome == GSC_PENDING)
        outcome = fake_skips(record) ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED;
    record->now.outcome = outcome;
    record->now.finished = record->now.numbers;
    record->now.clipped = clipped;
    record->device->stats.steps += outcome == GSC_STEPPED;
    record->device->stats.skipped_steps += outcome == GSC_SKIPPED_OVERFLOW;
    return GSC_OK;
}

static inline void fake_arrive(gsc__device *device)
{
    memcpy(device->arrived_log, device->log, sizeof device->log);
    device->arrived = device->now;
    device->arrived.log = device->arrived_log;
    device->has_arrived = true;
}

static inline void fake_show(gsc__device *device)
{
    device->now.schedule = device->schedule;
    device->now.stats = device->stats;
    device->now.stats.consecutive_skips = device->schedule.consecutive_skips;
    device->now.window_filled = device->window.filled;
    device->now.window_overflows = device->window.overflows;
    device->now.repeats = device->last_repeats;
    if (fake_module.arrives)
        fake_arrive(device);
}

static inline void fake_next_iteration(gsc__device *device)
{
    device->epoch++;
    device->overflow = device->checked = device->comm_failed = false;
    device->repeats = 0;
}

static inline void fake_schedule(gsc__device *device, bool overflow)
{
    gsc__schedule_change change = {0};
    const double before = (double)device->schedule.scale;
    if (overflow)
        gsc__schedule_after_overflow(&device->schedule, &device->rules, &change);
    else
        gsc__schedule_after_clean(&device->schedule, &device->rules, &change);
    const double scale = (double)device->schedule.scale;
    device->stats.backoffs += change.backed_off;
    device->stats.growths += change.grew;
    if (change.backed_off)
        fake_happen(device, GSC_EVENT_BACKOFF, before, scale, 0);
    if (change.at_min_scale)
        fake_happen(device, GSC_EVENT_AT_MIN_SCALE, before, scale, 0);
    if (change.grew)
        fake_happen(device, GSC_EVENT_GROWTH, before, scale, 0);
    if (device->options.skip_window > 0)
        gsc__skip_window_add(&device->window, device->words, device->options.skip_window, overflow);
    if (overflow)
        device->last_repeats = device->repeats;
}

static inline gsc_status fake_update(gsc__device *device, bool counts)
{
    FAKE_CALL("update");
    counts = counts && !device->comm_failed;
    bool overflow = counts && device->overflow;
    if (overflow || (counts && device->checked))
        fake_schedule(device, overflow);
    const int64_t limit = device->options.max_consecutive_skips;
    const int32_t window = device->options.skip_window;
    bool in_a_row = overflow && limit > 0 && device->schedule.consecutive_skips >= limit;
    bool in_window = window > 0 && gsc__skip_window_exceeds(&device->window, window, device->options.most_overflows);
    if (in_a_row || in_window) {
        device->now.halted_in_window = !in_a_row;
        fake_halt(device, GSC_HALT_DIVERGED);
    }
    device->stats.updates++;
    fake_next_iteration(device);
    fake_show(device);
    return GSC_OK;
}

/* No later snapshot has a halt of before. */
static inline void fake_start_afresh(gsc__device *device)
{
    gsc__skip_window_empty(&device->window);
    device->now.halt = device->arrived.halt = GSC_HALT_NONE;
    fake_next_iteration(device);
}

static inline gsc_status fake_update_to(gsc__device *device, float scale)
{
    FAKE_CALL("update_to");
    device->schedule.scale = scale;
    device->stats.updates++;
    fake_start_afresh(device);
    fake_show(device);
    return GSC_OK;
}

static inline gsc_status fake_load(gsc__device *device, const gsc__schedule *schedule, const gsc__schedule_rules *rules)
{
    FAKE_CALL("load");
    device->schedule = *schedule;
    device->rules = *rules;
    fake_start_afresh(device);
    return GSC_OK;
}

static inline gsc_status fake_set_rules(gsc__device *device, const gsc__schedule_rules *rules)
{
    FAKE_CALL("set_rules");
    device->rules = *rules;
    return GSC_OK;
}

static inline gsc_status fake_acknowledge(gsc__device *device)
{
    FAKE_CALL("acknowledge");
    device->now.halt = GSC_HALT_NONE;
    return GSC_OK;
}

static inline gsc_status fake_settle(gsc__device *device, gsc__device_snapshot *out)
{
    FAKE_CALL("settle");
    fake_module.settles++;
    fake_module.waits++;
    fake_show(device);
    fake_arrive(device);
    device->has_arrived = false; /* peek has nothing newer */
    *out = device->arrived;
    return GSC_OK;
}

static inline bool fake_peek(gsc__device *device, gsc__device_snapshot *out)
{
    if (!device->has_arrived)
        return false;
    *out = device->arrived;
    device->has_arrived = false;
    return true;
}

static inline void fake_verdict(const gsc__device_record *record, gsc__device_verdict *out)
{
    *out = record->now;
    out->overflowed = record->overflow_epoch == record->device->epoch;
    out->comm_failed = record->comm_epoch == record->device->epoch;
}

static inline gsc_status fake_report_entries(gsc__device_record *record, gsc_overflow *entries, size_t capacity)
{
    FAKE_CALL("report");
    fake_module.waits++;
    size_t count = record->report_count < capacity ? record->report_count : capacity;
    memcpy(entries, record->report, count * sizeof *entries);
    return GSC_OK;
}

static inline gsc_status fake_read_element(gsc__device *device, const gsc__device_tensor *tensor, double *value)
{
    (void)device;
    FAKE_CALL("read_element");
    fake_module.waits++;
    fake_open();
    *value = gsc__element(tensor->kind, tensor->start, 0);
    fake_close();
    return GSC_OK;
}

static const gsc_backend fake_backend = {.version = GSC_BACKEND_VERSION,
                                         .name = "the fake",
                                         .check_device = fake_check_device,
                                         .create = fake_create,
                                         .destroy = fake_destroy,
                                         .set_stream = fake_set_stream,
                                         .stream = fake_stream,
                                         .step_stream = fake_step_stream,
                                         .scale = fake_scale,
                                         .scale_view = fake_scale_view,
                                         .record_create = fake_record_create,
                                         .record_destroy = fake_record_destroy,
                                         .scan = fake_scan,
                                         .agreement = fake_agreement,
                                         .decide = fake_decide,
                                         .replace = fake_replace,
                                         .norm_exponent = fake_norm_exponent,
                                         .norm_sums = fake_norm_sums,
                                         .clip = fake_clip,
                                         .multiply = fake_multiply,
                                         .scaling = fake_scaling,
                                         .finish = fake_finish,
                                         .update = fake_update,
                                         .update_to = fake_update_to,
                                         .load = fake_load,
                                         .set_rules = fake_set_rules,
                                         .acknowledge = fake_acknowledge,
                                         .settle = fake_settle,
                                         .peek = fake_peek,
                                         .verdict = fake_verdict,
                                         .report = fake_report_entries,
                                         .read_element = fake_read_element};

#endif
