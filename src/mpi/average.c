/* SPDX-License-Identifier: Apache-2.0 */
/* average.c: gsc_mpi_average_*. */
#include <stdio.h>

#include "base/try.h"
#include "mpi/internal.h"

/* A refusal is what end returns on this rank, too. */
static gsc_status refuse(gsc_mpi *mpi, gsc_status status)
{
    if (mpi->refused == GSC_OK) {
        snprintf(mpi->refusal, sizeof mpi->refusal, "%s", gsc_last_error());
        mpi->refused = status;
    }
    gsc__mpi_refuse(mpi, GSC_MPI_CALL_AVERAGE);
    return status;
}

static gsc_status begin(gsc_mpi *mpi, DLTensor *const *grads, size_t n)
{
    gsc__mpi_group *group;
    gsc_status status = gsc__mpi_group_make(mpi, GSC_MPI_CALL_AVERAGE, grads, n, &group);
    if (status != GSC_OK)
        return refuse(mpi, status);
    gsc__mpi_group_start(mpi, group);
    return gsc__mpi_poll(mpi);
}

gsc_status gsc_mpi_average_begin(gsc_mpi *mpi, DLTensor *const *grads, size_t n)
{
    GSC_TRY(gsc__mpi_check(mpi, "gsc_mpi_average_begin"));
    mpi->averaging = true;
    return begin(mpi, grads, n);
}

gsc_status gsc_mpi_average_poll(gsc_mpi *mpi)
{
    GSC_TRY(gsc__mpi_check(mpi, "gsc_mpi_average_poll"));
    return gsc__mpi_poll(mpi);
}

gsc_status gsc_mpi_average_end(gsc_mpi *mpi)
{
    GSC_TRY(gsc__mpi_check(mpi, "gsc_mpi_average_end"));
    mpi->averaging = false;
    return gsc__mpi_groups_end(mpi, GSC_MPI_CALL_AVERAGE);
}

gsc_status gsc_mpi_average_gradients(gsc_mpi *mpi, DLTensor *const *grads, size_t n)
{
    GSC_TRY(gsc__mpi_check(mpi, "gsc_mpi_average_gradients"));
    GSC_TRY(gsc__mpi_check_idle(mpi, "gsc_mpi_average_gradients"));
    (void)begin(mpi, grads, n);
    return gsc__mpi_groups_end(mpi, GSC_MPI_CALL_AVERAGE);
}
