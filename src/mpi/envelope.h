/* SPDX-License-Identifier: Apache-2.0 */
/* envelope.h: the small message of all exchanges: 32 bytes, of which 24 are values. */
#ifndef GSC_MPI_ENVELOPE_H
#define GSC_MPI_ENVELOPE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* The calls that exchange; a rank that is in another one is told by these names. */
#define GSC_MPI_CALLS(X)                                                                                               \
    X(CREATE, "gsc_mpi_create")                                                                                        \
    X(FREE, "gsc_mpi_free")                                                                                            \
    X(MAX, "a scaler's allreduce_max")                                                                                 \
    X(SUM, "a scaler's allreduce_sum")                                                                                 \
    X(MAX64, "a scaler's allreduce_max64")                                                                             \
    X(AVERAGE, "gsc_mpi_average_gradients")                                                                            \
    X(BROADCAST, "gsc_mpi_broadcast_tensors")                                                                          \
    X(SYNCHRONIZE, "gsc_mpi_synchronize")                                                                              \
    X(SAME, "gsc_mpi_check_same")

typedef enum gsc__mpi_call {
#define GSC_MPI_CALL_ENUMERATOR(name, text) GSC_MPI_CALL_##name,
    GSC_MPI_CALLS(GSC_MPI_CALL_ENUMERATOR)
#undef GSC_MPI_CALL_ENUMERATOR
        GSC_MPI_CALL_COUNT
} gsc__mpi_call;

typedef enum gsc__mpi_fault {
    GSC_MPI_NO_FAULT,
    GSC_MPI_REFUSED,    /* rank `ranks[0]` refused its arguments */
    GSC_MPI_OUT_OF_STEP /* ranks `ranks[i]` are in the calls `calls[i]` */
} gsc__mpi_fault;

/* How values are combined. */
typedef enum gsc__mpi_reduction {
    GSC_MPI_MAX_F32, /* NaN wins */
    GSC_MPI_MAX_F64,
    GSC_MPI_SUM_F64,
    GSC_MPI_MAX_U64
} gsc__mpi_reduction;

#define GSC_MPI_FLOATS_EACH 6
#define GSC_MPI_DOUBLES_EACH 3

typedef struct gsc__mpi_envelope {
    uint32_t sequence;
    uint8_t call, reduction, fault, count; /* count: of values */
    union {
        float floats[GSC_MPI_FLOATS_EACH];
        double doubles[GSC_MPI_DOUBLES_EACH];
        uint64_t words[GSC_MPI_DOUBLES_EACH];
        struct {
            int32_t ranks[2];
            uint8_t calls[2];
        } fault;
    } values;
} gsc__mpi_envelope;

static_assert(sizeof(gsc__mpi_envelope) == 32, "a decision is one message of at most 32 bytes");

const char *gsc__mpi_call_name(unsigned call);
/* *lower becomes the combination of two ranks' envelopes; every rank that combines the same two gets the same bits. */
void gsc__mpi_envelope_combine(gsc__mpi_envelope *lower, int lower_rank, const gsc__mpi_envelope *upper,
                               int upper_rank);

#endif
