/* SPDX-License-Identifier: Apache-2.0 */
/* step_buffers.c: calls that are handed the gradients as arrays, and leave the step to their caller. */
#include "core/entry.h"

/* record: what the scaler knows of this key, NULL: nothing. */
static gsc_status check_call(const gsc_scaler *scaler, const gsc__user *user, gsc__record **record)
{
    GSC_TRY(gsc__check_scaler(scaler, user->api));
    GSC_TRY(gsc__check_not_null(user->key, user->api, "key"));
    if (user->count > 0)
        GSC_TRY(gsc__check_not_null(user->buffers, user->api, "grads"));
    *record = gsc__record_find(scaler, user->key);
    if (*record && (*record)->use == GSC_USED_AS_OPTIMIZER)
        return gsc_fail(
            GSC_ERR_STATE,
            "%s: key is the address of an optimizer that this scaler knows; take another address, or forget "
            "the optimizer first",
            user->api);
    return GSC_OK;
}

static gsc_status check_args(const gsc_step_args *args, const char *api)
{
    if (args->closure || args->extra)
        return gsc_fail(GSC_ERR_VALUE, "%s: args.%s is set, but this call makes no step that could use it; pass NULL",
                        api, args->closure ? "closure" : "extra");
    return GSC_OK;
}

gsc_status gsc_scaler_step_buffers(gsc_scaler *scaler, const void *key, const gsc_buffer *grads, size_t n,
                                   const gsc_step_args *args, gsc_step_result *result)
{
    gsc__user user = {
        .api = "gsc_scaler_step_buffers", .key = key, .use = GSC_USED_WITH_BUFFERS, .buffers = grads, .count = n};
    gsc__record *record;
    GSC_TRY(check_call(scaler, &user, &record));
    GSC_TRY(gsc__check_not_null(result, user.api, "result"));
    if (args)
        GSC_TRY(check_args(args, user.api));
    const gsc_optimizer optimizer = gsc__arrays_optimizer(&scaler->arrays);
    user.optimizer = &optimizer;
    return gsc__step(scaler, &user, record, args, result);
}

gsc_status gsc_scaler_unscale_buffers(gsc_scaler *scaler, const void *key, const gsc_buffer *grads, size_t n,
                                      bool *found_inf)
{
    gsc__user user = {
        .api = "gsc_scaler_unscale_buffers", .key = key, .use = GSC_USED_WITH_BUFFERS, .buffers = grads, .count = n};
    gsc__record *record;
    GSC_TRY(check_call(scaler, &user, &record));
    const gsc_optimizer optimizer = gsc__arrays_optimizer(&scaler->arrays);
    user.optimizer = &optimizer;
    GSC_TRY(gsc__unscale(scaler, &user, record));
    record = gsc__record_find(scaler, key); /* NULL: disabled */
    if (found_inf && record && scaler->device)
        GSC_TRY(gsc__device_know(scaler, record, &optimizer, user.api));
    if (found_inf)
        *found_inf = record && record->found_inf;
    return GSC_OK;
}
