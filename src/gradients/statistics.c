/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.c: the values of one gradient: the histogram of exponents, which shows under- and overflow.
 *
 * Counts are integers: each element adds one to the slot of its exponent field. Some elements share a slot: subnormals
 * with zeros, infinities with NaNs. The range of a block's magnitudes, which is found while the block comes into the
 * first cache, says whether it has any of them; only then are its elements looked at one by one. Halves are widened to
 * float32 first, where float16's subnormals are normal numbers. So two kinds are counted: GSC_F32 and GSC_F64. */
#include <string.h>

#include "base/blocks.h"
#include "base/fpenv.h"
#include "base/try.h"
#include "gradients/layout.h"
#include "gradients/rows.h"
#include "gradients/tasks.h"
#include "gradients/view.h"
#include "gradscaler/gradients.h"

enum {
    LEAST_EXPONENT = -150,
    EXPONENTS = sizeof((gsc_grad_stats *)0)->exponents / sizeof(uint64_t),
    SLOTS = EXPONENTS + 2, /* one more at either end, for all exponents beyond it */
    LANES = 4              /* histograms, so that equal neighbours do not wait for one counter */
};

enum { ZEROS = EXPONENTS, INFS, NANS, COUNTERS }; /* after the exponents */

/* Where the slots of a kind begin and end. */
typedef struct slot_bounds {
    uint64_t least; /* magnitudes from here up to infinity have a slot per exponent; smaller ones are in slot `zero` */
    int zero, infinity;
} slot_bounds;

static inline slot_bounds bounds_of(gsc__kind kind)
{
    return kind == GSC_F64 ? (slot_bounds){(uint64_t)(1023 + LEAST_EXPONENT) << 52, 0, SLOTS - 1}
                           : (slot_bounds){0x00800000u, 24, 279};
}

typedef struct range {
    uint64_t least; /* smallest non-zero magnitude minus 1; zero wraps to the maximum */
    uint64_t most;
} range;

typedef struct task_tally {
    uint64_t slots[LANES][SLOTS];
    uint64_t counters[COUNTERS];
    uint64_t small; /* not zero, but below the least with a slot of its own */
    range finite;
} task_tally;

typedef struct job {
    const gsc__view *view;
    gsc__kind kind; /* of what is counted */
    size_t elements_per_task;
    _Atomic uint64_t counters[COUNTERS], least, most;
} job;

/* Magnitudes are the bits without the sign. */
static uint32_t magnitude_f32(const float *x, size_t i) { return gsc__float_bits(x[i]) & INT32_MAX; }

static uint64_t magnitude_f64(const double *x, size_t i)
{
    uint64_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    return bits & INT64_MAX;
}

/* In the functions below kind is a constant where they are inlined, so that each kind has loops of its own. */
#define FOR_CONSTANT_KIND static inline __attribute__((always_inline))

FOR_CONSTANT_KIND uint64_t magnitude(gsc__kind kind, const void *x, size_t i)
{
    return kind == GSC_F64 ? magnitude_f64(x, i) : magnitude_f32(x, i);
}

/* floor(log2) + 151; float64's are clamped at either end. */
FOR_CONSTANT_KIND size_t slot_of(gsc__kind kind, uint64_t y)
{
    if (kind == GSC_F32)
        return (size_t)(y >> 23) + (size_t)bounds_of(GSC_F32).zero;
    int64_t slot = (int64_t)(y >> 52) - (1023 + LEAST_EXPONENT - 1);
    return (size_t)(slot < 0 ? 0 : slot >= SLOTS ? SLOTS - 1 : slot);
}

FOR_CONSTANT_KIND void count_slots(gsc__kind kind, const void *x, size_t count, uint64_t slots[LANES][SLOTS])
{
    size_t whole = count - count % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            slots[lane][slot_of(kind, magnitude(kind, x, i + lane))]++;
    for (size_t i = whole; i < count; i++)
        slots[0][slot_of(kind, magnitude(kind, x, i))]++;
}

/* floor(log2) of a magnitude below the least with a slot of its own, clamped. */
FOR_CONSTANT_KIND int small_exponent(gsc__kind kind, uint64_t y)
{
    return kind == GSC_F64 ? LEAST_EXPONENT : 63 - __builtin_clzll(y) - 149;
}

/* For a block with elements that share a slot: counts them, and returns the largest finite magnitude. */
FOR_CONSTANT_KIND uint64_t count_special(gsc__kind kind, const void *x, size_t count, task_tally *tally)
{
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t y = magnitude(kind, x, i);
        if (y >= gsc__kind_infinity(kind)) {
            tally->counters[y == gsc__kind_infinity(kind) ? INFS : NANS]++;
            continue;
        }
        most = y > most ? y : most;
        if (y != 0 && y < bounds_of(kind).least) {
            tally->counters[small_exponent(kind, y) - LEAST_EXPONENT]++;
            tally->small++;
        }
    }
    return most;
}

/* Two bodies, since vectors are fastest where the accumulators have the elements' width. They compare signed integers,
 * which every instruction set can. */
static range range_f32(const float *x, size_t count)
{
    int32_t least = INT32_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t y = (int32_t)magnitude_f32(x, i), less_one = (y - 1) & INT32_MAX;
        least = less_one < least ? less_one : least;
        most = y > most ? y : most;
    }
    return (range){(uint64_t)least, (uint64_t)most};
}

static range range_f64(const double *x, size_t count)
{
    int64_t least = INT64_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t y = (int64_t)magnitude_f64(x, i), less_one = (y - 1) & INT64_MAX;
        least = less_one < least ? less_one : least;
        most = y > most ? y : most;
    }
    return (range){(uint64_t)least, (uint64_t)most};
}

FOR_CONSTANT_KIND void count_block(gsc__kind kind, const void *x, size_t count, task_tally *tally)
{
    range seen = kind == GSC_F64 ? range_f64(x, count) : range_f32(x, count);
    count_slots(kind, x, count, tally->slots);
    if (seen.least < bounds_of(kind).least - 1 || seen.most >= gsc__kind_infinity(kind))
        seen.most = count_special(kind, x, count, tally);
    tally->finite.least = seen.least < tally->finite.least ? seen.least : tally->finite.least;
    tally->finite.most = seen.most > tally->finite.most ? seen.most : tally->finite.most;
}

static void widen(gsc__kind kind, const uint16_t *halves, float *wide, size_t count)
{
    if (kind == GSC_BF16)
        for (size_t i = 0; i < count; i++)
            wide[i] = gsc__bf16_to_f32(halves[i]);
    else
        for (size_t i = 0; i < count; i++)
            wide[i] = gsc__f16_to_f32(halves[i]);
}

static void count_blocks(const gsc__view *view, gsc__range task, task_tally *tally)
{
    _Alignas(64) unsigned char packed[GSC_GRADIENT_BLOCK * sizeof(double)];
    float wide[GSC_GRADIENT_BLOCK];
    gsc__layout layout;
    gsc__layout_collapse(view->tensor, view->kind, &layout);
    for (; task.first < task.end; task.first += GSC_GRADIENT_BLOCK) {
        size_t count = gsc__block_length(task.first, task.end);
        const void *x = gsc__rows_neighbours(&layout, task.first, count, packed);
        if (view->kind == GSC_F64) {
            count_block(GSC_F64, x, count, tally);
            continue;
        }
        if (view->kind != GSC_F32) {
            widen(view->kind, x, wide, count);
            x = wide;
        }
        count_block(GSC_F32, x, count, tally);
    }
}

/* Adds the slots up into the counters. */
static void sort_slots(gsc__kind kind, task_tally *tally)
{
    const slot_bounds bounds = bounds_of(kind);
    for (int slot = 0; slot < SLOTS; slot++) {
        int exponent = slot == 0 ? 0 : slot > EXPONENTS ? EXPONENTS - 1 : slot - 1;
        uint64_t count = 0;
        for (int lane = 0; lane < LANES; lane++)
            count += tally->slots[lane][slot];
        if (slot == bounds.zero)
            tally->counters[ZEROS] = count - tally->small;
        else if (slot == bounds.infinity)
            tally->counters[exponent] += count - tally->counters[INFS] - tally->counters[NANS];
        else
            tally->counters[exponent] += count;
    }
}

static void count_task(void *ctx, size_t index)
{
    job *all = ctx;
    task_tally tally = {.finite = {UINT64_MAX, 0}};
    count_blocks(all->view, gsc__part(all->view->count, all->elements_per_task, index), &tally);
    sort_slots(all->kind, &tally);
    for (int i = 0; i < COUNTERS; i++)
        if (tally.counters[i] != 0)
            atomic_fetch_add_explicit(&all->counters[i], tally.counters[i], memory_order_relaxed);
    gsc__atomic_min(&all->least, tally.finite.least);
    gsc__atomic_max(&all->most, tally.finite.most);
}

static double value_of(gsc__kind kind, uint64_t magnitude)
{
    double value;
    if (kind == GSC_F32)
        return (double)gsc__bits_float((uint32_t)magnitude);
    memcpy(&value, &magnitude, sizeof value);
    return value;
}

static void count_values(const gsc__view *view, gsc_grad_stats *stats)
{
    const gsc__kind kind = view->kind == GSC_F64 ? GSC_F64 : GSC_F32;
    job all = {.view = view, .kind = kind, .least = UINT64_MAX};
    gsc_parallel_run(gsc__task_split(view->count, &all.elements_per_task), count_task, &all);
    for (int i = 0; i < EXPONENTS; i++)
        stats->exponents[i] = atomic_load(&all.counters[i]);
    stats->zeros = atomic_load(&all.counters[ZEROS]);
    stats->infs = atomic_load(&all.counters[INFS]);
    stats->nans = atomic_load(&all.counters[NANS]);
    uint64_t least = atomic_load(&all.least); /* at least infinity - 1 if no element is finite and non-zero */
    if (least < gsc__kind_infinity(kind) - 1)
        stats->min_abs = gsc__fpenv_pin(value_of(kind, least + 1));
    stats->max_abs = gsc__fpenv_pin(value_of(kind, atomic_load(&all.most)));
}

gsc_status gsc_grad_statistics(const DLTensor *grad, gsc_grad_stats *out)
{
    if (!grad || !out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_grad_statistics: %s is NULL", grad ? "out" : "grad");
    const gsc__view_rules rules = {.writes = false, .allow_fp16 = true};
    const gsc__message_subject subject = {.api = "gsc_grad_statistics", .what = "grad"};
    gsc__view view;
    GSC_TRY(gsc__view_check(grad, &rules, &subject, &view));
    *out = (gsc_grad_stats){.count = view.count};
    GSC_FPENV_SCOPE;
    if (view.count > 0)
        count_values(&view, out);
    return GSC_OK;
}
