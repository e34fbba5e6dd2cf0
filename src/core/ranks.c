/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c: one decision for all ranks. Every rank enters the same collectives in the same order, also without gradients
 * and also after it refused a gradient; otherwise the other ranks would wait for it forever. */
#include <limits.h>
#include <math.h>

#include "core/internal.h"

/* Returns what the collective returned: 0 on success. Arithmetic on its result follows, so the library's environment is
 * entered after it. */
static int reduce(gsc_scaler *scaler, gsc__reduction *reduction, DLDataType dtype, void *values, int64_t n)
{
    DLTensor tensor = {.data = values, .device = scaler->options.device, .ndim = 1, .dtype = dtype, .shape = &n};
    int failure = gsc__collective(scaler, reduction, &tensor, NULL);
    gsc__env_enter(scaler);
    return failure;
}

gsc_status gsc__ranks_agree(gsc_scaler *scaler, gsc__agreement *agreement)
{
    if (!scaler->options.comm)
        return GSC_OK;
    /* min(scale) = -max(-scale), so one allreduce_max gives the smallest scale, too. */
    enum { FOUND_INF, CHECKED, FAILED, SCALE, MINUS_SCALE, COUNT };
    float values[COUNT] = {[FOUND_INF] = agreement->found_inf ? 1.0f : 0.0f,
                           [CHECKED] = agreement->checked ? 1.0f : 0.0f,
                           [FAILED] = agreement->failed ? 1.0f : 0.0f,
                           [SCALE] = scaler->schedule.scale,
                           [MINUS_SCALE] = -scaler->schedule.scale};
    int failure = reduce(scaler, scaler->comm.allreduce_max, GSC_FLOAT32, values, COUNT);
    if (agreement->failed) {
        agreement->failure = GSC_COMM_REFUSED_HERE;
        scaler->pending.comm_failed = true;
        return GSC_ERR_COMM; /* this rank's own message stays: it names the cause */
    }
    if (failure != 0) {
        agreement->failure = GSC_COMM_COLLECTIVE_FAILED;
        return gsc__collective_failed(scaler, failure);
    }
    if (values[FAILED] > 0.0f) {
        agreement->failure = GSC_COMM_REFUSED_ELSEWHERE;
        scaler->pending.comm_failed = true;
        return gsc__refused_elsewhere();
    }
    if (values[SCALE] != -values[MINUS_SCALE]) {
        agreement->failure = GSC_COMM_SCALES_DIFFER;
        scaler->pending.comm_failed = true;
        return gsc__scales_differ(scaler->schedule.scale, -values[MINUS_SCALE], values[SCALE]);
    }
    agreement->found_inf = values[FOUND_INF] > 0.0f;
    agreement->checked = values[CHECKED] > 0.0f;
    return GSC_OK;
}

gsc_status gsc__ranks_failed(gsc_scaler *scaler, gsc__record *record, gsc__comm_failure failure, gsc_status status)
{
    gsc__record_set_stage(scaler, record, GSC_STAGE_UNSCALED);
    record->comm_failure = failure;
    scaler->pending.recorded = true;
    return status;
}

void gsc__ranks_refuse(gsc_scaler *scaler, gsc__record *record)
{
    gsc__agreement agreement = {.failed = true};
    scaler->progress.record = record;
    if (scaler->device && scaler->options.comm) {
        gsc__device_refuse(scaler);
        agreement.failure = GSC_COMM_REFUSED_HERE;
        scaler->pending.comm_failed = true;
    } else {
        (void)gsc__ranks_agree(scaler, &agreement);
    }
    if (record)
        record->comm_failure = agreement.failure;
}

/* *exponent becomes the largest over all ranks, so that every rank scales its terms by the same power of two. */
static int agree_on_exponent(gsc_scaler *scaler, int *exponent)
{
    float value = (float)*exponent;
    int failure = reduce(scaler, scaler->comm.allreduce_max, GSC_FLOAT32, &value, 1);
    if (failure == 0)
        *exponent = (int)value;
    return failure;
}

static int reduce_sums(gsc_scaler *scaler, gsc__norm_sums *sums)
{
    if (!isinf(sums->p))
        return reduce(scaler, scaler->comm.allreduce_sum, GSC_FLOAT64, sums->sums,
                      sizeof sums->sums / sizeof *sums->sums);
    if (scaler->comm.allreduce_max64)
        return reduce(scaler, scaler->comm.allreduce_max64, GSC_FLOAT64, &sums->max_abs, 1);
    float largest = (float)sums->max_abs;
    int failure = reduce(scaler, scaler->comm.allreduce_max, GSC_FLOAT32, &largest, 1);
    sums->max_abs = (double)largest;
    return failure;
}

/* Where no rank's check found an overflow, a norm of shards is NaN because a rank refused its gradients since. */
static gsc_status check_norm(gsc_scaler *scaler, gsc__record *record, double norm)
{
    if (!record || record->found_inf || !gsc__is_sharded(scaler) || !isnan(norm))
        return GSC_OK;
    scaler->pending.comm_failed = true;
    gsc_fail(GSC_ERR_COMM,
             "a rank refused its gradients at their norm, or they became NaN after the check; see its message, then "
             "call " GSC_WORDS_UPDATE_TO " on every rank");
    return gsc__ranks_failed(scaler, record, GSC_COMM_REFUSED_ELSEWHERE, GSC_ERR_COMM);
}

gsc_status gsc__ranks_norm(gsc_scaler *scaler, gsc__record *record, double r, double p, const gsc__norm_sums *known,
                           double *norm)
{
    gsc__norm_sums sums = {.p = p};
    int failure = 0;
    if (known) {
        sums = *known;
    } else {
        scaler->progress.activity = GSC_MEASURING;
        scaler->progress.p = p;
        sums.exponent = gsc__norm_exponent(&scaler->list, r, p);
        if (gsc__is_sharded(scaler) && gsc__norm_needs_exponent(p))
            failure = agree_on_exponent(scaler, &sums.exponent);
        scaler->progress.activity = GSC_SUMMING;
        gsc__norm_sum(&scaler->list, r, p, &sums, NULL);
        scaler->progress.activity = GSC_IDLE;
    }
    if (failure == 0 && gsc__is_sharded(scaler))
        failure = reduce_sums(scaler, &sums);
    if (failure != 0) {
        gsc_status status = gsc__collective_failed(scaler, failure);
        return record ? gsc__ranks_failed(scaler, record, GSC_COMM_COLLECTIVE_FAILED, status) : status;
    }
    *norm = gsc__norm_from_sums(&sums);
    return check_norm(scaler, record, *norm);
}

static void refuse_norm(gsc_scaler *scaler, gsc__record *record)
{
    scaler->progress.record = record;
    if (record && scaler->device)
        gsc__device_try_to_learn(scaler, record);
    if (record && record->found_inf)
        return; /* all skip, and the others cannot tell this NaN from the overflow's */
    scaler->pending.comm_failed = true;
    if (record)
        (void)gsc__ranks_failed(scaler, record, GSC_COMM_REFUSED_HERE, GSC_OK);
}

/* These two leave no message of their own, so that the message of the refusal stays. */
void gsc__ranks_norm_refused(gsc_scaler *scaler, gsc__record *record, double p)
{
    if (!gsc__is_sharded(scaler))
        return;
    refuse_norm(scaler, record);
    if (scaler->device) {
        gsc__device_refuse_norm(scaler, p, false);
        return;
    }
    int exponent = INT_MIN / 2; /* no rank has a smaller one, so the maximum is the other ranks' */
    if (!gsc__norm_needs_exponent(p) || agree_on_exponent(scaler, &exponent) == 0)
        gsc__ranks_sums_refused(scaler, record, p);
}

void gsc__ranks_sums_refused(gsc_scaler *scaler, gsc__record *record, double p)
{
    if (!gsc__is_sharded(scaler))
        return;
    refuse_norm(scaler, record);
    if (scaler->device) {
        gsc__device_refuse_norm(scaler, p, true);
        return;
    }
    /* NaN makes the norm NaN on the other ranks, which then skip, too. */
    gsc__norm_sums sums = {.p = p, .sums = {NAN, NAN, NAN}, .max_abs = NAN};
    (void)reduce_sums(scaler, &sums);
}
