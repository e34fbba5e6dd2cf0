/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: exchanges and groups move on, by polls that do not wait and calls that do, with a deadline. */
#include <string.h>

#include "base/try.h"
#include "mpi/internal.h"

/* What the agreement of a group says: it was refused by a rank, the lists differ, or it can travel. */
static gsc_status judge(gsc_mpi *mpi, gsc__mpi_group *group)
{
    char refusal[GSC_MPI_REASON];
    GSC_TRY(gsc__mpi_check_step(mpi, &group->agreement));
    group->judged = true;
    const uint64_t *words = group->agreement.own.values.words;
    const bool refused = gsc__mpi_is_refused(&group->agreement, refusal, sizeof refusal);
    group->differs = !refused && words[0] != ~words[1];
    if (refused || group->differs)
        group->ended = group->started = group->plan.bucket_count;
    if (refused && mpi->refused == GSC_OK) {
        mpi->refused = GSC_ERR_COMM;
        memcpy(mpi->refusal, refusal, sizeof refusal);
    }
    return GSC_OK;
}

/* The slots take turns, in the same order on every rank. */
static gsc_status start_buckets(gsc_mpi *mpi, gsc__mpi_group *group)
{
    while (group->started < group->plan.bucket_count) {
        gsc__mpi_slot *slot = &mpi->slots[mpi->next_slot];
        if (slot->phase != GSC_MPI_IDLE)
            return GSC_OK;
        mpi->next_slot = (mpi->next_slot + 1) % GSC_MPI_SLOTS;
        GSC_TRY(gsc__mpi_slot_start(mpi, slot, group, &group->plan.buckets[group->started]));
        group->started++;
    }
    return GSC_OK;
}

static gsc_status poll_all(gsc_mpi *mpi)
{
    GSC_TRY(gsc__mpi_exchanges_poll(mpi));
    for (int i = 0; i < GSC_MPI_SLOTS; i++)
        GSC_TRY(gsc__mpi_slot_poll(mpi, &mpi->slots[i]));
    for (gsc__mpi_group *group = mpi->groups; group && group->agreement.done; group = group->next) {
        if (!group->judged)
            GSC_TRY(judge(mpi, group));
        GSC_TRY(start_buckets(mpi, group));
        if (group->started < group->plan.bucket_count)
            break;
    }
    return GSC_OK;
}

void gsc__mpi_withdraw_all(gsc_mpi *mpi)
{
    static const bool is_receive[] = {true, false};
    mpi->holds_memory =
        mpi->exchanges && mpi->exchanges->posted && !gsc__mpi_withdraw(2, mpi->exchanges->requests, is_receive);
    for (int i = 0; i < GSC_MPI_SLOTS; i++) {
        gsc__mpi_slot *slot = &mpi->slots[i];
        if (slot->phase != GSC_MPI_IDLE && !gsc__mpi_withdraw(slot->request_count, slot->requests, slot->is_receive))
            mpi->holds_memory = true;
    }
}

gsc_status gsc__mpi_poll(gsc_mpi *mpi)
{
    GSC_TRY(gsc__mpi_check(mpi, "gsc_mpi"));
    gsc_status status = mpi->groups ? poll_all(mpi) : gsc__mpi_exchanges_poll(mpi);
    if (status != GSC_OK)
        gsc__mpi_withdraw_all(mpi);
    return status;
}

static bool groups_are_over(const gsc_mpi *mpi)
{
    const gsc__mpi_group *group = mpi->groups;
    while (group && group->judged && group->ended == group->plan.bucket_count)
        group = group->next;
    return !group;
}

static gsc_status expire(gsc_mpi *mpi, gsc__mpi_call call)
{
    int peer = gsc__mpi_exchange_peer(mpi);
    for (int i = 0; peer < 0 && i < GSC_MPI_SLOTS; i++)
        peer = gsc__mpi_slot_peer(&mpi->slots[i]);
    return gsc__mpi_fail(mpi,
                         "%s: rank %d has waited %g s (timeout_seconds) for rank %d, which has died, stands still, or "
                         "waits for another rank; end this process without MPI_Finalize",
                         gsc__mpi_call_name(call), mpi->rank, mpi->timeout, peer);
}

gsc_status gsc__mpi_wait_until(gsc_mpi *mpi, gsc__mpi_call call, const bool *done)
{
    gsc__mpi_wait wait = {.progress = mpi->progress};
    for (;;) {
        GSC_TRY(gsc__mpi_poll(mpi));
        if (done ? *done : groups_are_over(mpi))
            return GSC_OK;
        if (gsc__mpi_wait_expired(&wait, mpi->progress, mpi->timeout)) {
            gsc_status status = expire(mpi, call);
            gsc__mpi_withdraw_all(mpi);
            return status;
        }
    }
}

gsc_status gsc__mpi_exchange_now(gsc_mpi *mpi, gsc__mpi_envelope *envelope)
{
    char refusal[GSC_MPI_REASON];
    gsc__mpi_exchange_start(mpi, &mpi->blocking, envelope);
    GSC_TRY(gsc__mpi_wait_until(mpi, envelope->call, &mpi->blocking.done));
    *envelope = mpi->blocking.own;
    gsc_status status = gsc__mpi_check_step(mpi, &mpi->blocking);
    if (status != GSC_OK)
        gsc__mpi_withdraw_all(mpi);
    else if (gsc__mpi_is_refused(&mpi->blocking, refusal, sizeof refusal))
        status = gsc_fail(GSC_ERR_COMM, "%s", refusal);
    return status;
}
