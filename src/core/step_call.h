/* SPDX-License-Identifier: Apache-2.0 */
/* step_call.h: one call of gsc_scaler_step or gsc_scaler_step_buffers, for the files that make it. */
#ifndef GSC_CORE_STEP_CALL_H
#define GSC_CORE_STEP_CALL_H

#include "core/internal.h"

typedef struct gsc__step_attempt {
    const char *api;
    gsc_scaler *scaler;
    const gsc_optimizer *optimizer;
    gsc__record *record;
    const gsc_step_args *args;
    bool clips;
    double p; /* of the norm that is clipped */
    gsc_step_result result;
} gsc__step_attempt;

/* step_call.c: calls the optimizer. scaling NULL: the plain step. GSC_ERR_OPTIMIZER: it failed. */
gsc_status gsc__step_call(gsc__step_attempt *attempt, const gsc_grad_scaling *scaling);
/* Whether an overflow, or the ranks, forbid the step. */
static inline bool gsc__step_must_skip(const gsc__record *record)
{
    return record->found_inf || record->comm_failure != GSC_COMM_FINE;
}
/* The norm in the result of a step that clips and was skipped. */
double gsc__step_skipped_norm(double max_abs);

/* device_step.c: the step of an enabled scaler on a device. The arguments have been checked, and it is its turn. */
gsc_status gsc__device_step(gsc__step_attempt *attempt);
/* After settle. Fills in what a PENDING result leaves open. */
void gsc__device_resolve(const gsc_scaler *scaler, const gsc__record *record, gsc_step_result *result);

#endif
