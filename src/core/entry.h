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

static inline gsc_status gsc__check_optimizer(const gsc_optimizer *optimizer, const char *api)
{
    GSC_TRY(gsc__check_not_null(optimizer, api, "optimizer"));
    return GSC_CHECK_RESERVED(optimizer, api, "optimizer");
}

/* For those that change what the scaler knows about an optimizer. */
static inline gsc_status gsc__check_call(const gsc_scaler *scaler, const gsc_optimizer *optimizer, const char *api)
{
    GSC_TRY(gsc__check_scaler(scaler, api));
    return gsc__check_optimizer(optimizer, api);
}

#endif
