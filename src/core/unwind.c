/* SPDX-License-Identifier: Apache-2.0 */
/* unwind.c: what an exception that passes through a public function leaves. */
#include "core/internal.h"

/* Ranks with shards skip. Others step, but in a scale-aware step this one can follow them no more: its gradients are
 * still scaled, and a second check would be entered alone. */
static void end_norm(gsc_scaler *scaler, const gsc__progress *interrupted)
{
    gsc__record *record = interrupted->record;
    if (record && record->stage == GSC_STAGE_READY && scaler->options.comm)
        (void)gsc__ranks_failed(scaler, record, GSC_COMM_REFUSED_HERE, GSC_OK);
    if (interrupted->activity == GSC_MEASURING)
        gsc__ranks_norm_refused(scaler, record, interrupted->p);
    else
        gsc__ranks_sums_refused(scaler, record, interrupted->p);
}

static void clean_up(gsc_scaler *scaler, const gsc__progress *interrupted)
{
    gsc__record *record = interrupted->record;
    switch (interrupted->activity) {
    case GSC_IDLE: break;
    case GSC_COLLECTING: gsc__ranks_refuse(scaler, record); break; /* the other ranks wait for what this one has seen */
    case GSC_UNSCALING:
        gsc__note_written(scaler, record);
        gsc__ranks_refuse(scaler, record);
        break;
    case GSC_REPORTING: gsc__record_set_stage(scaler, record, GSC_STAGE_UNSCALED); break;
    case GSC_MEASURING:
    case GSC_SUMMING: end_norm(scaler, interrupted); break;
    case GSC_CLIPPING:
        if (record)
            gsc__note_written(scaler, record);
        break;
    case GSC_REDUCING:
        scaler->pending.comm_failed = true;
        if (record)
            (void)gsc__ranks_failed(scaler, record, GSC_COMM_COLLECTIVE_FAILED, GSC_OK);
        break;
    }
}

void gsc__call_interrupted(const gsc__call *call)
{
    gsc_scaler *scaler = call->scaler;
    const gsc__progress interrupted = scaler->progress;
    scaler->progress.activity = GSC_IDLE;
    scaler->callbacks = call->callbacks;
    scaler->closed = false;
    if (scaler->device)
        scaler->device->is_telling = false;
    GSC_CALL_SCOPE(scaler); /* the collective may throw, too */
    clean_up(scaler, &interrupted);
}
