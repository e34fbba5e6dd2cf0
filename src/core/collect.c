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

gsc_status gsc_collect(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc_collection *collection)
{
    GSC_TRY(check_callbacks(optimizer, collection->caller));
    bool was_in_env = gsc_callback_begin(scaler);
    size_t n = optimizer->grad_count(optimizer->self);
    gsc_callback_end(scaler, was_in_env);

    gsc_record *record;
    GSC_TRY(gsc_record_get(scaler, optimizer, &record));
    GSC_TRY(gsc_report_reserve(scaler, record, n));
    GSC_TRY(gsc_gradlist_begin(&scaler->list, n));
    record->grad_count = n;

    const gsc_gradlist_rules rules = {
        .writes = true, .allow_fp16 = collection->allow_fp16, .caller = collection->caller};
    const gsc_gradlist_source source = {.self = optimizer->self, .tensor = optimizer->grad, .name = optimizer->name};
    was_in_env = gsc_callback_begin(scaler); /* checks are of integers and pointers: the caller's environment is fine */
    gsc_status status = gsc_gradlist_add_each(&scaler->list, n, &source, &rules);
    gsc_callback_end(scaler, was_in_env);
    GSC_TRY(status);
    return gsc_gradlist_finish(&scaler->list, collection->want_norm);
}
