/* SPDX-License-Identifier: Apache-2.0 */
/* subject.h: the scaler under proof, used through its public functions, and its optimizers. */
#ifndef GSC_TESTS_SEQUENCES_SUBJECT_H
#define GSC_TESTS_SEQUENCES_SUBJECT_H

#include "sequence.h"

typedef struct subject subject;

/* Bit i of scale_aware: optimizer i has step_scaled. NULL when the scaler cannot be made. */
subject *subject_create(const gsc_scaler_options *options, int optimizers, unsigned scale_aware);
void subject_destroy(subject *s);
/* Makes the call and looks at everything that the public functions show. */
void subject_perform(subject *s, const call *c, observation *out);

#endif
