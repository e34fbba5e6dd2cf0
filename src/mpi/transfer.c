/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c: how a bucket travels. To be averaged it is cut into parts, one for each rank, which gathers the other
 * ranks' values of its part, averages them and spreads the result. From rank 0 it goes along a binomial tree: each rank
 * gathers it from one and spreads it to others. */
#include <stdlib.h>

#include "base/try.h"
#include "mpi/internal.h"

#define LEAST_PART 1024 /* elements: smaller parts would be messages that cost more than their elements */

typedef struct part {
    size_t first, count;
} part;

static size_t part_length(size_t elements, int ranks)
{
    size_t length = (elements + (size_t)ranks - 1) / (size_t)ranks;
    length = (length + 15) / 16 * 16;
    return length < LEAST_PART ? LEAST_PART : length;
}

/* The part that a rank averages, which may be empty. */
static part part_of(const gsc__mpi_bucket *bucket, int rank, int ranks)
{
    const size_t length = part_length(bucket->count, ranks);
    const size_t first = (size_t)rank * length < bucket->count ? (size_t)rank * length : bucket->count;
    return (part){first, bucket->count - first < length ? bucket->count - first : length};
}

static void release(gsc__mpi_slot *slot)
{
    free(slot->packed);
    free(slot->received);
    free(slot->requests);
    free(slot->statuses);
    free(slot->peers);
    free(slot->is_receive);
    *slot = (gsc__mpi_slot){.packed = NULL};
}

static bool reserve(gsc__mpi_slot *slot, size_t bucket_bytes, int ranks)
{
    const size_t others = (size_t)ranks - 1, requests = 2 * others + 1;
    size_t most = 0; /* bytes of a part */
    for (int kind = 0; kind < GSC_KINDS; kind++) {
        const size_t size = gsc__kind_size((gsc__kind)kind);
        const size_t bytes = part_length(bucket_bytes / size, ranks) * size;
        most = bytes > most ? bytes : most;
    }
    slot->packed = malloc(bucket_bytes);
    slot->received = malloc(others * most + 1);
    slot->requests = calloc(requests, sizeof *slot->requests);
    slot->statuses = calloc(requests, sizeof *slot->statuses);
    slot->peers = calloc(requests, sizeof *slot->peers);
    slot->is_receive = calloc(requests, sizeof *slot->is_receive);
    if (slot->packed && slot->received && slot->requests && slot->statuses && slot->peers && slot->is_receive)
        return true;
    release(slot);
    return false;
}

gsc_status gsc__mpi_slots_reserve(gsc_mpi *mpi, const char *api)
{
    for (int i = 0; i < GSC_MPI_SLOTS; i++)
        if (!mpi->slots[i].packed && !reserve(&mpi->slots[i], mpi->bucket_bytes, mpi->size))
            return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for buckets of %zu bytes", api, mpi->bucket_bytes);
    return GSC_OK;
}

void gsc__mpi_slots_free(gsc_mpi *mpi)
{
    for (int i = 0; i < GSC_MPI_SLOTS; i++)
        release(&mpi->slots[i]);
}

static bool is_average(const gsc__mpi_slot *slot) { return slot->group->call == GSC_MPI_CALL_AVERAGE; }

/* Messages of two slots, and values and averages, between the same ranks must not be taken for one another. A copy is
 * gathered by one rank while it is spread by another. */
static int tag_of(const gsc_mpi *mpi, const gsc__mpi_slot *slot)
{
    const bool has_average = is_average(slot) && slot->phase == GSC_MPI_SPREADING;
    return GSC_MPI_TAG_SLOTS + 2 * (int)(slot - mpi->slots) + has_average;
}

static gsc_status post(gsc_mpi *mpi, gsc__mpi_slot *slot, bool is_receive, void *data, size_t bytes, int peer)
{
    if (bytes == 0)
        return GSC_OK;
    MPI_Request *request = &slot->requests[slot->request_count];
    if (is_receive)
        GSC_MPI_TRY(mpi, MPI_Irecv, (data, (int)bytes, MPI_BYTE, peer, tag_of(mpi, slot), mpi->comm, request));
    else
        GSC_MPI_TRY(mpi, MPI_Isend, (data, (int)bytes, MPI_BYTE, peer, tag_of(mpi, slot), mpi->comm, request));
    slot->peers[slot->request_count] = peer;
    slot->is_receive[slot->request_count++] = is_receive;
    return GSC_OK;
}

/* The other ranks, beginning with the next one, so that not all send to the same. */
static int other_rank(const gsc_mpi *mpi, int i) { return (mpi->rank + 1 + i) % mpi->size; }

static gsc_status gather_parts(gsc_mpi *mpi, gsc__mpi_slot *slot)
{
    const size_t size = slot->bucket->size;
    const part own = part_of(slot->bucket, mpi->rank, mpi->size);
    for (int i = 0; i < mpi->size - 1; i++) {
        const int peer = other_rank(mpi, i);
        const size_t place = (size_t)(peer < mpi->rank ? peer : peer - 1);
        GSC_TRY(post(mpi, slot, true, slot->received + place * own.count * size, own.count * size, peer));
    }
    for (int i = 0; i < mpi->size - 1; i++) {
        const int peer = other_rank(mpi, i);
        const part theirs = part_of(slot->bucket, peer, mpi->size);
        GSC_TRY(post(mpi, slot, false, slot->elements + theirs.first * size, theirs.count * size, peer));
    }
    return GSC_OK;
}

static gsc_status spread_parts(gsc_mpi *mpi, gsc__mpi_slot *slot)
{
    const size_t size = slot->bucket->size;
    const part own = part_of(slot->bucket, mpi->rank, mpi->size);
    char *average = slot->elements + own.first * size;
    if (own.count > 0)
        gsc__mpi_average(slot->bucket->kind, average, slot->received, own.count, mpi->rank, mpi->size);
    for (int i = 0; i < mpi->size - 1; i++) {
        const int peer = other_rank(mpi, i);
        const part theirs = part_of(slot->bucket, peer, mpi->size);
        GSC_TRY(post(mpi, slot, true, slot->elements + theirs.first * size, theirs.count * size, peer));
    }
    for (int i = 0; i < mpi->size - 1; i++)
        GSC_TRY(post(mpi, slot, false, average, own.count * size, other_rank(mpi, i)));
    return GSC_OK;
}

/* A rank gets the bucket from the rank without its lowest bit, and gives it to those with one more bit below that. */
static gsc_status gather_copy(gsc_mpi *mpi, gsc__mpi_slot *slot)
{
    if (mpi->rank == 0)
        return GSC_OK;
    return post(mpi, slot, true, slot->elements, slot->bucket->count * slot->bucket->size, mpi->rank & (mpi->rank - 1));
}

static gsc_status spread_copy(gsc_mpi *mpi, gsc__mpi_slot *slot)
{
    for (int bit = 1; bit < mpi->size && !(mpi->rank & bit); bit <<= 1)
        if (mpi->rank + bit < mpi->size)
            GSC_TRY(post(mpi, slot, false, slot->elements, slot->bucket->count * slot->bucket->size, mpi->rank + bit));
    return GSC_OK;
}

gsc_status gsc__mpi_slot_start(gsc_mpi *mpi, gsc__mpi_slot *slot, gsc__mpi_group *group, const gsc__mpi_bucket *bucket)
{
    slot->phase = GSC_MPI_GATHERING;
    slot->group = group;
    slot->bucket = bucket;
    slot->request_count = 0;
    slot->elements = bucket->direct ? bucket->direct : slot->packed;
    if (!bucket->direct && (is_average(slot) || mpi->rank == 0))
        gsc__mpi_bucket_pack(group, bucket, slot->packed);
    return is_average(slot) ? gather_parts(mpi, slot) : gather_copy(mpi, slot);
}

static void end(gsc_mpi *mpi, gsc__mpi_slot *slot)
{
    if (!slot->bucket->direct && (is_average(slot) || mpi->rank != 0))
        gsc__mpi_bucket_unpack(slot->group, slot->bucket, slot->packed);
    slot->group->ended++;
    slot->phase = GSC_MPI_IDLE;
}

gsc_status gsc__mpi_slot_poll(gsc_mpi *mpi, gsc__mpi_slot *slot)
{
    while (slot->phase != GSC_MPI_IDLE) {
        bool complete = false;
        GSC_TRY(gsc__mpi_test_all(mpi, slot->request_count, slot->requests, slot->statuses, &complete));
        if (!complete)
            return GSC_OK;
        mpi->progress++;
        slot->request_count = 0;
        if (slot->phase == GSC_MPI_SPREADING) {
            end(mpi, slot);
            return GSC_OK;
        }
        slot->phase = GSC_MPI_SPREADING;
        GSC_TRY(is_average(slot) ? spread_parts(mpi, slot) : spread_copy(mpi, slot));
    }
    return GSC_OK;
}

int gsc__mpi_slot_peer(const gsc__mpi_slot *slot)
{
    for (int i = 0; slot->phase != GSC_MPI_IDLE && i < slot->request_count; i++) {
        int complete = 1;
        MPI_Status status;
        if (MPI_Request_get_status(slot->requests[i], &complete, &status) == MPI_SUCCESS && !complete)
            return slot->peers[i];
    }
    return -1;
}
