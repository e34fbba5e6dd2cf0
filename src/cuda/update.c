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

gsc_status gsc__cuda_update_to(gsc__device *device, float scale)
{
    gsc__cuda_load_args args = {.schedule.scale = scale,
                                .what = GSC_CUDA_LOAD_SCALE | GSC_CUDA_END_ITERATION | GSC_CUDA_COUNT_UPDATE |
                                        GSC_CUDA_CLEAR_RANKS_HALT};
    GSC_TRY(load(device, &args, "set the scale"));
    return gsc__cuda_show_scale(device);
}

gsc_status gsc__cuda_load(gsc__device *device, const gsc__schedule *schedule, const gsc__schedule_rules *rules)
{
    gsc__cuda_load_args args = {.schedule = *schedule,
                                .rules = *rules,
                                .what = GSC_CUDA_LOAD_SCHEDULE | GSC_CUDA_LOAD_RULES | GSC_CUDA_END_ITERATION};
    GSC_TRY(load(device, &args, "load the scaler's state"));
    return gsc__cuda_show_scale(device);
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
