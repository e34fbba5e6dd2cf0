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

/* A list that ascends in memory without strides is copied into the record's extents later, and only if it is needed:
 * while another one is UNSCALED, or before scaler->list gets the next one. */
static bool needs_extents(const gsc_scaler *scaler)
{
    const gsc__list *list = &scaler->list;
    return !list->ascending || !list->plain || scaler->records.unscaled || scaler->options.strict;
}

/* For a list that is not the record's last one, or was not the last list of all. */
static gsc_status finish_other_list(gsc_scaler *scaler, gsc__record *record, const gsc__list_source *source,
                                    gsc__list_rules *list_rules, const gsc__collect_rules *rules)
{
    gsc__list *list = &scaler->list;
    gsc__extents *extents = &record->extents;
    bool compares = needs_extents(scaler), matches = compares && extents->valid && gsc__extents_match(extents, list);
    if (compares && !matches && rules->claims)
        GSC_TRY(gsc__extents_take(extents, list));
    list_rules->distinct = matches && extents->distinct;
    scaler->list_is_last = matches;
    scaler->list_is_copied = compares;
    GSC_TRY(gsc__list_finish(list, source, list_rules, rules->want_norm));
    if (compares && (matches || rules->claims))
        extents->distinct = list->count == extents->count;
    if (!rules->claims)
        return GSC_OK;
    if (!compares)
        extents->valid = false; /* they are of an earlier list */
    scaler->list_record = record;
    return GSC_OK;
}

/* All gradients are in the list. Drops those that are listed twice and refuses those that share elements. before:
 * whose list this was. */
static inline gsc_status finish_list(gsc_scaler *scaler, gsc__record *record, const gsc__record *before,
                                     const gsc__list_source *source, gsc__list_rules *list_rules,
                                     const gsc__collect_rules *rules)
{
    gsc__list *list = &scaler->list;
    scaler->list_present = list->count;
    if (before != record || !list->matches_previous || list->count < list->previous_count)
        return finish_other_list(scaler, record, source, list_rules, rules);
    scaler->list_is_last = true;
    scaler->list_is_copied = false;
    scaler->list_record = record;
    return gsc__list_finish(list, source, list_rules, rules->want_norm);
}

/* The checks compare integers and pointers, so they may run in the caller's environment, between the callbacks. */
static gsc_status add_gradients(gsc_scaler *scaler, gsc__record *record, size_t n, const gsc__collect_rules *rules)
{
    const gsc_optimizer *optimizer = record->optimizer;
    gsc__list_rules list_rules = {
        .writes = true, .allow_fp16 = rules->allow_fp16, .served = scaler->served, .api = rules->api};
    const gsc__list_source source = {
        .self = optimizer->self, .tensor = optimizer->grad, .name = optimizer->name, .failed = GSC_GRAD_FAILED};
    const gsc__record *before = scaler->list_record;
    scaler->list_record = NULL; /* also where an exception ends this */
    gsc__callback_begin(scaler);
    gsc_status status = gsc__list_add_each(&scaler->list, n, &source, &list_rules);
    if (status == GSC_OK)
        status = finish_list(scaler, record, before, &source, &list_rules, rules);
    gsc__callback_end(scaler);
    return status;
}

gsc_status gsc__collect(gsc_scaler *scaler, gsc__record *record, const gsc__collect_rules *rules)
{
    const gsc_optimizer *optimizer = record->optimizer;
    GSC_TRY(check_callbacks(optimizer, rules->api));
    size_t n = gsc__count_gradients(scaler, optimizer);
    GSC_TRY(gsc__report_reserve(scaler, record, n));
    if (rules->claims)
        record->claim = 0; /* its extents may change */
    GSC_TRY(gsc__keep_extents(scaler));
    GSC_TRY(gsc__list_begin(&scaler->list, n));
    record->grad_count = n;
    return add_gradients(scaler, record, n, rules);
}
