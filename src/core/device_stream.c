/* SPDX-License-Identifier: Apache-2.0 */
/* device_stream.c: the stream on which a plain step works. */
#include "core/internal.h"

/* The device that gradients are on, beside the CPU. */
typedef struct place {
    bool found, many;
    int32_t device_id;
} place;

static void add_to_place(place *at, int32_t device_id)
{
    at->many |= at->found && at->device_id != device_id;
    at->found = true;
    at->device_id = device_id;
}

/* Of the gradients as the optimizer has them now. */
static gsc_status ask_for_place(gsc_scaler *scaler, const gsc__record *record, const char *api, place *at)
{
    const gsc_optimizer *optimizer = record->optimizer;
    const gsc__list_source source = {.self = optimizer->self, .name = optimizer->name};
    const size_t n = optimizer->grad_count && optimizer->grad ? gsc__count_gradients(scaler, optimizer) : 0;
    const uint64_t messages = gsc__message_count();
    gsc_status status = GSC_OK;
    gsc__callback_begin(scaler);
    for (size_t i = 0; i < n && status == GSC_OK; i++) {
        const DLTensor *grad = optimizer->grad(optimizer->self, i);
        if (grad && grad == GSC_GRAD_FAILED)
            status = gsc__list_tensor_failed(&source, i, api, gsc__message_count() != messages);
        else if (grad && grad->device.device_type == scaler->options.device.device_type)
            add_to_place(at, grad->device.device_id);
    }
    gsc__callback_end(scaler);
    return status;
}

/* The optimizer is asked only where this call has not collected its gradients: nothing has been written then. */
gsc_status gsc__device_step_stream(gsc_scaler *scaler, const gsc__record *record, bool collected, const char *api,
                                   void **stream)
{
    const gsc__device_use *use = &record->device;
    place at = {0};
    if (use->is_sent && collected)
        for (size_t i = 0; i < use->sent.count; i++)
            add_to_place(&at, use->sent.list[i].device_id);
    else
        GSC_TRY(ask_for_place(scaler, record, api, &at));
    if (at.found && !at.many)
        *stream = scaler->device->backend->step_stream(scaler->device->device, at.device_id);
    return GSC_OK;
}
