/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: what rank 0 has becomes what all ranks have: tensors, and a scaler's state. */
#include <stdio.h>

#include "base/message.h"
#include "base/try.h"
#include "mpi/internal.h"

/* Collective. Takes the group. */
static gsc_status spread(gsc_mpi *mpi, gsc__mpi_group *group)
{
    const gsc__mpi_call call = group->call;
    gsc__mpi_group_start(mpi, group);
    return gsc__mpi_groups_end(mpi, call);
}

gsc_status gsc_mpi_broadcast_tensors(gsc_mpi *mpi, DLTensor *const *tensors, size_t n)
{
    gsc__mpi_group *group;
    GSC_TRY(gsc__mpi_check(mpi, "gsc_mpi_broadcast_tensors"));
    GSC_TRY(gsc__mpi_check_idle(mpi, "gsc_mpi_broadcast_tensors"));
    gsc_status status = gsc__mpi_group_make(mpi, GSC_MPI_CALL_BROADCAST, tensors, n, &group);
    if (status == GSC_OK)
        return spread(mpi, group);
    gsc__mpi_refuse(mpi, GSC_MPI_CALL_BROADCAST);
    return status;
}

static const gsc__mpi_call synchronize = GSC_MPI_CALL_SYNCHRONIZE;

/* Collective: whether every rank, or none, has a scaler. */
static gsc_status agree_on_scalers(gsc_mpi *mpi, bool has_scaler)
{
    gsc__mpi_envelope envelope = {.call = GSC_MPI_CALL_SYNCHRONIZE, .reduction = GSC_MPI_MAX_U64, .count = 2};
    envelope.values.words[0] = has_scaler;
    envelope.values.words[1] = !has_scaler;
    GSC_TRY(gsc__mpi_exchange_now(mpi, &envelope));
    if (envelope.values.words[0] && envelope.values.words[1])
        return gsc_fail(
            GSC_ERR_COMM,
            "gsc_mpi_synchronize: some ranks gave a scaler and some NULL, as rank %d gave %s; do the same on "
            "every rank",
            mpi->rank, has_scaler ? "one" : "NULL");
    return GSC_OK;
}

/* Collective: *state becomes that of rank 0. */
static gsc_status spread_state(gsc_mpi *mpi, gsc_scaler_state *state)
{
    int64_t bytes = sizeof *state;
    DLTensor tensor = {.data = state, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLUInt, 8, 1}, .shape = &bytes};
    DLTensor *const list[] = {&tensor};
    gsc__mpi_group *group;
    gsc_status status = gsc__mpi_group_make(mpi, synchronize, list, 1, &group);
    if (status == GSC_OK)
        return spread(mpi, group);
    gsc__mpi_refuse(mpi, synchronize);
    return status;
}

/* It was this scaler's own a moment ago, so it loads. */
static void restore(gsc_scaler *scaler, const gsc_scaler_state *state)
{
    char kept[GSC_MESSAGE_SIZE];
    snprintf(kept, sizeof kept, "%s", gsc_last_error());
    (void)gsc_scaler_load_state_dict(scaler, state);
    (void)gsc_fail_message(GSC_OK, kept);
}

/* Collective: all scalers load the state, or none does. */
static gsc_status load_everywhere(gsc_mpi *mpi, gsc_scaler *scaler, const gsc_scaler_state *state,
                                  const gsc_scaler_state *before)
{
    gsc_status status = gsc_scaler_load_state_dict(scaler, state);
    if (status != GSC_OK) {
        gsc__mpi_refuse(mpi, synchronize);
        return status;
    }
    status = agree_on_scalers(mpi, true);
    if (status != GSC_OK)
        restore(scaler, before);
    return status;
}

static gsc_status synchronize_scaler(gsc_mpi *mpi, gsc_scaler *scaler, const gsc_scaler_state *before)
{
    gsc_scaler_state state = *before;
    GSC_TRY(spread_state(mpi, &state));
    return load_everywhere(mpi, scaler, &state, before);
}

/* Local: all that a rank can refuse beforehand. */
static gsc_status prepare(gsc_mpi *mpi, DLTensor *const *tensors, size_t n, const gsc_scaler *scaler,
                          gsc_scaler_state *state, gsc__mpi_group **group)
{
    if (scaler)
        GSC_TRY(gsc_scaler_state_dict(scaler, state));
    return gsc__mpi_group_make(mpi, synchronize, tensors, n, group);
}

gsc_status gsc_mpi_synchronize(gsc_mpi *mpi, DLTensor *const *tensors, size_t n, gsc_scaler *scaler)
{
    gsc__mpi_group *group;
    gsc_scaler_state before;
    GSC_TRY(gsc__mpi_check(mpi, "gsc_mpi_synchronize"));
    GSC_TRY(gsc__mpi_check_idle(mpi, "gsc_mpi_synchronize"));
    gsc_status status = prepare(mpi, tensors, n, scaler, &before, &group);
    if (status != GSC_OK) {
        gsc__mpi_refuse(mpi, synchronize);
        return status;
    }
    status = agree_on_scalers(mpi, scaler != NULL);
    if (status == GSC_OK && scaler)
        status = synchronize_scaler(mpi, scaler, &before);
    if (status != GSC_OK) {
        gsc__mpi_group_free(group);
        return status;
    }
    status = spread(mpi, group);
    if (status != GSC_OK && scaler)
        restore(scaler, &before);
    return status;
}
