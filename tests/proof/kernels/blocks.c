/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.c: one block of elements through every kernel of every instruction set. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prove.h"

enum {
    GUARD = 64,
    GUARD_BYTE = 0x5a,
    SHORT_RUN = 31, /* shorter than a step of an unrolled loop, and a multiple of no vector */
    MOST_RUNS = PROVE_BLOCK / SHORT_RUN + 1
};

/* A block, a scale, and the reference's results. The kernels get the block as runs of run_length elements, the last of
 * which is shorter. */
typedef struct truth {
    const domain *from;
    uint64_t block;
    double scale, r;
    uint64_t limit;
    unsigned char x[PROVE_BYTES], products[PROVE_BYTES], clamped[PROVE_BYTES];
    uint64_t max, max_of_x;
    size_t run_length, n_runs;
    gsc__partial norm1[MOST_RUNS], norm2[MOST_RUNS], count[MOST_RUNS];
} truth;

struct block_room {
    truth truth;
    double magnitudes[PROVE_BLOCK];
    gsc__run runs[MOST_RUNS];
    gsc__partial partials[MOST_RUNS];
    _Alignas(64) unsigned char guarded[GUARD + PROVE_BYTES + GUARD];
};

/* What a kernel has to leave in the elements, return, and fill in for each run. */
typedef struct outcome {
    const unsigned char *elements;
    double factor;
    uint64_t returned;
    const gsc__partial *partials; /* NULL: none */
    bool counts;                  /* the partials are counts, not sums */
} outcome;

static outcome outcome_of_unscale(const truth *t) { return (outcome){t->products, t->r, t->max, NULL, false}; }
/* The upper half of a float64 maximum. */
static uint64_t upper(const truth *t, uint64_t max) { return t->from->kind == GSC_F64 ? max >> 32 << 32 : max; }
static outcome outcome_of_unscale_flag(const truth *t)
{
    return (outcome){t->products, t->r, upper(t, t->max), NULL, false};
}
static outcome outcome_of_check(const truth *t) { return (outcome){t->x, t->r, t->max, NULL, false}; }
static outcome outcome_of_check_raw(const truth *t)
{
    return (outcome){t->x, t->r, upper(t, t->max_of_x), NULL, false};
}
static outcome outcome_of_norm1(const truth *t) { return (outcome){t->x, t->r, t->max, t->norm1, false}; }
static outcome outcome_of_norm2(const truth *t) { return (outcome){t->x, t->r, t->max, t->norm2, false}; }
static outcome outcome_of_count(const truth *t) { return (outcome){t->x, t->r, 0, t->count, true}; }
static outcome outcome_of_clamp(const truth *t)
{
    return (outcome){t->clamped, ref_value(prove_type(t->from), t->limit), 0, NULL, false};
}

#define OUTCOME(op, stores, partials) [GSC_KERNEL_##op] = outcome_of_##op,
static outcome (*const outcomes[GSC_OPERATIONS])(const truth *t) = {GSC_KERNELS(OUTCOME)};

const gsc__kernel_table *prove_tables[PROVE_TABLES];

void prove_find_tables(void)
{
    for (size_t isa = 0; (prove_tables[isa] = gsc__kernels_present(isa)) != NULL; isa++)
        if (isa + 1 == PROVE_TABLES)
            prove_fail("more than %d instruction sets", PROVE_TABLES - 1);
}

block_room *prove_room_create(void)
{
    block_room *room = aligned_alloc(64, (sizeof *room + 63) / 64 * 64);
    if (!room)
        prove_fail("out of memory for a block");
    memset(room->guarded, GUARD_BYTE, sizeof room->guarded);
    return room;
}

void prove_room_free(block_room *room) { free(room); }

static size_t length_of(const truth *t, size_t run)
{
    size_t left = PROVE_BLOCK - run * t->run_length;
    return left < t->run_length ? left : t->run_length;
}

static void set_elements(truth *t)
{
    ref_type type = prove_type(t->from);
    ref_products(type, t->x, PROVE_BLOCK, t->r, t->products);
    ref_clamp(type, t->x, PROVE_BLOCK, t->limit, t->clamped);
    t->max = ref_maximum(type, t->products, PROVE_BLOCK);
    t->max_of_x = ref_maximum(type, t->x, PROVE_BLOCK);
}

static size_t first_not_finite(ref_type type, const unsigned char *products, size_t n)
{
    const uint64_t sign = UINT64_C(1) << (8 * ref_size(type) - 1);
    size_t i = 0;
    while (i < n && (ref_get(type, products, i) & ~sign) < ref_infinity(type))
        i++;
    return i;
}

static void set_partials(truth *t, size_t run_length, bool with_norms, double *magnitudes)
{
    ref_type type = prove_type(t->from);
    t->run_length = run_length;
    t->n_runs = (PROVE_BLOCK + run_length - 1) / run_length;
    for (size_t k = 0; k < t->n_runs; k++) {
        const unsigned char *products = t->products + k * run_length * ref_size(type);
        size_t n = length_of(t, k);
        t->count[k] = (gsc__partial){.counts = {.first = n}};
        if (t->max >= ref_infinity(type)) {
            ref_count(type, products, n, &t->count[k].counts.infs, &t->count[k].counts.nans);
            t->count[k].counts.first = first_not_finite(type, products, n);
        }
        if (!with_norms)
            continue;
        ref_magnitudes(type, products, n, magnitudes);
        ref_sums(type, magnitudes, n, 1, t->norm1[k].sums);
        ref_sums(type, magnitudes, n, 2, t->norm2[k].sums);
    }
}

/* The bits of a NaN sum depend on the order of its terms and have no meaning: all NaNs are the same. */
static uint64_t sum_bits(double sum)
{
    uint64_t bits;
    sum = isnan(sum) ? (double)NAN : sum;
    memcpy(&bits, &sum, sizeof bits);
    return bits;
}

static bool same_partial(const gsc__partial *a, const gsc__partial *b, bool counts)
{
    if (counts)
        return a->counts.infs == b->counts.infs && a->counts.nans == b->counts.nans &&
               a->counts.first == b->counts.first;
    bool same = true;
    for (int bin = 0; bin < 3; bin++)
        same = same && sum_bits(a->sums[bin]) == sum_bits(b->sums[bin]);
    return same;
}

static bool same_partials(const truth *t, const outcome *expected, const gsc__partial *found)
{
    bool same = true;
    for (size_t k = 0; k < t->n_runs && expected->partials; k++)
        same = same && same_partial(&expected->partials[k], &found[k], expected->counts);
    return same;
}

static void fail_in_elements(const char *where, const truth *t, const unsigned char *expected,
                             const unsigned char *found)
{
    ref_type type = prove_type(t->from);
    for (size_t i = 0; i < PROVE_BLOCK; i++)
        if (ref_get(type, expected, i) != ref_get(type, found, i))
            prove_fail("%s: element 0x%" PRIx64 " became 0x%" PRIx64 " instead of 0x%" PRIx64
                       " (element %zu of block %" PRIu64 ")",
                       where, ref_get(type, t->x, i), ref_get(type, found, i), ref_get(type, expected, i), i, t->block);
}

static void fail_in_partials(const char *where, const truth *t, const outcome *expected, const gsc__partial *found)
{
    ref_type type = prove_type(t->from);
    for (size_t k = 0; k < t->n_runs; k++) {
        const gsc__partial *a = &found[k], *b = &expected->partials[k];
        uint64_t first = ref_get(type, t->x, k * t->run_length);
        if (!same_partial(a, b, expected->counts) && expected->counts)
            prove_fail("%s: %zu elements from 0x%" PRIx64 " on have %" PRIu64 " infinities and %" PRIu64
                       " NaNs from element %" PRIu64 " on instead of %" PRIu64 " and %" PRIu64 " from %" PRIu64,
                       where, length_of(t, k), first, a->counts.infs, a->counts.nans, a->counts.first, b->counts.infs,
                       b->counts.nans, b->counts.first);
        if (!same_partial(a, b, expected->counts))
            prove_fail("%s: %zu elements from 0x%" PRIx64 " on have the sums %a, %a, %a instead of %a, %a, %a", where,
                       length_of(t, k), first, a->sums[0], a->sums[1], a->sums[2], b->sums[0], b->sums[1], b->sums[2]);
    }
}

static void fail(gsc__operation op, const gsc__kernel_table *table, const truth *t, const outcome *expected,
                 uint64_t max, const gsc__partial *partials, const unsigned char *found)
{
    char where[200];
    uint64_t first = ref_get(prove_type(t->from), t->x, 0);
    snprintf(where, sizeof where, "%s of %s on %s, scale %a, factor %a, runs of %zu", gsc__operation_describe(op).name,
             t->from->dtype, table->isa, t->scale, expected->factor, t->run_length);
    fail_in_elements(where, t, expected->elements, found);
    if (max != expected->returned)
        prove_fail("%s: %d elements from 0x%" PRIx64 " on returned 0x%" PRIx64 " instead of 0x%" PRIx64, where,
                   PROVE_BLOCK, first, max, expected->returned);
    if (expected->partials)
        fail_in_partials(where, t, expected, partials);
    prove_fail("%s: something outside of the %d elements from 0x%" PRIx64 " on was written", where, PROVE_BLOCK, first);
}

static bool guards_intact(const unsigned char *guarded, size_t bytes)
{
    bool intact = true;
    for (size_t i = 0; i < GUARD; i++)
        intact = intact && guarded[i] == GUARD_BYTE && guarded[GUARD + bytes + i] == GUARD_BYTE;
    return intact;
}

static void prove_kernel(block_room *room, gsc__operation op, const gsc__kernel_table *table, const outcome *expected)
{
    const truth *t = &room->truth;
    unsigned char *elements = room->guarded + GUARD;
    size_t size = ref_size(prove_type(t->from)), bytes = PROVE_BLOCK * size;
    for (size_t i = 0; i < t->n_runs; i++)
        room->runs[i] = (gsc__run){elements + i * t->run_length * size, length_of(t, i)};
    memcpy(elements, t->x, bytes);
    memset(elements + bytes, GUARD_BYTE, GUARD);
    memset(room->partials, GUARD_BYTE, t->n_runs * sizeof room->partials[0]);
    gsc__kernel *kernel = table->kernels[op][t->from->kind];
    uint64_t max = kernel(room->runs, t->n_runs, expected->factor, expected->partials ? room->partials : NULL);
    if (memcmp(elements, expected->elements, bytes) != 0 || max != expected->returned ||
        !same_partials(t, expected, room->partials) || !guards_intact(room->guarded, bytes))
        fail(op, table, t, expected, max, room->partials, elements);
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static uint64_t hash_of(const truth *t, const outcome *expected)
{
    uint64_t hash = mix(t->block, expected->returned), word;
    hash = mix(hash, sum_bits(t->scale));
    size_t bytes = PROVE_BLOCK * ref_size(prove_type(t->from));
    for (size_t i = 0; i < bytes && expected->elements != t->x; i += sizeof word) {
        memcpy(&word, expected->elements + i, sizeof word);
        hash = mix(hash, word);
    }
    for (size_t k = 0; k < t->n_runs && expected->partials; k++) {
        const gsc__partial *partial = &expected->partials[k];
        if (expected->counts)
            hash = mix(mix(mix(hash, partial->counts.infs), partial->counts.nans), partial->counts.first);
        for (int bin = 0; bin < 3 && !expected->counts; bin++)
            hash = mix(hash, sum_bits(partial->sums[bin]));
    }
    return hash;
}

static void prove_kernels(block_room *room, bool with_norms, digests *sums)
{
    const truth *t = &room->truth;
    for (gsc__operation op = 0; op < GSC_OPERATIONS; op++) {
        if (gsc__operation_describe(op).partials == GSC_SUMS && !with_norms)
            continue;
        const outcome expected = outcomes[op](t);
        for (size_t isa = 0; prove_tables[isa]; isa++)
            prove_kernel(room, op, prove_tables[isa], &expected);
        sums->sums[op][t->from->kind] += hash_of(t, &expected);
    }
}

/* Each element by itself: the maximum of a block depends on one of its elements only. */
static void prove_alone(block_room *room)
{
    const truth *t = &room->truth;
    ref_type type = prove_type(t->from);
    for (size_t i = 0; i < PROVE_BLOCK; i++)
        for (size_t isa = 0; prove_tables[isa]; isa++) {
            uint64_t x = ref_get(type, t->x, i), element = x;
            uint64_t expected = ref_maximum(type, t->products + i * ref_size(type), 1);
            uint64_t found = prove_tables[isa]->check[t->from->kind](&(gsc__run){&element, 1}, 1, t->r, NULL);
            if (found != expected || element != x)
                prove_fail("check of %s on %s, scale %a: 0x%" PRIx64 " alone returned 0x%" PRIx64
                           " instead of 0x%" PRIx64,
                           t->from->dtype, prove_tables[isa]->isa, t->scale, x, found, expected);
        }
}

void prove_block(block_room *room, const selection *what, uint64_t index, digests *sums)
{
    truth *t = &room->truth;
    const domain *d = what->from;
    t->from = d;
    t->block = index * what->block_stride;
    d->fill(t->block, t->x);
    for (size_t scale = 0; scale < d->n_scales; scale += what->scale_stride) {
        t->scale = prove_scale(scale);
        t->r = ref_reciprocal(t->scale);
        t->limit = prove_limit(prove_type(d), scale);
        bool one_of_few = scale < d->n_few_scales;
        set_elements(t);
        set_partials(t, PROVE_BLOCK, one_of_few, room->magnitudes);
        prove_kernels(room, one_of_few, sums);
        if (one_of_few) {
            set_partials(t, SHORT_RUN, true, room->magnitudes);
            prove_kernels(room, true, sums);
        }
        if (d->each_alone)
            prove_alone(room);
    }
}
