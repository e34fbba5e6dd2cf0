/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: a scaler's devices: their streams, how these wait for one another, and the scale on each. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/module.h"
#include "cuda/upload.h"

static gsc_status no_memory(void) { return gsc_fail(GSC_ERR_MEMORY, "CUDA: no memory for a scaler"); }

/* CUDA's handles of device memory are numbers, its pointers in kernels' arguments are pointers. */
static gsc_status allocate(size_t bytes, void *out)
{
    CUdeviceptr address = 0;
    GSC_TRY(gsc__cuda_allocate(bytes, &address));
    void *pointer = (void *)(uintptr_t)address;
    memcpy(out, &pointer, sizeof pointer);
    return GSC_OK;
}

static void release(const void *device_memory) { gsc__cuda_free((CUdeviceptr)(uintptr_t)device_memory); }

static gsc_status create_event(gsc__cuda_site *site)
{
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status = GSC_CUDA_CALL("create an event", cuEventCreate, &site->event, CU_EVENT_DISABLE_TIMING);
    gsc__cuda_leave();
    return status;
}

static gsc_status site_create(int32_t device_id, gsc__cuda_site **out)
{
    gsc__cuda_site *site = calloc(1, sizeof *site);
    if (!site)
        return no_memory();
    gsc_status status = gsc__cuda_open("CUDA", device_id, &site->context);
    if (status == GSC_OK) {
        status = create_event(site);
        if (status != GSC_OK)
            gsc__cuda_close(site->context);
    }
    if (status != GSC_OK) {
        free(site);
        return status;
    }
    *out = site;
    return GSC_OK;
}

static void site_free(gsc__cuda_site *site)
{
    if (gsc__cuda_enter(site->context) == GSC_OK) {
        release(site->scale);
        (void)gsc__cuda()->cuEventDestroy_v2(site->event);
        gsc__cuda_leave();
    }
    gsc__cuda_close(site->context);
    free(site);
}

gsc_status gsc__cuda_site_get(gsc__device *device, int32_t device_id, gsc__cuda_site **out)
{
    gsc__cuda_site **end = &device->sites;
    for (; *end; end = &(*end)->next)
        if ((*end)->context->device_id == device_id) {
            *out = *end;
            return GSC_OK;
        }
    GSC_TRY(site_create(device_id, end));
    *out = *end;
    return GSC_OK;
}

static gsc_status record_event(const gsc__cuda_site *site)
{
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status = GSC_CUDA_CALL("record an event", cuEventRecord, site->event, site->stream);
    gsc__cuda_leave();
    return status;
}

static gsc_status wait_event(const gsc__cuda_site *site, CUstream stream, CUevent event)
{
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status = GSC_CUDA_CALL("let a stream wait for another (set a stream before its capture begins)",
                                      cuStreamWaitEvent, stream, event, 0);
    gsc__cuda_leave();
    return status;
}

gsc_status gsc__cuda_site_wait(const gsc__cuda_site *later, const gsc__cuda_site *earlier)
{
    if (later == earlier)
        return GSC_OK;
    GSC_TRY(record_event(earlier));
    return wait_event(later, later->stream, earlier->event);
}

/* The scaler's beginning, on its device. */
static gsc_status send_state(gsc__device *device, const gsc__device_options *options)
{
    const gsc__cuda_state state = {.schedule = options->schedule,
                                   .rules = options->rules,
                                   .skip_window = options->skip_window,
                                   .most_overflows = options->most_overflows,
                                   .max_consecutive_skips = options->max_consecutive_skips,
                                   .enabled = options->enabled};
    const gsc__cuda_site *home = device->sites;
    return gsc__cuda_upload(home->context, home->stream, device->state, &state, sizeof state,
                            "send the scaler's state");
}

static gsc_status create_state(gsc__device *device, const gsc__device_options *options)
{
    void *shot = NULL;
    CUdeviceptr shot_on_device = 0;
    GSC_TRY(allocate(sizeof *device->state, &device->state));
    GSC_TRY(gsc__cuda_allocate_pinned(sizeof *device->shot, &shot, &shot_on_device));
    device->shot = memset(shot, 0, sizeof *device->shot);
    device->shot_on_device = (gsc__cuda_shot *)(uintptr_t)shot_on_device;
    return send_state(device, options);
}

static gsc_status create(gsc__device *device, const gsc__device_options *options)
{
    GSC_TRY(gsc__cuda_site_get(device, options->device.device_id, &device->sites));
    GSC_TRY(gsc__cuda_enter(device->sites->context));
    gsc_status status = create_state(device, options);
    gsc__cuda_leave();
    return status;
}

gsc_status gsc__cuda_create(const gsc__device_options *options, gsc__device **out)
{
    gsc__device *device = calloc(1, sizeof *device);
    if (!device)
        return no_memory();
    device->enabled = options->enabled;
    device->has_comm = options->has_comm;
    gsc_status status = create(device, options);
    if (status != GSC_OK) {
        gsc__cuda_destroy(device);
        return status;
    }
    *out = device;
    return GSC_OK;
}

/* After a failure of the driver there is nothing to wait for. */
static void wait_for_all(const gsc__device *device)
{
    for (const gsc__cuda_site *site = device->sites; site; site = site->next)
        if (gsc__cuda_enter(site->context) == GSC_OK) {
            (void)gsc__cuda()->cuStreamSynchronize(site->stream);
            gsc__cuda_leave();
        }
}

static void free_records(gsc__device_record *records)
{
    while (records) {
        gsc__device_record *next = records->next;
        gsc__cuda_record_free(records);
        records = next;
    }
}

static bool is_captured(const gsc__device *device)
{
    bool found = false;
    for (const gsc__cuda_site *site = device->sites; site && !found; site = site->next)
        if (gsc__cuda_enter(site->context) == GSC_OK) {
            (void)gsc__cuda_is_capturing(site->stream, &found);
            gsc__cuda_leave();
        }
    return found;
}

/* Work enqueued before the capture, which cannot be waited for now, and the graph use the memory: it is never freed. */
static void leave_allocated(gsc__device *device)
{
    static gsc__device *_Atomic left; /* so that leak checkers find it */
    device->next_left = atomic_exchange(&left, device);
}

void gsc__cuda_destroy(gsc__device *device)
{
    if (!device)
        return;
    if (is_captured(device)) {
        leave_allocated(device);
        return;
    }
    wait_for_all(device);
    free_records(device->records);
    free_records(device->spare_records);
    if (device->sites && gsc__cuda_enter(device->sites->context) == GSC_OK) {
        release(device->state);
        gsc__cuda_free_pinned(device->shot);
        gsc__cuda_leave();
    }
    while (device->sites) {
        gsc__cuda_site *next = device->sites->next;
        site_free(device->sites);
        device->sites = next;
    }
    free(device);
}

/* To order a stream that is being captured with one that is not would spoil the capture, or leave both unordered. */
static gsc_status check_capture(const gsc__cuda_site *site, CUstream next)
{
    bool is_captured = false, next_is_captured = false;
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status = gsc__cuda_is_capturing(next, &next_is_captured);
    if (status == GSC_OK && !next_is_captured)
        status = gsc__cuda_is_capturing(site->stream, &is_captured);
    gsc__cuda_leave();
    GSC_TRY(status);
    if (!is_captured && !next_is_captured)
        return GSC_OK;
    return gsc_fail(GSC_ERR_STATE,
                    "CUDA: the %s stream is being captured into a graph; set a stream before the capture begins, or "
                    "after it ends",
                    next_is_captured ? "new" : "present");
}

gsc_status gsc__cuda_set_stream(gsc__device *device, DLDevice on, void *stream)
{
    gsc__cuda_site *site;
    GSC_TRY(gsc__cuda_site_get(device, on.device_id, &site));
    CUstream next = (CUstream)stream;
    if (next == site->stream)
        return GSC_OK;
    GSC_TRY(check_capture(site, next));
    GSC_TRY(record_event(site));
    GSC_TRY(wait_event(site, next, site->event));
    site->stream = next;
    return GSC_OK;
}

void *gsc__cuda_stream(const gsc__device *device) { return device->sites->stream; }

void *gsc__cuda_step_stream(const gsc__device *device, int32_t device_id)
{
    for (const gsc__cuda_site *site = device->sites; site; site = site->next)
        if (site->context->device_id == device_id && site->stream)
            return site->stream;
    return CU_STREAM_LEGACY;
}

static gsc_status create_copy(gsc__cuda_site *site)
{
    if (site->scale)
        return GSC_OK;
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status = gsc__cuda_refuse_capture(site, "allocate memory for the scale on another device");
    if (status == GSC_OK)
        status = allocate(sizeof *site->scale, &site->scale);
    gsc__cuda_leave();
    return status;
}

/* The scaler's stream waits until the copy is made, since it may change the scale afterwards. */
gsc_status gsc__cuda_copy_scale(gsc__device *device, gsc__cuda_site *site)
{
    const gsc__cuda_site *home = device->sites;
    GSC_TRY(create_copy(site));
    GSC_TRY(gsc__cuda_site_wait(site, home));
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status =
        GSC_CUDA_CALL("copy the scale to another device", cuMemcpyPeerAsync, (CUdeviceptr)(uintptr_t)site->scale,
                      site->context->handle, (CUdeviceptr)(uintptr_t)&device->state->schedule.scale,
                      home->context->handle, sizeof *site->scale, site->stream);
    gsc__cuda_leave();
    GSC_TRY(status);
    return gsc__cuda_site_wait(home, site);
}

gsc_status gsc__cuda_show_scale(gsc__device *device)
{
    for (gsc__cuda_site *site = device->sites->next; site; site = site->next)
        if (site->shows_scale)
            GSC_TRY(gsc__cuda_copy_scale(device, site));
    return GSC_OK;
}

gsc_status gsc__cuda_scale_view(gsc__device *device, DLDevice on, DLTensor *out)
{
    gsc__cuda_site *site;
    GSC_TRY(gsc__cuda_site_get(device, on.device_id, &site));
    if (site != device->sites && !site->shows_scale) {
        GSC_TRY(gsc__cuda_copy_scale(device, site));
        site->shows_scale = true;
    }
    float *scale = site == device->sites ? &device->state->schedule.scale : site->scale;
    *out = (DLTensor){.data = scale, .device = on, .dtype = GSC_FLOAT32};
    return GSC_OK;
}
