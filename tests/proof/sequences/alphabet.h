/* SPDX-License-Identifier: Apache-2.0 */
/* alphabet.h: which calls sequences are made of, and with which options. */
#ifndef GSC_TESTS_SEQUENCES_ALPHABET_H
#define GSC_TESTS_SEQUENCES_ALPHABET_H

#include "sequence.h"

/* One set of options with its calls, on two optimizers. */
typedef struct variant {
    const char *name;
    int whole, sample; /* the longest sequences, of the proof and of its sample */
    gsc_scaler_options options;
    unsigned scale_aware; /* bit i: optimizer i has step_scaled */
    bool clips_in_step;   /* steps without and with clip_norm */
    bool fails;           /* steps that succeed and steps that fail */
    bool inf_and_nan;     /* overflow is inf and NaN for both optimizers; else inf for one, NaN for the other */
    bool refused_scale;   /* update_to also with a scale that is not allowed */
    bool always_backward; /* new gradients before every call that may read them; else once until the next update, rearm
                             or forget, before the first that may */
} variant;

enum { MAX_VARIANTS = 16, MAX_CALLS = 128 };

/* Fills out[MAX_VARIANTS], the main one first, and returns how many. */
int list_variants(variant *out);
/* Fills out[MAX_CALLS] with all calls that may come next, and returns how many. due[i]: optimizer i is due for a
 * backward pass. */
int list_calls(const variant *v, const bool *due, call *out);
/* What is due after a call. */
void note_due(bool *due, const call *c);

#endif
