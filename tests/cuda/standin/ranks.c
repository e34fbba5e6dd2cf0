/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c: an operation of a collective is done when those of all ranks have had their turn. */
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

struct standin_world {
    int ranks;
    struct {
        op *op; /* NULL: it has not come */
        work work;
    } arrived[MAX_RANKS];
};

standin_world *standin_world_create(int ranks)
{
    standin_world *world = ranks < 1 || ranks > MAX_RANKS ? NULL : calloc(1, sizeof *world);
    if (world == NULL) {
        fprintf(stderr, "stand-in: no world of %d ranks (1 ... %d)\n", ranks, MAX_RANKS);
        abort();
    }
    world->ranks = ranks;
    return world;
}

void standin_world_free(standin_world *world) { free(world); }

static double value_at(const work *w, size_t i)
{
    if (w->width == sizeof(double))
        return ((const double *)(const void *)w->to)[i];
    return (double)((const float *)(const void *)w->to)[i];
}

static void set_value(const work *w, size_t i, double value)
{
    if (w->width == sizeof(double))
        ((double *)(void *)w->to)[i] = value;
    else
        ((float *)(void *)w->to)[i] = (float)value;
}

static double combine(int operation, double a, double b)
{
    if (operation == STANDIN_SUM)
        return a + b;
    return isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b;
}

static void combine_all(const standin_world *world)
{
    const work *first = &world->arrived[0].work;
    unsigned devices = 0;
    for (int rank = 0; rank < world->ranks; rank++) {
        const work *w = &world->arrived[rank].work;
        devices |= 1U << w->context->device;
        if (w->bytes != first->bytes || w->width != first->width || w->operation != first->operation) {
            complain("rank %d is in another collective than rank 0", rank);
            return;
        }
    }
    memory_open(devices);
    for (size_t i = 0; i < first->bytes / first->width; i++) {
        double value = value_at(first, i);
        for (int rank = 1; rank < world->ranks; rank++)
            value = combine(first->operation, value, value_at(&world->arrived[rank].work, i));
        for (int rank = 0; rank < world->ranks; rank++)
            set_value(&world->arrived[rank].work, i, value);
    }
}

size_t ranks_arrive(const work *w, op *o, op **released)
{
    standin_world *world = w->world;
    if (world->arrived[w->rank].op != NULL)
        complain("rank %d enters two collectives that nothing orders", w->rank);
    world->arrived[w->rank].op = o;
    world->arrived[w->rank].work = *w;
    for (int rank = 0; rank < world->ranks; rank++)
        if (world->arrived[rank].op == NULL)
            return 0;
    combine_all(world);
    for (int rank = 0; rank < world->ranks; rank++) {
        released[rank] = world->arrived[rank].op;
        world->arrived[rank].op = NULL;
    }
    return (size_t)world->ranks;
}

static CUresult enqueue(standin_world *world, int rank, int operation, void *values, size_t bytes, size_t width,
                        CUstream handle)
{
    CUstream stream;
    TRY(stream_find(handle, &stream));
    const allocation *a = memory_find(values, bytes);
    if (rank < 0 || rank >= world->ranks || bytes == 0 || a == NULL || a->device != stream->context->device)
        return CUDA_ERROR_INVALID_VALUE;
    work w = {.kind = WORK_MEET,
              .context = stream->context,
              .to = values,
              .bytes = bytes,
              .width = width,
              .world = world,
              .rank = rank,
              .operation = operation};
    return stream_enqueue(stream, &w);
}

int standin_allreduce(standin_world *world, int rank, int operation, void *values, size_t count, int bits, void *stream)
{
    if (bits != 32 && bits != 64)
        return CUDA_ERROR_INVALID_VALUE;
    size_t width = (size_t)bits / 8;
    call_lock();
    CUresult result = enqueue(world, rank, operation, values, count * width, width, stream);
    return call_end(result);
}
