/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.c: what the values of one gradient look like: the histogram of exponents that shows under- and overflow.
 *
 * Counted in integers: each element adds one to the slot of its exponent field. The range of a block's magnitudes,
 * found while the block comes into the first cache, says whether it has elements that a slot does not tell apart:
 * subnormals from zeros, infinities from NaNs. Only then are they looked at one by one. Halves are widened first:
 * float32 has a normal number for each subnormal of float16. */
#include <string.h>

#include "base/blocks.h"
#include "base/fpenv.h"
#include "gradients/layout.h"
#include "gradients/rows.h"
#include "gradients/tasks.h"
#include "gradients/view.h"
#include "gradscaler/gradients.h"

enum {
    LEAST_EXPONENT = -150,
    EXPONENTS = sizeof((gsc_grad_stats *)0)->exponents / sizeof(uint64_t),
    SLOTS = EXPONENTS + 2, /* one more on either side, for all exponents there */
    LANES = 4              /* histograms, so that equal neighbours do not wait for one counter */
};

enum { ZEROS = EXPONENTS, INFS, NANS, COUNTERS }; /* after the exponents */

/* The two kinds that are counted, as bits. */
typedef struct float_format {
    uint64_t magnitude; /* mask of all but the sign */
    uint64_t infinity;
    uint64_t least; /* from here up to infinity a slot is one exponent; below is slot `low` */
    int low, high;  /* slots of zero and of infinity */
} float_format;

static const float_format f32 = {0x7fffffffu, 0x7f800000u, 0x00800000u, 24, 279};
static const float_format f64 = {0x7fffffffffffffffu, 0x7ff0000000000000u, (uint64_t)(1023 + LEAST_EXPONENT) << 52, 0,
                                 SLOTS - 1};

typedef struct range {
    uint64_t least, most; /* magnitudes as bits; least: of what is not 0, less one, so that 0 comes last */
} range;

typedef struct task_tally {
    uint64_t slots[LANES][SLOTS];
    uint64_t counters[COUNTERS];
    uint64_t small; /* not zero, below `least` */
    range finite;
} task_tally;

typedef struct job {
    const gsc__view *view;
    const float_format *format;
    size_t elements_per_task;
    _Atomic uint64_t counters[COUNTERS], least, most;
} job;

static int32_t magnitude_f32(const float *x, size_t i) { return (int32_t)(gsc__float_bits(x[i]) & f32.magnitude); }

static int64_t magnitude_f64(const double *x, size_t i)
{
    uint64_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    return (int64_t)(bits & f64.magnitude);
}

/* floor(log2) + 151; float64's are cut off on either side. */
static size_t slot_f32(int32_t magnitude) { return (size_t)(magnitude >> 23) + (size_t)f32.low; }

static size_t slot_f64(int64_t magnitude)
{
    int64_t slot = (magnitude >> 52) - (1023 + LEAST_EXPONENT - 1);
    return (size_t)(slot < 0 ? 0 : slot >= SLOTS ? SLOTS - 1 : slot);
}

/* Compared as signed integers, which every instruction set can; 0 - 1 becomes the largest. */
static range range_f32(const float *x, size_t count)
{
    int32_t least = INT32_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t y = magnitude_f32(x, i), less_one = (y - 1) & INT32_MAX;
        least = less_one < least ? less_one : least;
        most = y > most ? y : most;
    }
    return (range){(uint64_t)least, (uint64_t)most};
}

static range range_f64(const double *x, size_t count)
{
    int64_t least = INT64_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t y = magnitude_f64(x, i), less_one = (y - 1) & INT64_MAX;
        least = less_one < least ? less_one : least;
        most = y > most ? y : most;
    }
    return (range){(uint64_t)least, (uint64_t)most};
}

static void count_f32(const float *x, size_t count, uint64_t slots[LANES][SLOTS])
{
    size_t whole = count - count % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            slots[lane][slot_f32(magnitude_f32(x, i + lane))]++;
    for (size_t i = whole; i < count; i++)
        slots[0][slot_f32(magnitude_f32(x, i))]++;
}

static void count_f64(const double *x, size_t count, uint64_t slots[LANES][SLOTS])
{
    size_t whole = count - count % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            slots[lane][slot_f64(magnitude_f64(x, i + lane))]++;
    for (size_t i = whole; i < count; i++)
        slots[0][slot_f64(magnitude_f64(x, i))]++;
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* floor(log2) of a magnitude below `least`, cut off. */
static int small_exponent(const float_format *format, uint64_t magnitude)
{
    return format == &f64 ? LEAST_EXPONENT : 63 - __builtin_clzll(magnitude) - 149;
}

/* Of a block with such elements: counts the small and the infinite, and finds the largest that is finite. */
static uint64_t count_special(const float_format *format, const void *x, size_t count, task_tally *tally)
{
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t y = format == &f64 ? (uint64_t)magnitude_f64(x, i) : (uint64_t)magnitude_f32(x, i);
        if (y >= format->infinity) {
            tally->counters[y == format->infinity ? INFS : NANS]++;
        } else {
            most = larger(most, y);
            if (y != 0 && y < format->least) {
                tally->counters[small_exponent(format, y) - LEAST_EXPONENT]++;
                tally->small++;
            }
        }
    }
    return most;
}

static void count_block(const float_format *format, const void *x, size_t count, task_tally *tally)
{
    range seen = format == &f64 ? range_f64(x, count) : range_f32(x, count);
    if (format == &f64)
        count_f64(x, count, tally->slots);
    else
        count_f32(x, count, tally->slots);
    if (seen.least < format->least - 1 || seen.most >= format->infinity)
        seen.most = count_special(format, x, count, tally);
    tally->finite.least = smaller(tally->finite.least, seen.least);
    tally->finite.most = larger(tally->finite.most, seen.most);
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

static void count_part(const job *all, gsc__range task, task_tally *tally)
{
    _Alignas(64) unsigned char packed[GSC_GRADIENT_BLOCK * sizeof(double)];
    float wide[GSC_GRADIENT_BLOCK];
    const gsc__view *view = all->view;
    gsc__layout layout;
    gsc__layout_collapse(view->tensor, view->kind, &layout);
    for (; task.first < task.end; task.first += GSC_GRADIENT_BLOCK) {
        size_t count = gsc__block_length(task.first, task.end);
        const void *x = gsc__rows_neighbours(&layout, task.first, count, packed);
        if (view->kind == GSC_BF16 || view->kind == GSC_F16) {
            widen(view->kind, x, wide, count);
            x = wide;
        }
        count_block(all->format, x, count, tally);
    }
}

static void sort_slots(const float_format *format, task_tally *tally)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        int exponent = slot == 0 ? 0 : slot > EXPONENTS ? EXPONENTS - 1 : slot - 1;
        uint64_t count = 0;
        for (int lane = 0; lane < LANES; lane++)
            count += tally->slots[lane][slot];
        if (slot == format->low)
            tally->counters[ZEROS] = count - tally->small;
        else if (slot == format->high)
            tally->counters[exponent] += count - tally->counters[INFS] - tally->counters[NANS];
        else
            tally->counters[exponent] += count;
    }
}

static void count_task(void *ctx, size_t index)
{
    job *all = ctx;
    task_tally tally = {.finite = {UINT64_MAX, 0}};
    count_part(all, gsc__part(all->view->count, all->elements_per_task, index), &tally);
    sort_slots(all->format, &tally);
    for (int i = 0; i < COUNTERS; i++)
        if (tally.counters[i] != 0)
            atomic_fetch_add_explicit(&all->counters[i], tally.counters[i], memory_order_relaxed);
    gsc__atomic_min(&all->least, tally.finite.least);
    gsc__atomic_max(&all->most, tally.finite.most);
}

static double value_of(const float_format *format, uint64_t magnitude)
{
    double value;
    if (format == &f32)
        return (double)gsc__bits_float((uint32_t)magnitude);
    memcpy(&value, &magnitude, sizeof value);
    return value;
}

static void count_values(const gsc__view *view, gsc_grad_stats *stats)
{
    const float_format *format = view->kind == GSC_F64 ? &f64 : &f32;
    job all = {.view = view, .format = format, .least = UINT64_MAX};
    gsc_parallel_run(gsc__task_split(view->count, &all.elements_per_task), count_task, &all);
    for (int i = 0; i < EXPONENTS; i++)
        stats->exponents[i] = atomic_load(&all.counters[i]);
    stats->zeros = atomic_load(&all.counters[ZEROS]);
    stats->infs = atomic_load(&all.counters[INFS]);
    stats->nans = atomic_load(&all.counters[NANS]);
    uint64_t least = atomic_load(&all.least); /* past infinity where all are zeros or not finite */
    if (least < format->infinity - 1)
        stats->min_abs = gsc__fpenv_pin(value_of(format, least + 1));
    stats->max_abs = gsc__fpenv_pin(value_of(format, atomic_load(&all.most)));
}

gsc_status gsc_grad_statistics(const DLTensor *grad, gsc_grad_stats *out)
{
    if (!grad || !out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_grad_statistics: %s is NULL", grad ? "out" : "grad");
    const gsc__view_rules rules = {.writes = false, .allow_fp16 = true};
    const gsc__message_subject subject = {.api = "gsc_grad_statistics", .what = "grad"};
    gsc__view view;
    gsc_status status = gsc__view_check(grad, &rules, &subject, &view);
    if (status != GSC_OK)
        return status;
    *out = (gsc_grad_stats){.count = view.count};
    gsc__fpenv saved = gsc__fpenv_enter();
    if (view.count > 0)
        count_values(&view, out);
    gsc__fpenv_leave(saved);
    return GSC_OK;
}
