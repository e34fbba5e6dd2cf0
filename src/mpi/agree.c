/* SPDX-License-Identifier: Apache-2.0 */
/* agree.c: refusals that the other ranks learn of, and the tensor in which the ranks' lists differ. */
#include <stdio.h>

#include "base/dtype_text.h"
#include "base/message.h"
#include "base/try.h"
#include "mpi/internal.h"

void gsc__mpi_refuse(gsc_mpi *mpi, gsc__mpi_call call)
{
    char kept[GSC_MESSAGE_SIZE];
    snprintf(kept, sizeof kept, "%s", gsc_last_error());
    gsc__mpi_envelope envelope = {
        .call = (uint8_t)call, .reduction = GSC_MPI_MAX_U64, .fault = GSC_MPI_REFUSED, .count = 2};
    envelope.values.fault.ranks[0] = mpi->rank;
    (void)gsc__mpi_exchange_now(mpi, &envelope);
    (void)gsc_fail_message(GSC_OK, kept);
}

typedef struct range {
    uint64_t least, greatest;
} range;

/* Of the ranks' values. */
static gsc_status get_range(gsc_mpi *mpi, gsc__mpi_call call, uint64_t value, range *out)
{
    gsc__mpi_envelope envelope = {.call = (uint8_t)call, .reduction = GSC_MPI_MAX_U64, .count = 2};
    envelope.values.words[0] = value;
    envelope.values.words[1] = ~value;
    GSC_TRY(gsc__mpi_exchange_now(mpi, &envelope));
    *out = (range){.least = ~envelope.values.words[1], .greatest = envelope.values.words[0]};
    return GSC_OK;
}

/* *index becomes the first of `count` whose digests differ; `count` if none does. All ranks have the same count. */
static gsc_status find_difference(gsc_mpi *mpi, gsc__mpi_call call, const uint64_t *digests, size_t count,
                                  size_t *index)
{
    size_t same = 0, end = count; /* before `same` all are the same; at `end` one differs, or there is no more */
    while (same < end) {
        const size_t middle = same + (end - same) / 2;
        range digest;
        GSC_TRY(get_range(mpi, call, digests[middle], &digest));
        if (digest.least == digest.greatest)
            same = middle + 1;
        else
            end = middle;
    }
    *index = end;
    return GSC_OK;
}

static uint64_t dtype_word(const gsc__mpi_view *view)
{
    if (!view->tensor)
        return 0;
    const DLDataType dtype = view->tensor->dtype;
    return 1 + ((uint64_t)dtype.code | (uint64_t)dtype.bits << 8 | (uint64_t)dtype.lanes << 16);
}

static gsc_status describe(gsc_mpi *mpi, gsc__mpi_call call, const gsc__mpi_view *view, size_t index, const char *name)
{
    const char *api = gsc__mpi_call_name(call);
    char label[80], here[120];
    range dtypes, counts, repeats;
    GSC_TRY(get_range(mpi, call, dtype_word(view), &dtypes));
    GSC_TRY(get_range(mpi, call, view->count, &counts));
    GSC_TRY(get_range(mpi, call, view->skip, &repeats));
    snprintf(label, sizeof label, name ? "tensor %zu (%.60s)" : "tensor %zu", index, name);
    if (view->tensor)
        snprintf(here, sizeof here, "%s with %zu elements", gsc__describe_dtype(view->tensor->dtype).text, view->count);
    else
        snprintf(here, sizeof here, "absent (NULL)");
    if (dtypes.least == 0 && dtypes.greatest != 0)
        return gsc_fail(GSC_ERR_COMM,
                        "%s: the ranks' lists differ in %s: it is %s on rank %d, and on some ranks absent", api, label,
                        here, mpi->rank);
    if (dtypes.least != dtypes.greatest)
        return gsc_fail(GSC_ERR_COMM,
                        "%s: the ranks' lists differ in %s: it is %s on rank %d, and has another dtype on "
                        "others",
                        api, label, here, mpi->rank);
    if (counts.least != counts.greatest)
        return gsc_fail(
            GSC_ERR_COMM,
            "%s: the ranks' lists differ in %s: it is %s on rank %d; over all ranks it has from %llu to %llu", api,
            label, here, mpi->rank, (unsigned long long)counts.least, (unsigned long long)counts.greatest);
    if (repeats.least != repeats.greatest)
        return gsc_fail(GSC_ERR_COMM, "%s: the ranks' lists differ in %s: only on some ranks it is the same as another",
                        api, label);
    return gsc_fail(GSC_ERR_COMM, "%s: the ranks' tensors differ, the first one is %s, %s: its bits are not the same",
                    api, label, here);
}

gsc_status gsc__mpi_name_difference(gsc_mpi *mpi, gsc__mpi_call call, const gsc__mpi_views *views,
                                    const char *const *names)
{
    range counts;
    size_t index = 0;
    GSC_TRY(get_range(mpi, call, views->count, &counts));
    GSC_TRY(find_difference(mpi, call, views->digests, (size_t)counts.least, &index));
    if (index < counts.least)
        return describe(mpi, call, &views->items[index], index, names ? names[index] : NULL);
    return gsc_fail(GSC_ERR_COMM,
                    "%s: the ranks' lists differ: rank %d has %zu tensors; over all ranks from %llu to %llu",
                    gsc__mpi_call_name(call), mpi->rank, views->count, (unsigned long long)counts.least,
                    (unsigned long long)counts.greatest);
}
