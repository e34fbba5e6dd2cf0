/* SPDX-License-Identifier: Apache-2.0 */
/* group.c: a list of tensors that travels: made, handed over, waited for. */
#include <stdlib.h>

#include "base/try.h"
#include "mpi/internal.h"

static gsc_status fill(gsc_mpi *mpi, gsc__mpi_group *group, DLTensor *const *tensors, size_t n)
{
    const char *api = gsc__mpi_call_name(group->call);
    const gsc__mpi_accept accept = group->call == GSC_MPI_CALL_AVERAGE ? GSC_MPI_FLOATS : GSC_MPI_ANY;
    GSC_TRY(gsc__mpi_views_make(api, tensors, n, accept, true, &group->views));
    uint64_t digest = 0;
    for (size_t i = 0; i < n; i++)
        group->views.digests[i] = digest = gsc__mpi_digest_layout(digest, &group->views.items[i]);
    if (mpi->size == 1)
        return GSC_OK; /* nothing has to travel */
    GSC_TRY(gsc__mpi_plan_make(&group->views, mpi->bucket_bytes, &group->plan));
    return gsc__mpi_slots_reserve(mpi, api);
}

gsc_status gsc__mpi_group_make(gsc_mpi *mpi, gsc__mpi_call call, DLTensor *const *tensors, size_t n,
                               gsc__mpi_group **out)
{
    gsc__mpi_group *group = calloc(1, sizeof *group);
    if (!group)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory", gsc__mpi_call_name(call));
    group->call = call;
    gsc_status status = fill(mpi, group, tensors, n);
    if (status != GSC_OK)
        gsc__mpi_group_free(group);
    else
        *out = group;
    return status;
}

void gsc__mpi_group_start(gsc_mpi *mpi, gsc__mpi_group *group)
{
    const size_t n = group->views.count;
    const uint64_t digest = gsc__mpi_digest_word(n > 0 ? group->views.digests[n - 1] : 0, n);
    gsc__mpi_envelope envelope = {.call = (uint8_t)group->call, .reduction = GSC_MPI_MAX_U64, .count = 2};
    envelope.values.words[0] = digest;
    envelope.values.words[1] = ~digest;
    gsc__mpi_exchange_start(mpi, &group->agreement, &envelope);
    *mpi->last_group = group;
    mpi->last_group = &group->next;
}

/* The first error of the groups; one of this rank alone comes before a difference, which all ranks look for. */
static gsc_status get_error(gsc_mpi *mpi)
{
    const gsc__mpi_group *group = mpi->groups;
    while (group && !group->differs)
        group = group->next;
    gsc_status status = group ? gsc__mpi_name_difference(mpi, group->call, &group->views, NULL) : GSC_OK;
    if (!mpi->failed && mpi->refused != GSC_OK)
        status = gsc_fail(mpi->refused, "%s", mpi->refusal);
    mpi->refused = GSC_OK;
    return status;
}

gsc_status gsc__mpi_groups_end(gsc_mpi *mpi, gsc__mpi_call call)
{
    GSC_TRY(gsc__mpi_wait_until(mpi, call, NULL));
    gsc_status status = get_error(mpi);
    if (!mpi->failed)
        gsc__mpi_groups_free(mpi);
    return status;
}

void gsc__mpi_group_free(gsc__mpi_group *group)
{
    gsc__mpi_plan_free(&group->plan);
    gsc__mpi_views_free(&group->views);
    free(group);
}

void gsc__mpi_groups_free(gsc_mpi *mpi)
{
    while (mpi->groups) {
        gsc__mpi_group *group = mpi->groups;
        mpi->groups = group->next;
        gsc__mpi_group_free(group);
    }
    mpi->last_group = &mpi->groups;
}
