/* SPDX-License-Identifier: Apache-2.0 */
/* update.c: the end of an iteration, and what the host changes in the scaler's state. */
#include "cuda/module.h"

gsc_status gsc__cuda_update(gsc__device *device, bool counts)
{
    const gsc__cuda_update_args args = {.state = device->state, .shot = device->shot_on_device, .counts = counts};
    GSC_TRY(gsc__cuda_launch_one(device, GSC_CUDA_KERNEL_update, &args, "update the scale"));
    return gsc__cuda_show_scale(device);
}

static gsc_status load(const gsc__device *device, gsc__cuda_load_args *args, const char *what)
{
    args->state = device->state;
    args->shot = device->shot_on_device;
    return gsc__cuda_launch_one(device, GSC_CUDA_KERNEL_load, args, what);
}

/* A load after which no halt of before counts. In a graph this begins with each replay, of which the host knows
 * nothing. */
static gsc_status start_afresh(gsc__device *device, gsc__cuda_load_args *args, const char *what)
{
    bool is_captured;
    GSC_TRY(gsc__cuda_enter(device->sites->context));
    gsc_status status = gsc__cuda_is_capturing(device->sites->stream, &is_captured);
    gsc__cuda_leave();
    GSC_TRY(status);
    args->what |= GSC_CUDA_END_ITERATION | GSC_CUDA_CLEAR_HALT;
    args->fresh_start = is_captured ? 0 : device->fresh_starts + 1;
    GSC_TRY(load(device, args, what));
    device->fresh_starts += !is_captured;
    return gsc__cuda_show_scale(device);
}

gsc_status gsc__cuda_update_to(gsc__device *device, float scale)
{
    gsc__cuda_load_args args = {.schedule.scale = scale, .what = GSC_CUDA_LOAD_SCALE | GSC_CUDA_COUNT_UPDATE};
    return start_afresh(device, &args, "set the scale");
}

gsc_status gsc__cuda_load(gsc__device *device, const gsc__schedule *schedule, const gsc__schedule_rules *rules)
{
    gsc__cuda_load_args args = {
        .schedule = *schedule, .rules = *rules, .what = GSC_CUDA_LOAD_SCHEDULE | GSC_CUDA_LOAD_RULES};
    return start_afresh(device, &args, "load the scaler's state");
}

gsc_status gsc__cuda_set_rules(gsc__device *device, const gsc__schedule_rules *rules)
{
    gsc__cuda_load_args args = {.rules = *rules, .what = GSC_CUDA_LOAD_RULES};
    return load(device, &args, "change the scaler's rules");
}

gsc_status gsc__cuda_acknowledge(gsc__device *device)
{
    gsc__cuda_load_args args = {.what = GSC_CUDA_CLEAR_HALT};
    return load(device, &args, "go on after a halt");
}
