/* SPDX-License-Identifier: Apache-2.0 */
/* entry.h: what public functions check first: their pointers, and calls from callbacks. `api` is the function's name.
 *
 * Inline, since small calls notice: scale, step and update of one small gradient take 120 ns, and 133 ns with calls. */
#ifndef GSC_CORE_ENTRY_H
#define GSC_CORE_ENTRY_H

#include "core/internal.h"

static inline gsc_status gsc__check_not_null(const void *pointer, const char *api, const char *name)
{
    if (pointer)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", api, name);
}

/* For functions that change the scaler: refuses NULL and calls from callbacks. */
static inline gsc_status gsc__check_scaler(const gsc_scaler *scaler, const char *api)
{
    GSC_TRY(gsc__check_not_null(scaler, api, "scaler"));
    if (!scaler->closed)
        return GSC_OK;
    return gsc_fail(GSC_ERR_STATE, "%s: called from a callback of the same scaler; only %s", api,
                    GSC_WORDS("functions that take it const may be",
                              "those that change nothing may be, such as get_scale and outcome"));
}

/* For those that change what the scaler knows about an optimizer, or about the key that stands for one and is never
 * read. *record: what it knows, NULL: nothing. */
static inline gsc_status gsc__check_known(const gsc_scaler *scaler, const void *key, const char *api,
                                          gsc__record **record)
{
    GSC_TRY(gsc__check_scaler(scaler, api));
    GSC_TRY(gsc__check_not_null(key, api, "optimizer"));
    *record = gsc__record_find(scaler, key);
    return GSC_OK;
}

/* For those that call an optimizer's callbacks. */
static inline gsc_status gsc__check_call(const gsc_scaler *scaler, const gsc_optimizer *optimizer, const char *api,
                                         gsc__record **record)
{
    GSC_TRY(gsc__check_known(scaler, optimizer, api, record));
    if (*record && (*record)->use == GSC_USED_WITH_BUFFERS)
        return gsc_fail(GSC_ERR_STATE,
                        "%s: this is a key that gsc_scaler_step_buffers or gsc_scaler_unscale_buffers was called with, "
                        "and no optimizer; go on with those two",
                        api);
    return GSC_CHECK_RESERVED(optimizer, api, "optimizer");
}

#endif
