/* SPDX-License-Identifier: Apache-2.0 */
/* collective.c: one call of a collective. It is a callback and runs in the caller's floating-point environment. */
#include "core/internal.h"

int gsc__collective(gsc_scaler *scaler, gsc__reduction *reduction, DLTensor *values, void *stream)
{
    const gsc__activity before = scaler->progress.activity;
    scaler->progress.activity = GSC_REDUCING;
    const uint64_t messages = gsc__message_count();
    gsc__callback_begin(scaler);
    int failure = reduction(scaler->comm.self, values, stream);
    gsc__callback_end(scaler);
    scaler->progress.activity = before;
    scaler->progress.collective_said = gsc__message_count() != messages;
    if (failure != 0)
        scaler->pending.comm_failed = true;
    return failure;
}

gsc_status gsc__collective_failed(const gsc_scaler *scaler, int failure)
{
    const bool said = scaler->progress.collective_said;
    return gsc_fail(GSC_ERR_COMM, "a collective of comm failed and returned %d%s%s", failure, said ? ": " : "",
                    said ? gsc_last_error() : "");
}

gsc_status gsc__refused_elsewhere(void)
{
    return gsc_fail(GSC_ERR_COMM, "another rank refused its gradients; see its message, then call " GSC_WORDS_UPDATE_TO
                                  " on every rank");
}

gsc_status gsc__scales_differ(float here, float least, float greatest)
{
    return gsc_fail(GSC_ERR_COMM,
                    "the ranks' scales differ: here %.9g, over all ranks from %.9g to %.9g; call " GSC_WORDS_UPDATE_TO
                    " with one value on every rank",
                    (double)here, (double)least, (double)greatest);
}
