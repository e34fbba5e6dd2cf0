/* SPDX-License-Identifier: Apache-2.0 */
/* create.c: a gsc_mpi comes and goes. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/reserved.h"
#include "base/try.h"
#include "mpi/internal.h"

#define LEAST_TIMEOUT 1e-3
#define GREATEST_TIMEOUT 1e6
#define LEAST_BUCKET ((size_t)1 << 10)
#define GREATEST_BUCKET ((size_t)1 << 30)

static const char api[] = "gsc_mpi_create";

/* MPI may still write into these. */
static _Atomic(gsc_mpi *) abandoned;

gsc_mpi_options gsc_mpi_options_default(void)
{
    return (gsc_mpi_options){.timeout_seconds = 300, .bucket_bytes = (size_t)1 << 22};
}

static gsc_status check_options(const gsc_mpi_options *options)
{
    GSC_TRY(GSC_CHECK_RESERVED(options, api, "options"));
    if (!(options->timeout_seconds >= LEAST_TIMEOUT && options->timeout_seconds <= GREATEST_TIMEOUT))
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: options.timeout_seconds is %g; allowed is %g to %g, start from "
                        "gsc_mpi_options_default()",
                        api, options->timeout_seconds, LEAST_TIMEOUT, GREATEST_TIMEOUT);
    if (options->bucket_bytes < LEAST_BUCKET || options->bucket_bytes > GREATEST_BUCKET)
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: options.bucket_bytes is %zu; allowed is %zu to %zu, start from "
                        "gsc_mpi_options_default()",
                        api, options->bucket_bytes, LEAST_BUCKET, GREATEST_BUCKET);
    return GSC_OK;
}

static gsc_status check_mpi(void)
{
    int initialized = 0, finalized = 0;
    if (MPI_Initialized(&initialized) != MPI_SUCCESS || !initialized)
        return gsc_fail(GSC_ERR_STATE, "%s: MPI is not initialised; call MPI_Init or MPI_Init_thread first", api);
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized)
        return gsc_fail(GSC_ERR_STATE, "%s: MPI is finalised", api);
    return GSC_OK;
}

/* Collective. On a failure MPI may still write mpi->comm. */
static gsc_status duplicate(gsc_mpi *mpi, MPI_Comm comm)
{
    MPI_Request request;
    GSC_MPI_TRY(mpi, MPI_Comm_idup, (comm, &mpi->comm, &request));
    gsc__mpi_wait wait = {.polls = 0};
    for (;;) {
        bool complete = false;
        MPI_Status status;
        GSC_TRY(gsc__mpi_test_all(mpi, 1, &request, &status, &complete));
        if (complete)
            return GSC_OK;
        if (gsc__mpi_wait_expired(&wait, 0, mpi->timeout)) {
            mpi->holds_memory = true;
            return gsc__mpi_fail(
                mpi,
                "%s: rank %d has waited %g s (timeout_seconds) for ranks that did not call it; end this "
                "process without MPI_Finalize",
                api, mpi->rank, mpi->timeout);
        }
    }
}

/* Errors of MPI return from calls with `comm`; then its own handler is set again. */
static gsc_status open_comm(gsc_mpi *mpi, MPI_Comm comm)
{
    MPI_Errhandler before;
    GSC_MPI_TRY(mpi, MPI_Comm_get_errhandler, (comm, &before));
    GSC_MPI_TRY(mpi, MPI_Comm_set_errhandler, (comm, MPI_ERRORS_RETURN));
    int is_inter = 0;
    gsc_status status = GSC_OK;
    if (MPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter)
        status = gsc_fail(GSC_ERR_VALUE,
                          "%s: comm is an intercommunicator; give one of a single group, such as "
                          "MPI_COMM_WORLD",
                          api);
    if (status == GSC_OK &&
        (MPI_Comm_rank(comm, &mpi->rank) != MPI_SUCCESS || MPI_Comm_size(comm, &mpi->size) != MPI_SUCCESS))
        status = gsc_fail(GSC_ERR_COMM, "%s: comm has no rank and size", api);
    if (status == GSC_OK)
        status = duplicate(mpi, comm);
    (void)MPI_Comm_set_errhandler(comm, before);
    (void)MPI_Errhandler_free(&before);
    return status;
}

/* Collective: the ranks cut buckets alike. */
static gsc_status agree_on_options(gsc_mpi *mpi)
{
    gsc__mpi_envelope envelope = {.call = GSC_MPI_CALL_CREATE, .reduction = GSC_MPI_MAX_U64, .count = 2};
    envelope.values.words[0] = mpi->bucket_bytes;
    envelope.values.words[1] = ~(uint64_t)mpi->bucket_bytes;
    GSC_TRY(gsc__mpi_exchange_now(mpi, &envelope));
    const uint64_t least = ~envelope.values.words[1], greatest = envelope.values.words[0];
    if (least == greatest)
        return GSC_OK;
    return gsc__mpi_fail(mpi,
                         "%s: options.bucket_bytes is %zu on rank %d, over all ranks from %llu to %llu; it must be "
                         "the same on every rank",
                         api, mpi->bucket_bytes, mpi->rank, (unsigned long long)least, (unsigned long long)greatest);
}

/* Without waiting for other ranks. */
static void destroy(gsc_mpi *mpi)
{
    if (!mpi->holds_memory) {
        gsc__mpi_groups_free(mpi);
        gsc__mpi_slots_free(mpi);
        free(mpi);
        return;
    }
    mpi->next_abandoned = atomic_load(&abandoned);
    while (!atomic_compare_exchange_weak(&abandoned, &mpi->next_abandoned, mpi))
        continue;
}

gsc_status gsc_mpi_create(MPI_Comm comm, const gsc_mpi_options *options, gsc_mpi **out)
{
    const gsc_mpi_options chosen = options ? *options : gsc_mpi_options_default();
    if (!out)
        return gsc_fail(GSC_ERR_VALUE, "%s: out is NULL", api);
    GSC_TRY(check_options(&chosen));
    GSC_TRY(check_mpi());
    if (comm == MPI_COMM_NULL)
        return gsc_fail(GSC_ERR_VALUE, "%s: comm is MPI_COMM_NULL", api);
    gsc_mpi *mpi = calloc(1, sizeof *mpi);
    if (!mpi)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory", api);
    mpi->comm = MPI_COMM_NULL;
    mpi->timeout = chosen.timeout_seconds;
    mpi->bucket_bytes = chosen.bucket_bytes;
    mpi->last_exchange = &mpi->exchanges;
    mpi->last_group = &mpi->groups;
    gsc_status status = open_comm(mpi, comm);
    if (status == GSC_OK && MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN) != MPI_SUCCESS)
        status = gsc__mpi_fail(mpi, "%s: MPI_Comm_set_errhandler failed", api);
    if (status == GSC_OK)
        status = agree_on_options(mpi);
    if (status != GSC_OK)
        destroy(mpi);
    else
        *out = mpi;
    return status;
}

/* Collective: the other ranks leave, too, or learn that this one does. */
static void leave(gsc_mpi *mpi)
{
    gsc__mpi_envelope envelope = {.call = GSC_MPI_CALL_FREE, .reduction = GSC_MPI_MAX_U64};
    if (mpi->groups)
        (void)gsc__mpi_groups_end(mpi, GSC_MPI_CALL_FREE);
    if (!mpi->failed)
        (void)gsc__mpi_exchange_now(mpi, &envelope);
    if (!mpi->failed)
        (void)MPI_Comm_free(&mpi->comm);
}

void gsc_mpi_free(gsc_mpi *mpi)
{
    if (!mpi)
        return;
    int finalized = 0;
    (void)MPI_Finalized(&finalized);
    if (!mpi->failed && !finalized)
        leave(mpi);
    destroy(mpi);
}

int gsc_mpi_rank(const gsc_mpi *mpi) { return mpi ? mpi->rank : -1; }

int gsc_mpi_size(const gsc_mpi *mpi) { return mpi ? mpi->size : 0; }
