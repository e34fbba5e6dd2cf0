/* SPDX-License-Identifier: Apache-2.0 */
/* collect.c: asks an optimizer for its gradients. */
#include "core/internal.h"

gsc_status gsc__check_step_callback(const gsc_optimizer *optimizer, const char *api)
{
    if (optimizer->step)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: the optimizer's step callback is NULL", api);
}

static gsc_status check_callbacks(const gsc_optimizer *optimizer, const char *api)
{
    GSC_TRY(gsc__check_step_callback(optimizer, api));
    if (!optimizer->grad_count)
        return gsc_fail(GSC_ERR_VALUE, "%s: the optimizer's grad_count callback is NULL", api);
    if (!optimizer->grad)
        return gsc_fail(GSC_ERR_VALUE, "%s: the optimizer's grad callback is NULL", api);
    return GSC_OK;
}

static size_t count_gradients(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    gsc__callback_begin(scaler);
    size_t n = optimizer->grad_count(optimizer->self);
    gsc__callback_end(scaler);
    return n;
}

/* The checks compare integers and pointers, so they may run in the caller's environment, between the callbacks. */
static gsc_status add_gradients(gsc_scaler *scaler, const gsc_optimizer *optimizer, size_t n,
                                const gsc__collect_rules *rules)
{
    const gsc__list_rules list_rules = {.writes = true, .allow_fp16 = rules->allow_fp16, .api = rules->api};
    const gsc__list_source source = {
        .self = optimizer->self, .tensor = optimizer->grad, .name = optimizer->name, .failed = GSC_GRAD_FAILED};
    gsc__callback_begin(scaler);
    gsc_status status = gsc__list_add_each(&scaler->list, n, &source, &list_rules);
    if (status == GSC_OK)
        status = gsc__list_finish(&scaler->list, &source, &list_rules, rules->want_norm);
    gsc__callback_end(scaler);
    return status;
}

gsc_status gsc__collect(gsc_scaler *scaler, gsc__record *record, const gsc__collect_rules *rules)
{
    const gsc_optimizer *optimizer = record->optimizer;
    GSC_TRY(check_callbacks(optimizer, rules->api));
    size_t n = count_gradients(scaler, optimizer);
    GSC_TRY(gsc__report_reserve(scaler, record, n));
    GSC_TRY(gsc__list_begin(&scaler->list, n));
    record->grad_count = n;
    return add_gradients(scaler, optimizer, n, rules);
}
