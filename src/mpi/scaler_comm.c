/* SPDX-License-Identifier: Apache-2.0 */
/* scaler_comm.c: the collectives of a scaler. */
#include <string.h>

#include "base/dtype_text.h"
#include "base/try.h"
#include "mpi/internal.h"

static gsc_status check_values(const char *api, const DLTensor *values, gsc__kind kind)
{
    if (!gsc__is_on_cpu(values))
        return gsc_fail(GSC_ERR_DEVICE, "%s: the values are on %s; gsc_mpi_comm is for scalers on the CPU", api,
                        gsc__describe_device(values->device).text);
    if (values->ndim != 1 || gsc__kind_of(values->dtype) != kind || values->shape[0] < 0 ||
        (values->strides && values->shape[0] > 1 && values->strides[0] != 1))
        return gsc_fail(GSC_ERR_VALUE, "%s: the values must be a compact vector of %s", api, gsc__kind_name(kind));
    return GSC_OK;
}

/* A scaler has at most 5 values, which are one exchange. */
static gsc_status reduce(gsc_mpi *mpi, DLTensor *values, gsc__mpi_call call, gsc__mpi_reduction reduction)
{
    const gsc__kind kind = reduction == GSC_MPI_MAX_F32 ? GSC_F32 : GSC_F64;
    const size_t size = gsc__kind_size(kind), most = kind == GSC_F32 ? GSC_MPI_FLOATS_EACH : GSC_MPI_DOUBLES_EACH;
    const char *api = gsc__mpi_call_name(call);
    GSC_TRY(gsc__mpi_check(mpi, api));
    GSC_TRY(check_values(api, values, kind));
    char *data = (char *)values->data + values->byte_offset;
    for (size_t left = (size_t)values->shape[0]; left > 0;) {
        const size_t count = left < most ? left : most;
        gsc__mpi_envelope envelope = {.call = (uint8_t)call, .reduction = (uint8_t)reduction, .count = (uint8_t)count};
        memcpy(&envelope.values, data, count * size);
        GSC_TRY(gsc__mpi_exchange_now(mpi, &envelope));
        memcpy(data, &envelope.values, count * size);
        data += count * size;
        left -= count;
    }
    return GSC_OK;
}

static int allreduce_max(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    return (int)reduce(self, values, GSC_MPI_CALL_MAX, GSC_MPI_MAX_F32);
}

static int allreduce_sum(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    return (int)reduce(self, values, GSC_MPI_CALL_SUM, GSC_MPI_SUM_F64);
}

static int allreduce_max64(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    return (int)reduce(self, values, GSC_MPI_CALL_MAX64, GSC_MPI_MAX_F64);
}

gsc_comm gsc_mpi_comm(gsc_mpi *mpi, bool sharded)
{
    if (!mpi) {
        gsc_fail(GSC_ERR_VALUE, "gsc_mpi_comm: mpi is NULL; give what gsc_mpi_create has made");
        return (gsc_comm){.self = NULL};
    }
    return (gsc_comm){.self = mpi,
                      .allreduce_max = allreduce_max,
                      .allreduce_sum = sharded ? allreduce_sum : NULL,
                      .allreduce_max64 = sharded ? allreduce_max64 : NULL};
}
