/* SPDX-License-Identifier: Apache-2.0 */
/* envelope.c: two ranks' envelopes become one. */
#include "mpi/envelope.h"

#include <math.h>
#include <string.h>

const char *gsc__mpi_call_name(unsigned call)
{
    static const char *const names[] = {
#define NAME(name, text) text,
        GSC_MPI_CALLS(NAME)
#undef NAME
    };
    return call < GSC_MPI_CALL_COUNT ? names[call] : "an unknown call";
}

/* The payload of a NaN would be that of one operand or the other, as the processor likes. */
static double one_nan(double value) { return isnan(value) ? (double)NAN : value; }

static float max_f32(float a, float b) { return isnan(a) || isnan(b) ? NAN : b > a ? b : a; }

static double max_f64(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : b > a ? b : a; }

static uint64_t max_u64(uint64_t a, uint64_t b) { return b > a ? b : a; }

static void combine_values(gsc__mpi_envelope *lower, const gsc__mpi_envelope *upper)
{
    for (unsigned i = 0; i < lower->count; i++) {
        switch (lower->reduction) {
        case GSC_MPI_MAX_F32:
            lower->values.floats[i] = max_f32(lower->values.floats[i], upper->values.floats[i]);
            break;
        case GSC_MPI_MAX_F64:
            lower->values.doubles[i] = max_f64(lower->values.doubles[i], upper->values.doubles[i]);
            break;
        case GSC_MPI_SUM_F64:
            lower->values.doubles[i] = one_nan(lower->values.doubles[i] + upper->values.doubles[i]);
            break;
        default: lower->values.words[i] = max_u64(lower->values.words[i], upper->values.words[i]); break;
        }
    }
}

static bool is_same_call(const gsc__mpi_envelope *a, const gsc__mpi_envelope *b)
{
    return a->sequence == b->sequence && a->call == b->call && a->reduction == b->reduction &&
           (a->fault || b->fault || a->count == b->count);
}

/* Ranks that are out of step come before a rank that refused. */
void gsc__mpi_envelope_combine(gsc__mpi_envelope *lower, int lower_rank, const gsc__mpi_envelope *upper, int upper_rank)
{
    if (lower->fault != GSC_MPI_OUT_OF_STEP && upper->fault != GSC_MPI_OUT_OF_STEP && !is_same_call(lower, upper)) {
        const uint8_t calls[2] = {lower->call, upper->call};
        lower->fault = GSC_MPI_OUT_OF_STEP;
        lower->values.fault.ranks[0] = lower_rank;
        lower->values.fault.ranks[1] = upper_rank;
        memcpy(lower->values.fault.calls, calls, sizeof calls);
    } else if (upper->fault > lower->fault) {
        *lower = *upper;
    } else if (!lower->fault) {
        combine_values(lower, upper);
    }
}
