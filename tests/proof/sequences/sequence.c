/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.c: comparing observations, and printing how they differ. */
#include <stddef.h>
#include <string.h>

#include "sequence.h"

enum { FIELDS = sizeof(observation) / sizeof(double), OPTIMIZER_FIELDS = sizeof(seen_optimizer) / sizeof(double) };

#define NAME(name) #name,
static const char *const scaler_fields[] = {OBSERVED_SCALER(NAME) OBSERVED_RESULT(NAME)};
static const char *const optimizer_fields[] = {OBSERVED_OPTIMIZER(NAME) OBSERVED_RESULT(NAME)};
#undef NAME

_Static_assert(sizeof optimizer_fields / sizeof optimizer_fields[0] == OPTIMIZER_FIELDS, "a name for each field");
_Static_assert(sizeof scaler_fields / sizeof scaler_fields[0] + MAX_OPTIMIZERS * OPTIMIZER_FIELDS == FIELDS,
               "a name for each field");

static size_t compared_bytes(int optimizers)
{
    return offsetof(observation, optimizers) + (size_t)optimizers * sizeof(seen_optimizer);
}

bool observations_equal(const observation *one, const observation *other, int optimizers)
{
    return memcmp(one, other, compared_bytes(optimizers)) == 0;
}

static void print_call(FILE *to, const call *c)
{
    static const char *const names[] = {"unscale", "clip_grad_norm", "step",   "record",   "skip",
                                        "rearm",   "forget",         "update", "update_to"};
    fprintf(to, "  gsc_scaler_%s", names[c->kind]);
    if (c->kind == CALL_UPDATE)
        fprintf(to, "()");
    else if (c->kind == CALL_UPDATE_TO)
        fprintf(to, "(%.9g)", c->number);
    else
        fprintf(to, "(optimizer %d", c->optimizer);
    if (c->kind == CALL_CLIP)
        fprintf(to, ", max_norm %.9g", c->number);
    if (c->kind == CALL_STEP && c->number > 0)
        fprintf(to, ", clip_norm %.9g", c->number);
    if (c->kind == CALL_STEP && c->flag)
        fprintf(to, ", whose step fails");
    if (c->kind == CALL_RECORD)
        fprintf(to, ", %s", c->flag ? "true" : "false");
    if (c->kind < CALL_UPDATE)
        fprintf(to, ")");
    if (c->backward == BACKWARD_ABSENT)
        fprintf(to, " after a backward pass: no gradient");
    if (c->backward == BACKWARD_VALUE)
        fprintf(to, " after a backward pass: gradient %.9g", (double)c->gradient);
    fprintf(to, "\n");
}

static void print_field(FILE *to, size_t field, double expected, double actual)
{
    const size_t before = sizeof scaler_fields / sizeof scaler_fields[0];
    if (field < before)
        fprintf(to, "  %s", scaler_fields[field]);
    else
        fprintf(to, "  optimizer %zu: %s", (field - before) / OPTIMIZER_FIELDS,
                optimizer_fields[(field - before) % OPTIMIZER_FIELDS]);
    fprintf(to, ": %.17g, by the model %.17g\n", actual, expected);
}

void print_difference(FILE *to, const call *calls, int n, const observation *expected, const observation *actual,
                      int optimizers)
{
    for (int i = 0; i < n; i++)
        print_call(to, &calls[i]);
    fprintf(to, "The last call answers %s; by the model, %s. What differs:\n",
            gsc_status_name((gsc_status)(int)actual->status), gsc_status_name((gsc_status)(int)expected->status));
    for (size_t i = 0; i < compared_bytes(optimizers) / sizeof(double); i++) {
        double one, other;
        memcpy(&one, (const char *)expected + i * sizeof one, sizeof one);
        memcpy(&other, (const char *)actual + i * sizeof other, sizeof other);
        if (memcmp(&one, &other, sizeof one) != 0)
            print_field(to, i, one, other);
    }
}
