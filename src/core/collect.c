/* SPDX-License-Identifier: Apache-2.0 */
#include "core/internal.h"

gsc_status gsc__check_step(const gsc_optimizer *optimizer, const char *caller)
{
    if (!optimizer->step)
        return gsc_fail(GSC_ERR_VALUE, "%s: the optimizer's step callback is NULL", caller);
    return GSC_OK;
}

static gsc_status check_callbacks(const gsc_optimizer *optimizer, const char *caller)
{
    GSC_TRY(gsc__check_step(optimizer, caller));
    if (!optimizer->grad_count)
        return gsc_fail(GSC_ERR_VALUE, "%s: the optimizer's grad_count callback is NULL", caller);
    if (!optimizer->grad)
        return gsc_fail(GSC_ERR_VALUE, "%s: the optimizer's grad callback is NULL", caller);
    return GSC_OK;
}

gsc_status gsc__collect(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc__collection *collection)
{
    GSC_TRY(check_callbacks(optimizer, collection->caller));
    bool was_in_env = gsc__callback_begin(scaler);
    size_t n = optimizer->grad_count(optimizer->self);
    gsc__callback_end(scaler, was_in_env);

    gsc__record *record;
    GSC_TRY(gsc__record_get(scaler, optimizer, &record));
    GSC_TRY(gsc__report_reserve(scaler, record, n));
    GSC_TRY(gsc__list_begin(&scaler->list, n));
    record->grad_count = n;

    const gsc__list_rules rules = {.writes = true, .allow_fp16 = collection->allow_fp16, .api = collection->caller};
    const gsc__list_source source = {.self = optimizer->self, .tensor = optimizer->grad, .name = optimizer->name};
    was_in_env =
        gsc__callback_begin(scaler); /* checks are of integers and pointers: the caller's environment is fine */
    gsc_status status = gsc__list_add_each(&scaler->list, n, &source, &rules);
    gsc__callback_end(scaler, was_in_env);
    GSC_TRY(status);
    return gsc__list_finish(&scaler->list, collection->want_norm);
}
