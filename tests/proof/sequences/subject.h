/* SPDX-License-Identifier: Apache-2.0 */
/* subject.h: the scaler under proof, used through its public functions, and its optimizers. */
#ifndef GSC_TESTS_SEQUENCES_SUBJECT_H
#define GSC_TESTS_SEQUENCES_SUBJECT_H

#include "sequence.h"

/* Where scalers and gradients are. */
typedef struct subject_place {
    DLDevice device;
    const gsc_backend *backend;
    void (*begin)(void); /* before each subject is made: forgets the memory of those before */
    void *(*alloc)(size_t bytes);
    /* All work enqueued so far is done by then. */
    void (*write)(void *to, const void *from, size_t bytes);
    void (*read)(void *to, const void *from, size_t bytes);
} subject_place;
/* For all subjects made from now on. NULL: the CPU, as at first. */
void subject_set_place(const subject_place *place);

typedef struct subject subject;

/* Bit i of scale_aware: optimizer i has step_scaled. NULL when the scaler cannot be made. */
subject *subject_create(const gsc_scaler_options *options, int optimizers, unsigned scale_aware);
void subject_destroy(subject *s);
/* Makes the call and looks at everything that the public functions show. */
void subject_perform(subject *s, const call *c, observation *out);

#endif
