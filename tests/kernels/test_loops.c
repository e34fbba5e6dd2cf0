/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of every instruction set that this processor has, against scalar references that share no code with it:
 * the same bits for every length, every start and special values, and nothing written outside. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "asserts.h"
#include "kernels/kernels.h"
#include "layouts.h"

enum { LONGEST = 130, LARGE = 5000, MARGIN = 64, WIDEST = 64 / 2 };

/* One element as float32 arithmetic sees it, and back: slow, one at a time. */
static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* 16-bit floats through exact doubles; NaNs by their bits. */
static float widen(gsc__kind kind, uint16_t half)
{
    if (kind == GSC_BF16)
        return float_of((uint32_t)half << 16);
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, field = half >> 10 & 31, mantissa = half & 1023;
    if (field == 31)
        return float_of(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0));
    double magnitude = field == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, (int)field - 25);
    return (float)(sign ? -magnitude : magnitude);
}

static uint16_t narrow(gsc__kind kind, float x)
{
    int mantissa_bits = kind == GSC_BF16 ? 7 : 10, bias = kind == GSC_BF16 ? 127 : 15;
    int infinity = (2 * bias + 1) << mantissa_bits, sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x))
        return (uint16_t)(sign | infinity | 1 << (mantissa_bits - 1) |
                          (int)((bits_of(x) & 0x7fffff) >> (23 - mantissa_bits)));
    if (isinf(x))
        return (uint16_t)(sign | infinity);
    int exponent = x == 0 ? 1 - bias : ilogbf(x) < 1 - bias ? 1 - bias : ilogbf(x);
    int significand = (int)nearbyint(ldexp(fabs((double)x), mantissa_bits - exponent));
    int bits = ((exponent + bias - 1) << mantissa_bits) + significand;
    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

static size_t size_of(gsc__kind kind) { return kind == GSC_F64 ? 8 : kind == GSC_F32 ? 4 : 2; }

static uint64_t get_bits(gsc__kind kind, const void *x, size_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)x + i * size_of(kind), size_of(kind));
    return bits;
}

static void set_bits(gsc__kind kind, void *x, size_t i, uint64_t bits)
{
    memcpy((char *)x + i * size_of(kind), &bits, size_of(kind));
}

static uint64_t product(gsc__kind kind, uint64_t bits, double r)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    if (kind == GSC_F64)
        return bits_of_double(x * r);
    volatile float single = kind == GSC_F32 ? float_of((uint32_t)bits) : widen(kind, (uint16_t)bits);
    volatile float y = single * (float)r;
    return kind == GSC_F32 ? bits_of(y) : narrow(kind, y);
}

static double value(gsc__kind kind, uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return kind == GSC_F64   ? x
           : kind == GSC_F32 ? (double)float_of((uint32_t)bits)
                             : (double)widen(kind, (uint16_t)bits);
}

static uint64_t magnitude(gsc__kind kind, uint64_t bits) { return bits & ~(UINT64_C(1) << (8 * size_of(kind) - 1)); }

static uint64_t infinity_bits(gsc__kind kind)
{
    const uint64_t infinities[] = {0x7f800000, UINT64_C(0x7ff) << 52, 0x7f80, 0x7c00};
    return infinities[kind];
}

/* Mostly ordinary values, and every special one. */
static uint64_t some_bits(gsc__kind kind, uint64_t *seed, bool finite)
{
    uint64_t random = next_random(seed), infinity = infinity_bits(kind);
    uint64_t sign = UINT64_C(1) << (8 * size_of(kind) - 1);
    const uint64_t special[] = {0,
                                sign,
                                1,
                                sign | 1,
                                infinity - 1,
                                (sign | infinity) - 1,
                                infinity,
                                infinity + 1,
                                sign | infinity,
                                sign - 1,
                                sign | (sign - 1)};
    if (random % 4 == 0)
        return special[(random >> 8) % (finite ? 6 : 11)];
    uint64_t bits = (random >> 16 | random << 48) & (sign | (sign - 1));
    if (finite && magnitude(kind, bits) >= infinity)
        bits &= ~(infinity ^ (infinity & (infinity >> 1)));
    return bits;
}

typedef uint64_t reference(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial);

static uint64_t reference_unscale(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial)
{
    (void)partial;
    uint64_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t y = product(kind, get_bits(kind, x, i), factor);
        set_bits(kind, x, i, y);
        max = magnitude(kind, y) > max ? magnitude(kind, y) : max;
    }
    return max;
}

static uint64_t reference_check(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial)
{
    void *copy = malloc(n * size_of(kind) + 1);
    memcpy(copy, x, n * size_of(kind));
    uint64_t max = reference_unscale(kind, copy, n, factor, partial);
    free(copy);
    return max;
}

/* For float64, its upper half. */
static uint64_t upper(gsc__kind kind, uint64_t max) { return kind == GSC_F64 ? max >> 32 << 32 : max; }

static uint64_t reference_unscale_flag(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial)
{
    return upper(kind, reference_unscale(kind, x, n, factor, partial));
}

static uint64_t reference_check_raw(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial)
{
    (void)factor, (void)partial;
    uint64_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t y = magnitude(kind, get_bits(kind, x, i));
        max = y > max ? y : max;
    }
    return upper(kind, max);
}

static uint64_t reference_norm(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial, int p)
{
    uint64_t max = reference_check(kind, x, n, factor, NULL);
    double largest = value(kind, max), lanes[16] = {0};
    int bin = kind != GSC_F64 || largest == 0 ? 0 : largest < 0x1p-480 ? 1 : largest < 0x1p480 ? 0 : 2;
    for (size_t i = 0; i < n; i++) {
        double y = fabs(value(kind, product(kind, get_bits(kind, x, i), factor)));
        y = bin == 1 ? y * 0x1p600 : bin == 2 ? y * 0x1p-600 : y;
        lanes[i % 16] += p == 1 ? y : y * y;
    }
    for (int i = 0; i < 8; i++)
        lanes[i] += lanes[i + 8];
    for (int i = 0; i < 4; i++)
        lanes[i] += lanes[i + 4];
    partial->sums[0] = partial->sums[1] = partial->sums[2] = 0;
    partial->sums[bin] = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    return max;
}

static uint64_t reference_norm1(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial)
{
    return reference_norm(kind, x, n, factor, partial, 1);
}

static uint64_t reference_norm2(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial)
{
    return reference_norm(kind, x, n, factor, partial, 2);
}

static uint64_t reference_count(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial)
{
    *partial = (gsc__partial){.counts = {.first = n}};
    for (size_t i = 0; i < n; i++) {
        uint64_t y = magnitude(kind, product(kind, get_bits(kind, x, i), factor));
        partial->counts.infs += y == infinity_bits(kind);
        partial->counts.nans += y > infinity_bits(kind);
        if (y >= infinity_bits(kind) && partial->counts.first == n)
            partial->counts.first = i;
    }
    return 0;
}

static uint64_t reference_clamp(gsc__kind kind, void *x, size_t n, double factor, gsc__partial *partial)
{
    (void)partial;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = get_bits(kind, x, i), sign = bits ^ magnitude(kind, bits);
        uint64_t limit = kind == GSC_F64   ? bits_of_double(factor)
                         : kind == GSC_F32 ? bits_of((float)factor)
                                           : narrow(kind, (float)factor);
        if (fabs(value(kind, bits)) > factor)
            set_bits(kind, x, i, sign | limit);
    }
    return 0;
}

#define REFERENCE(op, stores, partials) [GSC_KERNEL_##op] = reference_##op,
static reference *const references[GSC_OPERATIONS] = {GSC_KERNELS(REFERENCE)};

/* The kernels of one operation and kind. */
typedef struct kernel {
    gsc__operation op;
    gsc__kind kind;
} kernel;

static const double factors[] = {1.0, 0.5, 1.0 / 3.0, 1.0 / 65536.0, 65536.0, 0x1p-126, 3e38, 1.0 + 1e-9};

static void compare(const gsc__kernel_table *table, const kernel *k, size_t n, size_t start, double factor, bool finite)
{
    size_t size = size_of(k->kind), bytes = (n + start) * size + 2 * MARGIN;
    char *found = aligned_alloc(64, (bytes + 63) / 64 * 64), *expected = malloc(bytes);
    memset(found, 0x5a, bytes);
    uint64_t seed = n * 977 + start * 31 + (uint64_t)k->op * 8 + 1;
    for (size_t i = 0; i < n; i++)
        set_bits(k->kind, found + MARGIN + start * size, i, some_bits(k->kind, &seed, finite));
    memcpy(expected, found, bytes);
    gsc__partial partial = {.sums = {7, 7, 7}}, expected_partial = partial;
    const gsc__run run = {found + MARGIN + start * size, n};
    const gsc__operation_info op = gsc__operation_describe(k->op);
    const bool has_partial = op.partials != GSC_NO_PARTIALS;
    uint64_t max = table->kernels[k->op][k->kind](&run, 1, factor, has_partial ? &partial : NULL);
    uint64_t expected_max = references[k->op](k->kind, expected + MARGIN + start * size, n, factor, &expected_partial);
    bool same = memcmp(found, expected, bytes) == 0 && max == expected_max;
    for (int bin = 0; bin < 3 && has_partial; bin++)
        same = same && (bits_of_double(partial.sums[bin]) == bits_of_double(expected_partial.sums[bin]) ||
                        (isnan(partial.sums[bin]) && isnan(expected_partial.sums[bin])));
    if (!same)
        fail_msg("%s of %s on %s: %zu elements from %zu, factor %g: max 0x%llx instead of 0x%llx, sums %.17g instead "
                 "of %.17g",
                 op.name, gsc__kind_name(k->kind), table->isa, n, start, factor, (unsigned long long)max,
                 (unsigned long long)expected_max, partial.sums[0], expected_partial.sums[0]);
    free(found);
    free(expected);
}

enum { KERNELS = (int)GSC_OPERATIONS * (int)GSC_KINDS, FACTORS = sizeof factors / sizeof factors[0] };

static kernel kernel_at(size_t index)
{
    return (kernel){.op = (gsc__operation)(index / GSC_KINDS), .kind = (gsc__kind)(index % GSC_KINDS)};
}

/* A limit as bits of the element type, which is what clamp takes. */
static double factor_for(const kernel *k, size_t which)
{
    return k->op == GSC_KERNEL_clamp ? value(k->kind, product(k->kind, infinity_bits(k->kind) - 1 - which * 5, 1.0))
                                     : factors[which % FACTORS];
}

/* section 5.1 */
static void test_every_length_and_start(void **state)
{
    (void)state;
    const gsc__kernel_table *table;
    for (size_t isa = 0; (table = gsc__kernels_present(isa)) != NULL; isa++)
        for (size_t i = 0; i < KERNELS; i++) {
            const kernel k = kernel_at(i);
            for (size_t n = 0; n <= LONGEST; n++)
                for (size_t start = 0; start < WIDEST * 2 / size_of(k.kind); start++)
                    compare(table, &k, n, start, factor_for(&k, n + start), (n + start) % 2 == 0);
        }
}

/* section 5.1 */
static void test_long_runs(void **state)
{
    (void)state;
    const gsc__kernel_table *table;
    for (size_t isa = 0; (table = gsc__kernels_present(isa)) != NULL; isa++)
        for (size_t i = 0; i < KERNELS; i++)
            for (size_t which = 0; which < FACTORS; which++) {
                const kernel k = kernel_at(i);
                compare(table, &k, LARGE, which, factor_for(&k, which), true);
                compare(table, &k, LARGE + which, 0, factor_for(&k, which), false);
            }
}

/* section 5.1 */
static void test_all_16_bit_patterns(void **state)
{
    (void)state;
    uint16_t *found = malloc(0x10000 * sizeof *found), *expected = malloc(0x10000 * sizeof *expected);
    const gsc__kernel_table *table;
    for (size_t isa = 0; (table = gsc__kernels_present(isa)) != NULL; isa++)
        for (int kind = GSC_BF16; kind <= GSC_F16; kind++)
            for (size_t which = 0; which < FACTORS; which++) {
                for (size_t i = 0; i < 0x10000; i++)
                    found[i] = expected[i] = (uint16_t)i;
                const gsc__run run = {found, 0x10000};
                table->unscale[kind](&run, 1, factors[which], NULL);
                reference_unscale((gsc__kind)kind, expected, 0x10000, factors[which], NULL);
                assert_memory_equal(found, expected, 0x10000 * sizeof *found);
            }
    free(found);
    free(expected);
}

/* Tails, maxima and partials must not leak from one run to the next. */
/* section 5.1 */
static void test_many_runs_in_one_call(void **state)
{
    (void)state;
    enum { RUNS = 9 };
    float data[RUNS][20];
    gsc__run runs[RUNS];
    gsc__partial partials[RUNS];
    const gsc__kernel_table *table;
    for (size_t isa = 0; (table = gsc__kernels_present(isa)) != NULL; isa++)
        for (size_t peak = 0; peak < RUNS; peak++) {
            for (size_t k = 0; k < RUNS; k++) {
                runs[k] = (gsc__run){data[k], 2 * k};
                for (size_t i = 0; i < 20; i++)
                    data[k][i] = i < 2 * k ? 1.0f : 1e30f;
            }
            if (peak > 0)
                data[peak][peak - 1] = -1e20f;
            uint64_t max = table->norm1[GSC_F32](runs, RUNS, 1.0, partials);
            assert_int_equal(max, bits_of(peak > 0 ? 1e20f : 1.0f));
            for (size_t k = 0; k < RUNS; k++)
                assert_true(k == peak || partials[k].sums[0] == (double)(2 * k));
            assert_int_equal(table->unscale[GSC_F32](runs, RUNS, 0.5, NULL), bits_of(peak > 0 ? 5e19f : 0.5f));
            assert_true(data[3][6] == 1e30f);
        }
}

/* section 5.4 */
static void test_choice(void **state)
{
    (void)state;
    const gsc__kernel_table *best = gsc__kernels_present(0), *table, *last = best;
    for (size_t isa = 0; (table = gsc__kernels_present(isa)) != NULL; isa++) {
        assert_true(gsc__kernels_select(table->isa));
        assert_ptr_equal(gsc__kernels(), table);
        last = table;
    }
    assert_ptr_equal(last, &gsc__kernels_baseline);
    assert_false(gsc__kernels_select("mmx"));
    assert_ptr_equal(gsc__kernels(), last);
    assert_true(gsc__kernels_select(best->isa));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length_and_start),
        cmocka_unit_test(test_long_runs),
        cmocka_unit_test(test_all_16_bit_patterns),
        cmocka_unit_test(test_many_runs_in_one_call),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
