/* SPDX-License-Identifier: Apache-2.0 */
#include "core/internal.h"

gsc_status gsc_check_step(const gsc_optimizer *optimizer, const char *caller)
{
    if (!optimizer->step)
        return gsc_fail(GSC_ERR_VALUE, "%s: the optimizer's step callback is NULL", caller);
    return GSC_OK;
}

static gsc_status check_callbacks(const gsc_optimizer *optimizer, const char *caller)
{
    GSC_TRY(gsc_check_step(optimizer, caller));
    if (!optimizer->grad_count)
        return gsc_fail(GSC_ERR_VALUE, "%s: the optimizer's grad_count callback is NULL", caller);
    if (!optimizer->grad)
        return gsc_fail(GSC_ERR_VALUE, "%s: the optimizer's grad callback is NULL", caller);
    return GSC_OK;
}

/* All integers and pointers, so it may run in the caller's environment, between the callbacks. */
static gsc_status add_gradients(gsc_gradlist *list, const gsc_optimizer *optimizer, size_t n,
                                const gsc_gradlist_rules *rules)
{
    for (size_t i = 0; i < n; i++) {
        const DLTensor *grad = optimizer->grad(optimizer->self, i);
        if (gsc_gradlist_add(list, grad, i, NULL, rules) == GSC_OK)
            continue;
        /* The name is asked for only now that the message needs it. */
        const char *name = optimizer->name ? optimizer->name(optimizer->self, i) : NULL;
        return gsc_gradlist_add(list, grad, i, name, rules);
    }
    return GSC_OK;
}

gsc_status gsc_collect(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc_collection *collection)
{
    GSC_TRY(check_callbacks(optimizer, collection->caller));
    gsc_callback_begin(scaler);
    size_t n = optimizer->grad_count(optimizer->self);
    gsc_callback_end(scaler);

    gsc_record *record;
    GSC_TRY(gsc_record_get(scaler, optimizer, &record));
    GSC_TRY(gsc_report_reserve(scaler, record, n));
    GSC_TRY(gsc_gradlist_begin(&scaler->list, n));
    record->grad_count = n;

    const gsc_gradlist_rules rules = {
        .writes = true, .allow_fp16 = collection->allow_fp16, .caller = collection->caller};
    gsc_callback_begin(scaler);
    gsc_status status = add_gradients(&scaler->list, optimizer, n, &rules);
    gsc_callback_end(scaler);
    GSC_TRY(status);
    return gsc_gradlist_finish(&scaler->list, collection->want_norm);
}
