/* SPDX-License-Identifier: Apache-2.0 */
/* failure.c: the first failure of a gsc_mpi, which is that of every later call. */
#include <stdarg.h>
#include <stdio.h>

#include "mpi/internal.h"

static gsc_status tell(const gsc_mpi *mpi) { return gsc_fail(GSC_ERR_COMM, "%s", mpi->reason); }

gsc_status gsc__mpi_fail(gsc_mpi *mpi, const char *format, ...)
{
    if (!mpi->failed) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(mpi->reason, sizeof mpi->reason, format, arguments);
        va_end(arguments);
        mpi->failed = true;
    }
    return tell(mpi);
}

gsc_status gsc__mpi_error(gsc_mpi *mpi, const char *function, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "error %d", code);
    return gsc__mpi_fail(mpi, "rank %d: %s failed: %.200s", mpi->rank, function, text);
}

gsc_status gsc__mpi_check(const gsc_mpi *mpi, const char *api)
{
    if (!mpi)
        return gsc_fail(GSC_ERR_VALUE, "%s: mpi is NULL; give what gsc_mpi_create has made", api);
    return mpi->failed ? tell(mpi) : GSC_OK;
}

gsc_status gsc__mpi_test_all(gsc_mpi *mpi, int count, MPI_Request *requests, MPI_Status *statuses, bool *complete)
{
    int flag = 0;
    int code = MPI_Testall(count, requests, &flag, statuses);
    *complete = flag != 0;
    if (code == MPI_SUCCESS)
        return GSC_OK;
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; i++)
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            code = statuses[i].MPI_ERROR;
    return gsc__mpi_error(mpi, "MPI_Testall", code);
}

bool gsc__mpi_withdraw(int count, MPI_Request *requests, const bool *is_receive)
{
    bool none_left = true;
    for (int i = 0; i < count; i++) {
        int complete = requests[i] == MPI_REQUEST_NULL;
        MPI_Status status;
        if (!complete && is_receive[i])
            (void)MPI_Cancel(&requests[i]);
        for (int poll = 0; !complete && poll < 100; poll++)
            if (MPI_Test(&requests[i], &complete, &status) != MPI_SUCCESS)
                break;
        none_left = none_left && complete;
    }
    return none_left;
}

gsc_status gsc__mpi_check_idle(const gsc_mpi *mpi, const char *api)
{
    if (mpi->averaging)
        return gsc_fail(GSC_ERR_STATE, "%s: called between gsc_mpi_average_begin and gsc_mpi_average_end", api);
    return GSC_OK;
}
