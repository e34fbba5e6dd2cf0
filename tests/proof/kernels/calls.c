/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c: many blocks as one tensor through the public functions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradscaler/gradients.h"
#include "prove.h"

/* Blocks of a tensor: enough for several tasks, few enough for the second-level cache. */
enum { TENSOR_BLOCKS = 64, TENSOR_BYTES = TENSOR_BLOCKS * PROVE_BYTES };

typedef struct tensor_room {
    const selection *what;
    const domain *from;     /* what->from */
    uint64_t first, blocks; /* of the selection: what the tensor holds */
    double scale;
    bool x_inf[TENSOR_BLOCKS], products_inf[TENSOR_BLOCKS]; /* whether a block has something that is not finite */
    unsigned char x[TENSOR_BYTES], products[TENSOR_BYTES], found[TENSOR_BYTES];
} tensor_room;

static size_t block_bytes(const domain *d) { return PROVE_BLOCK * ref_size(prove_type(d)); }

static void fill(void *ctx, uint64_t index)
{
    tensor_room *room = ctx;
    const domain *d = room->from;
    unsigned char *x = room->x + index * block_bytes(d), *products = room->products + index * block_bytes(d);
    d->fill((room->first + index) * room->what->block_stride, x);
    if (room->scale == 1.0) /* which leaves every bit */
        memcpy(products, x, block_bytes(d));
    else
        ref_products(prove_type(d), x, PROVE_BLOCK, ref_reciprocal(room->scale), products);
    room->x_inf[index] = ref_maximum(prove_type(d), x, PROVE_BLOCK) >= ref_infinity(prove_type(d));
    room->products_inf[index] = ref_maximum(prove_type(d), products, PROVE_BLOCK) >= ref_infinity(prove_type(d));
}

static DLDataType dtype_of(const domain *d)
{
    const DLDataType dtypes[GSC_KINDS] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    return dtypes[d->kind];
}

static bool any(const bool *values, uint64_t n)
{
    bool found = false;
    for (uint64_t i = 0; i < n; i++)
        found = found || values[i];
    return found;
}

static void compare(const tensor_room *room, const char *where, const unsigned char *expected)
{
    const domain *d = room->from;
    ref_type type = prove_type(d);
    if (memcmp(room->found, expected, room->blocks * block_bytes(d)) == 0)
        return;
    for (size_t i = 0; i < room->blocks * PROVE_BLOCK; i++)
        if (ref_get(type, room->found, i) != ref_get(type, expected, i))
            prove_fail("%s: element 0x%" PRIx64 " became 0x%" PRIx64 " instead of 0x%" PRIx64, where,
                       ref_get(type, room->x, i), ref_get(type, room->found, i), ref_get(type, expected, i));
}

/* The status and found_inf of a call. */
static void check_result(const tensor_room *room, const char *where, gsc_status status, bool found_inf,
                         const bool *expected)
{
    if (status != GSC_OK)
        prove_fail("%s: %s: %s", where, gsc_status_name(status), gsc_last_error());
    if (found_inf != any(expected, room->blocks))
        prove_fail("%s: %" PRIu64 " elements from 0x%" PRIx64 " on: found_inf is %d", where, room->blocks * PROVE_BLOCK,
                   ref_get(prove_type(room->from), room->x, 0), found_inf);
}

static void call(tensor_room *room, const char *isa, int threads)
{
    const domain *d = room->from;
    int64_t shape[1] = {(int64_t)(room->blocks * PROVE_BLOCK)};
    DLTensor tensor = {.data = room->found, .device = {kDLCPU, 0}, .ndim = 1, .dtype = dtype_of(d), .shape = shape};
    DLTensor *grads[1] = {&tensor};
    char where[200];
    bool found_inf = false;
    gsc_set_num_threads(threads);
    memcpy(room->found, room->x, room->blocks * block_bytes(d));
    snprintf(where, sizeof where, "gsc_check_grads of %s on %s, %d threads", d->dtype, isa, threads);
    gsc_status status = gsc_check_grads(grads, 1, &found_inf);
    check_result(room, where, status, found_inf, room->x_inf);
    compare(room, where, room->x);
    snprintf(where, sizeof where, "gsc_unscale_grads of %s on %s, %d threads, scale %a", d->dtype, isa, threads,
             room->scale);
    status = gsc_unscale_grads(grads, 1, room->scale, &found_inf);
    check_result(room, where, status, found_inf, room->products_inf);
    compare(room, where, room->products);
}

static void call_everywhere(tensor_room *room)
{
    for (size_t isa = 0; prove_tables[isa]; isa++) {
        if (!gsc__kernels_select(prove_tables[isa]->isa))
            prove_fail("%s is present but cannot be chosen", prove_tables[isa]->isa);
        for (int threads = 1; threads <= 2; threads++)
            call(room, prove_tables[isa]->isa, threads);
    }
}

void prove_calls(const selection *what, int threads, void (*progress)(uint64_t blocks))
{
    tensor_room *room = aligned_alloc(64, (sizeof *room + 63) / 64 * 64);
    if (!room)
        prove_fail("out of memory for a tensor");
    room->what = what;
    room->from = what->from;
    for (room->first = 0; room->first < what->blocks; room->first += TENSOR_BLOCKS) {
        uint64_t left = what->blocks - room->first;
        room->blocks = left < TENSOR_BLOCKS ? left : TENSOR_BLOCKS;
        for (size_t scale = 0; scale < what->from->n_few_scales; scale += what->scale_stride) {
            room->scale = prove_scale(scale);
            prove_run(threads, room->blocks, fill, room);
            call_everywhere(room);
            progress(room->blocks);
        }
    }
    free(room);
}
