/* SPDX-License-Identifier: Apache-2.0 */
/* fake_comm.h: ranks for tests: threads that meet in collectives which count their calls and can be made to fail.
 *
 *     static fake_world world;
 *     fake_world_run(&world, 2, true, body);    // body(&world.ranks[i]) on a thread per rank, gradients sharded
 *
 * The including file defines _POSIX_C_SOURCE 200809L first. Inside a body cmocka's asserts cannot be used (they jump):
 * write down what happened, assert afterwards. */
#ifndef GSC_TESTS_FAKE_COMM_H
#define GSC_TESTS_FAKE_COMM_H

#include <pthread.h>

#include "rig.h"

#define FAKE_MAX_RANKS 3
#define FAKE_MAX_VALUES 16

struct fake_world;

typedef struct fake_rank {
    struct fake_world *world;
    void (*body)(struct fake_rank *rank);
    gsc_comm comm;
    int index;
    int max_calls, sum_calls, max64_calls; /* collectives of each kind that this rank entered */
    bool failing;                          /* its collectives report failure, after they took place */
    bool malformed; /* it was given something else than one contiguous CPU tensor of the right dtype */
} fake_rank;

typedef struct fake_world {
    fake_rank ranks[FAKE_MAX_RANKS];
    int size;
    pthread_barrier_t barrier;
    double values[FAKE_MAX_RANKS][FAKE_MAX_VALUES];
} fake_world;

static inline double fake_max(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b; }
static inline double fake_sum(double a, double b) { return a + b; }

static inline int fake_allreduce(fake_rank *rank, DLTensor *tensor, DLDataType dtype, double (*combine)(double, double))
{
    fake_world *world = rank->world;
    size_t count = 1;
    for (int i = 0; i < tensor->ndim; i++)
        count *= (size_t)tensor->shape[i];
    if (!dtype_is(tensor->dtype, dtype) || tensor->device.device_type != kDLCPU || count == 0 ||
        count > FAKE_MAX_VALUES) {
        rank->malformed = true;
        count = 0;
    }
    double *own = world->values[rank->index];
    memset(own, 0, sizeof world->values[0]);
    for (size_t i = 0; i < count; i++)
        own[i] = element_get(tensor, i);
    pthread_barrier_wait(&world->barrier);
    for (size_t i = 0; i < count; i++) {
        double combined = world->values[0][i];
        for (int r = 1; r < world->size; r++)
            combined = combine(combined, world->values[r][i]);
        element_set(tensor, i, combined);
    }
    pthread_barrier_wait(&world->barrier);
    return rank->failing ? 1 : 0;
}

static inline int fake_allreduce_max(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    fake_rank *rank = self;
    rank->max_calls++;
    return fake_allreduce(rank, values, GSC_FLOAT32, fake_max);
}

static inline int fake_allreduce_sum(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    fake_rank *rank = self;
    rank->sum_calls++;
    return fake_allreduce(rank, values, GSC_FLOAT64, fake_sum);
}

static inline int fake_allreduce_max64(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    fake_rank *rank = self;
    rank->max64_calls++;
    return fake_allreduce(rank, values, GSC_FLOAT64, fake_max);
}

static inline void *fake_rank_main(void *self)
{
    fake_rank *rank = self;
    rank->body(rank);
    return NULL;
}

static inline void fake_world_run(fake_world *world, int size, bool sharded, void (*body)(fake_rank *rank))
{
    memset(world, 0, sizeof *world);
    world->size = size;
    pthread_barrier_init(&world->barrier, NULL, (unsigned)size);
    pthread_t threads[FAKE_MAX_RANKS];
    for (int i = 0; i < size; i++) {
        fake_rank *rank = &world->ranks[i];
        rank->world = world;
        rank->body = body;
        rank->index = i;
        rank->comm = (gsc_comm){.self = rank, .allreduce_max = fake_allreduce_max};
        rank->comm.allreduce_sum = sharded ? fake_allreduce_sum : NULL;
        assert_int_equal(pthread_create(&threads[i], NULL, fake_rank_main, rank), 0);
    }
    for (int i = 0; i < size; i++) {
        pthread_join(threads[i], NULL);
        assert_false(world->ranks[i].malformed);
    }
    pthread_barrier_destroy(&world->barrier);
}

#endif
