/* SPDX-License-Identifier: Apache-2.0 */
/* same.c: whether all ranks' tensors have the same bits. */
#include "base/try.h"
#include "mpi/internal.h"

static gsc_status compare(gsc_mpi *mpi, const gsc__mpi_views *views, const char *const *names)
{
    uint64_t digest = 0;
    for (size_t i = 0; i < views->count; i++) {
        digest = gsc__mpi_digest_layout(digest, &views->items[i]);
        if (views->items[i].count > 0)
            digest = gsc__mpi_digest_elements(digest, &views->items[i]);
        views->digests[i] = digest;
    }
    digest = gsc__mpi_digest_word(digest, views->count);
    gsc__mpi_envelope envelope = {.call = GSC_MPI_CALL_SAME, .reduction = GSC_MPI_MAX_U64, .count = 2};
    envelope.values.words[0] = digest;
    envelope.values.words[1] = ~digest;
    GSC_TRY(gsc__mpi_exchange_now(mpi, &envelope));
    if (envelope.values.words[0] == ~envelope.values.words[1])
        return GSC_OK;
    return gsc__mpi_name_difference(mpi, GSC_MPI_CALL_SAME, views, names);
}

gsc_status gsc_mpi_check_same(gsc_mpi *mpi, DLTensor *const *tensors, const char *const *names, size_t n)
{
    gsc__mpi_views views;
    GSC_TRY(gsc__mpi_check(mpi, "gsc_mpi_check_same"));
    GSC_TRY(gsc__mpi_check_idle(mpi, "gsc_mpi_check_same"));
    gsc_status status = gsc__mpi_views_make("gsc_mpi_check_same", tensors, n, GSC_MPI_ANY, false, &views);
    if (status != GSC_OK) {
        gsc__mpi_refuse(mpi, GSC_MPI_CALL_SAME);
        return status;
    }
    status = compare(mpi, &views, names);
    gsc__mpi_views_free(&views);
    return status;
}
