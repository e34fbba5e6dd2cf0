/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c: small reductions by recursive doubling. In round k a rank swaps envelopes with the rank whose number
 * differs in bit k, and both combine the two in the order of the ranks. Where the number of ranks is no power of two,
 * the first ones are joined into pairs: the even one gives its envelope to the odd one before the rounds and gets the
 * result after them. So every rank has the same bits, and who combines with whom depends on their number alone. */
#include <stdio.h>

#include "base/try.h"
#include "mpi/internal.h"

/* What a rank does in a round. */
typedef struct round_of_exchange {
    int peer;
    bool receive, send;
    bool replace; /* what is received is the result */
} round_of_exchange;

/* False: there is no such round. */
static bool get_round(int rank, int ranks, int step, round_of_exchange *out)
{
    int power = 1;
    while (power * 2 <= ranks)
        power *= 2;
    const int joined = 2 * (ranks - power);
    const bool is_even = rank < joined && rank % 2 == 0;
    const bool is_odd = rank < joined && rank % 2 != 0;
    if (is_even) {
        *out = (round_of_exchange){.peer = rank + 1, .send = step == 0, .receive = step == 1, .replace = step == 1};
        return step < 2;
    }
    if (is_odd && step-- == 0) {
        *out = (round_of_exchange){.peer = rank - 1, .receive = true};
        return true;
    }
    const int place = rank < joined ? rank / 2 : rank - joined / 2;
    if (step < 30 && 1 << step < power) {
        const int other = place ^ 1 << step;
        *out = (round_of_exchange){
            .peer = other < joined / 2 ? 2 * other + 1 : other + joined / 2, .receive = true, .send = true};
        return true;
    }
    *out = (round_of_exchange){.peer = rank - 1, .send = true};
    return is_odd && step < 30 && 1 << step == power;
}

void gsc__mpi_exchange_start(gsc_mpi *mpi, gsc__mpi_exchange *exchange, const gsc__mpi_envelope *own)
{
    *exchange = (gsc__mpi_exchange){.own = *own, .requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}};
    exchange->own.sequence = mpi->sequence++;
    *mpi->last_exchange = exchange;
    mpi->last_exchange = &exchange->next;
}

static gsc_status post(gsc_mpi *mpi, gsc__mpi_exchange *exchange, const round_of_exchange *round)
{
    const int bytes = (int)sizeof exchange->own;
    if (round->receive)
        GSC_MPI_TRY(
            mpi, MPI_Irecv,
            (&exchange->other, bytes, MPI_BYTE, round->peer, GSC_MPI_TAG_EXCHANGE, mpi->comm, &exchange->requests[0]));
    if (round->send)
        GSC_MPI_TRY(
            mpi, MPI_Isend,
            (&exchange->own, bytes, MPI_BYTE, round->peer, GSC_MPI_TAG_EXCHANGE, mpi->comm, &exchange->requests[1]));
    exchange->posted = true;
    return GSC_OK;
}

static void receive(gsc_mpi *mpi, gsc__mpi_exchange *exchange, const round_of_exchange *round)
{
    if (round->replace) {
        /* The pair's envelope, which this rank's own is a part of. Where the peer was in another call, it says so. */
        exchange->own = exchange->other;
    } else if (round->receive && round->peer < mpi->rank) {
        gsc__mpi_envelope_combine(&exchange->other, round->peer, &exchange->own, mpi->rank);
        exchange->own = exchange->other;
    } else if (round->receive) {
        gsc__mpi_envelope_combine(&exchange->own, mpi->rank, &exchange->other, round->peer);
    }
}

static gsc_status poll_exchange(gsc_mpi *mpi, gsc__mpi_exchange *exchange)
{
    round_of_exchange round;
    while (get_round(mpi->rank, mpi->size, exchange->step, &round)) {
        if (!exchange->posted)
            GSC_TRY(post(mpi, exchange, &round));
        bool complete = false;
        MPI_Status statuses[2];
        GSC_TRY(gsc__mpi_test_all(mpi, 2, exchange->requests, statuses, &complete));
        if (!complete)
            return GSC_OK;
        receive(mpi, exchange, &round);
        mpi->progress++;
        exchange->step++;
        exchange->posted = false;
    }
    exchange->done = true;
    mpi->exchanges = exchange->next;
    if (!mpi->exchanges)
        mpi->last_exchange = &mpi->exchanges;
    return GSC_OK;
}

gsc_status gsc__mpi_exchanges_poll(gsc_mpi *mpi)
{
    const gsc__mpi_exchange *before = NULL;
    while (mpi->exchanges && mpi->exchanges != before) {
        before = mpi->exchanges;
        GSC_TRY(poll_exchange(mpi, mpi->exchanges));
    }
    return GSC_OK;
}

int gsc__mpi_exchange_peer(const gsc_mpi *mpi)
{
    round_of_exchange round;
    const gsc__mpi_exchange *exchange = mpi->exchanges;
    return exchange && get_round(mpi->rank, mpi->size, exchange->step, &round) ? round.peer : -1;
}

gsc_status gsc__mpi_check_step(gsc_mpi *mpi, const gsc__mpi_exchange *exchange)
{
    const gsc__mpi_envelope *result = &exchange->own;
    if (result->fault != GSC_MPI_OUT_OF_STEP)
        return GSC_OK;
    return gsc__mpi_fail(mpi,
                         "the ranks are out of step: rank %d is in %s, rank %d in %s; every rank must make the same "
                         "calls in the same order",
                         (int)result->values.fault.ranks[0], gsc__mpi_call_name(result->values.fault.calls[0]),
                         (int)result->values.fault.ranks[1], gsc__mpi_call_name(result->values.fault.calls[1]));
}

bool gsc__mpi_is_refused(const gsc__mpi_exchange *exchange, char *text, size_t size)
{
    const gsc__mpi_envelope *result = &exchange->own;
    if (result->fault != GSC_MPI_REFUSED)
        return false;
    snprintf(text, size, "%s: rank %d refused its arguments; see its message. Nothing has changed",
             gsc__mpi_call_name(result->call), (int)result->values.fault.ranks[0]);
    return true;
}
