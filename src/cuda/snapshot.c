/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c: what the device has told, with and without waiting for it. */
#include <stdatomic.h>
#include <string.h>

#include "cuda/module.h"

#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored                                                                                         \
    "-Wtsan" /* it knows no fences; these are towards a device, which is none of its threads */
#endif

enum { ATTEMPTS = 4 /* to read a snapshot while the device writes the next one */ };

static uint64_t load(const uint64_t *number) { return *(const volatile uint64_t *)number; }

/* The device may be overwriting it, even where the snapshot is not yet that of what has happened since. */
static gsc__device_happening copy_happening(const gsc__device_happening *from, uint64_t number)
{
    static const gsc__device_happening lost;
    if (load(&from->number) != number)
        return lost;
    atomic_thread_fence(memory_order_acquire);
    const gsc__device_happening copy = *from;
    atomic_thread_fence(memory_order_acquire);
    return load(&from->number) == number ? copy : lost;
}

static void copy_log(gsc__device *device, uint64_t happenings)
{
    uint64_t first = device->happenings_seen;
    if (happenings > GSC_DEVICE_LOG && first < happenings - GSC_DEVICE_LOG)
        first = happenings - GSC_DEVICE_LOG;
    for (; first < happenings; first++)
        device->log[first % GSC_DEVICE_LOG] = copy_happening(&device->shot->log[first % GSC_DEVICE_LOG], first + 1);
}

/* Copies the snapshot; false: the device was writing. The host reads in the opposite order of the device. */
static bool copy_snapshot(gsc__device *device, uint64_t version, gsc__device_snapshot *out, int64_t *epoch)
{
    *out = device->shot->snapshot;
    *epoch = device->shot->epoch;
    if (device->shot->fresh_start < device->fresh_starts)
        out->halt = GSC_HALT_NONE;
    copy_log(device, out->happenings);
    atomic_thread_fence(memory_order_acquire);
    return load(&device->shot->version_begun) == version;
}

static bool read_snapshot(gsc__device *device, gsc__device_snapshot *out, int64_t *epoch)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        uint64_t version = load(&device->shot->version_done);
        atomic_thread_fence(memory_order_acquire);
        if (version == device->version_seen)
            return false;
        if (!copy_snapshot(device, version, out, epoch))
            continue;
        device->version_seen = version;
        device->happenings_seen = out->happenings;
        out->log = device->log;
        return true;
    }
    return false;
}

bool gsc__cuda_peek(gsc__device *device, gsc__device_snapshot *out)
{
    int64_t epoch;
    return read_snapshot(device, out, &epoch);
}

static gsc_status copy_slots(const gsc__device *device)
{
    for (const gsc__device_record *record = device->records; record; record = record->next)
        GSC_TRY(GSC_CUDA_CALL("read a verdict", cuMemcpyDtoHAsync_v2, record->settled,
                              (CUdeviceptr)(uintptr_t)record->slot, sizeof *record->slot, device->sites->stream));
    return GSC_OK;
}

/* Inside enter. */
static gsc_status enqueue_reading(const gsc__device *device)
{
    const gsc__cuda_site *home = device->sites;
    const gsc__cuda_snapshot_args args = {.state = device->state, .shot = device->shot_on_device};
    GSC_TRY(gsc__cuda_refuse_capture(home, "wait for results"));
    GSC_TRY(gsc__cuda_launch(home->context, GSC_CUDA_KERNEL_snapshot, 1, 32, home->stream, &args,
                             "read the scaler's state"));
    return copy_slots(device);
}

static gsc_status wait_for(const gsc__cuda_site *site)
{
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status = GSC_CUDA_CALL("wait for the work enqueued", cuStreamSynchronize, site->stream);
    gsc__cuda_leave();
    return status;
}

gsc_status gsc__cuda_settle(gsc__device *device, gsc__device_snapshot *out)
{
    GSC_TRY(gsc__cuda_enter(device->sites->context));
    gsc_status status = enqueue_reading(device);
    gsc__cuda_leave();
    GSC_TRY(status);
    for (const gsc__cuda_site *site = device->sites; site; site = site->next)
        GSC_TRY(wait_for(site));
    if (!read_snapshot(device, out, &device->settled_epoch))
        return gsc_fail(GSC_ERR_DEVICE, "CUDA: a captured graph with this scaler's work runs on a stream that the "
                                        "scaler does not know; replay it on the stream that was set");
    return GSC_OK;
}

void gsc__cuda_verdict(const gsc__device_record *record, gsc__device_verdict *out)
{
    const gsc__cuda_slot *slot = record->settled;
    const int64_t epoch = record->device->settled_epoch;
    *out = (gsc__device_verdict){.found_inf = slot->found_inf != 0,
                                 .checked = slot->checked != 0,
                                 .found_inf_here = slot->found_inf_here != 0,
                                 .overflowed = slot->overflow_epoch == epoch,
                                 .comm_failed = slot->comm_failed_epoch == epoch,
                                 .numbers = slot->numbers,
                                 .outcome = slot->outcome,
                                 .finished = slot->finished,
                                 .clipped = slot->clipped != 0,
                                 .checks = slot->checks,
                                 .reported_check = slot->reported_check,
                                 .report_count = (size_t)slot->report_count};
}
