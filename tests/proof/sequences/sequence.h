/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.h: one call of a sequence, and the observation after it. The scaler and the model both take the call and
 * fill the observation; nothing else connects them. */
#ifndef GSC_TESTS_MODEL_SEQUENCE_H
#define GSC_TESTS_MODEL_SEQUENCE_H

#include <stdio.h>

#include "gradscaler/gradscaler.h"

enum { MAX_OPTIMIZERS = 4 };

typedef enum call_kind {
    CALL_UNSCALE,
    CALL_CLIP,
    CALL_STEP,
    CALL_RECORD,
    CALL_SKIP,
    CALL_REARM,
    CALL_FORGET,
    CALL_UPDATE,
    CALL_UPDATE_TO
} call_kind;

/* What a backward pass before the call leaves in the optimizer's one gradient of one element. */
typedef enum backward { BACKWARD_NONE, BACKWARD_ABSENT, BACKWARD_VALUE } backward;

typedef struct call {
    call_kind kind;
    int optimizer; /* all but update, update_to */
    backward backward;
    float gradient; /* BACKWARD_VALUE: still scaled */
    double number;  /* clip: max_norm; step: clip_norm, 0 for none; update_to: new_scale */
    bool flag;      /* record: found_inf; step: the optimizer's step fails */
} call;

/* Only doubles, with one kind of NaN, so that equal observations have equal bytes. */
#define OBSERVED_RESULT(X) X(outcome) X(has_value) X(value) X(grad_norm) X(max_abs)
#define OBSERVED_OPTIMIZER(X)                                                                                          \
    X(stage) X(found_inf) X(has_gradient) X(gradient) X(steps) X(scaled_steps) X(multiplier) X(result_status)
#define OBSERVED_SCALER(X)                                                                                             \
    X(status)                                                                                                          \
    X(total_norm)                                                                                                      \
    X(scale)                                                                                                           \
    X(state_scale)                                                                                                     \
    X(growth_tracker)                                                                                                  \
    X(hysteresis_tracker)                                                                                              \
    X(state_consecutive_skips) X(updates) X(steps) X(skipped_steps) X(backoffs) X(growths) X(consecutive_skips)

#define FIELD(name) double name;
typedef struct seen_result {
    OBSERVED_RESULT(FIELD)
} seen_result;
typedef struct seen_optimizer {
    OBSERVED_OPTIMIZER(FIELD)
    seen_result result; /* of gsc_scaler_result */
} seen_optimizer;
typedef struct observation {
    OBSERVED_SCALER(FIELD)
    seen_result result; /* of this call, a step */
    seen_optimizer optimizers[MAX_OPTIMIZERS];
} observation;
#undef FIELD

/* The outputs hold this before each call; a call that fails must leave it there. */
#define UNTOUCHED (-77.0)
static const seen_result untouched_result = {UNTOUCHED, 0.0, UNTOUCHED, UNTOUCHED, UNTOUCHED};

bool observations_equal(const observation *one, const observation *other, int optimizers);
/* The calls, one a line, and the fields in which the last one's observations differ. */
void print_difference(FILE *to, const call *calls, int n, const observation *expected, const observation *actual,
                      int optimizers);

#endif
