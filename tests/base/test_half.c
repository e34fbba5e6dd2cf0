/* SPDX-License-Identifier: Apache-2.0 */
/* float16 and bfloat16 conversions against the slow reference of elements.h and, where there is one, the hardware. */
#include <stddef.h>
#include <stdint.h>

#include "asserts.h"
#include "base/half.h"
#include "elements.h"
#include "layouts.h"
#include "skipped.h"

typedef struct format {
    const char *name;
    int mantissa_bits, bias;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
} format;

static const format formats[] = {{"bfloat16", 7, 127, gsc__bf16_to_f32, gsc__f32_to_bf16},
                                 {"float16", 10, 15, gsc__f16_to_f32, gsc__f32_to_f16}};

/* A NaN's sign and the upper bits of its payload stay; it becomes quiet. */
static uint16_t narrowed_nan(const format *f, uint32_t bits)
{
    uint32_t infinity = (uint32_t)(2 * f->bias + 1) << f->mantissa_bits;
    uint32_t payload = (bits & 0x7fffffu) >> (23 - f->mantissa_bits);
    return (uint16_t)((bits >> 16 & 0x8000u) | infinity | 1u << (f->mantissa_bits - 1) | payload);
}

static void check_narrow(const format *f, uint32_t bits)
{
    float value = gsc__bits_float(bits);
    uint16_t expected =
        isnan(value) ? narrowed_nan(f, bits) : small_float_encode((double)value, f->mantissa_bits, f->bias);
    uint16_t found = f->narrow(value);
    if (found != expected)
        fail_msg("%s of float32 0x%08x is 0x%04x instead of 0x%04x", f->name, bits, found, expected);
}

static void test_every_half_widens_exactly(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++)
        for (uint32_t half = 0; half < 0x10000u; half++) {
            const format *f = &formats[k];
            double expected = small_float_decode((uint16_t)half, f->mantissa_bits, f->bias);
            float found = f->widen((uint16_t)half);
            uint32_t bits = gsc__float_bits(found);
            if (isnan(expected)) {
                uint32_t payload = half & ((1u << f->mantissa_bits) - 1);
                uint32_t quiet = f->mantissa_bits == 10 ? 0x400000u : 0u; /* bfloat16 only moves bits */
                assert_int_equal(bits,
                                 (half & 0x8000u) << 16 | 0x7f800000u | quiet | payload << (23 - f->mantissa_bits));
            } else if ((double)found != expected || bits >> 31 != half >> 15) {
                fail_msg("%s 0x%04x is %g instead of %g", f->name, half, (double)found, expected);
            }
        }
}

/* Each half, the points halfway to its neighbours, and the float32 values next to all of these. */
static void test_rounding_around_every_half(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++)
        for (uint32_t half = 0; half < 0x10000u; half++) {
            const format *f = &formats[k];
            uint32_t here = gsc__float_bits(f->widen((uint16_t)half));
            uint32_t next = gsc__float_bits(f->widen((uint16_t)(half + 1u)));
            uint32_t middle = here + (next - here) / 2;
            for (uint32_t near = 0; near < 5; near++) {
                check_narrow(f, here + near - 2);
                check_narrow(f, middle + near - 2);
            }
            assert_int_equal(f->narrow(f->widen((uint16_t)half)),
                             isnan(f->widen((uint16_t)half)) ? narrowed_nan(f, here) : half);
        }
}

static void test_random_patterns(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)(next_random(&seed) >> 32);
        check_narrow(&formats[0], bits);
        check_narrow(&formats[1], bits);
        check_narrow(&formats[1], (bits & 0x87ffffffu) | 0x38000000u); /* mostly in float16's range */
    }
}

static void test_ties(void **state)
{
    (void)state;
    assert_int_equal(gsc__f32_to_f16(65504.0f), 0x7bff);
    assert_int_equal(gsc__f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(gsc__f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(gsc__f32_to_f16(0x1p-25f), 0); /* half of the least subnormal: to even */
    assert_int_equal(gsc__f32_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(gsc__f32_to_f16(-0x1.8p-24f), 0x8002);      /* 1.5 of it: to even */
    assert_int_equal(gsc__f32_to_f16(0x1.ff8p-15f), 0x03ff);     /* the greatest subnormal */
    assert_int_equal(gsc__f32_to_f16(0x1.ffcp-15f), 0x0400);     /* halfway to the least normal */
    assert_int_equal(gsc__f32_to_bf16(0x1.01p0f), 0x3f80);       /* halfway: to even, down */
    assert_int_equal(gsc__f32_to_bf16(0x1.03p0f), 0x3f82);       /* halfway: to even, up */
    assert_int_equal(gsc__f32_to_bf16(0x1.fffffep127f), 0x7f80); /* FLT_MAX */
    assert_int_equal(gsc__f32_to_bf16(0x1p-149f), 0);
    assert_int_equal(gsc__f32_to_bf16(0x1p-133f), 1);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("f16c"))) static float hardware_widen(uint16_t half) { return _cvtsh_ss(half); }
__attribute__((target("f16c"))) static uint16_t hardware_narrow(float value)
{
    return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}

static void test_same_bits_as_hardware(void **state)
{
    (void)state;
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & bit_F16C) == 0)
        SKIP_BECAUSE("this processor does not convert float16 (F16C)");
    for (uint32_t half = 0; half < 0x10000u; half++)
        assert_int_equal(gsc__float_bits(gsc__f16_to_f32((uint16_t)half)),
                         gsc__float_bits(hardware_widen((uint16_t)half)));
    for (uint64_t bits = 0; bits < 0x100000000u; bits += 1021) /* NaN payloads too */
        assert_int_equal(gsc__f32_to_f16(gsc__bits_float((uint32_t)bits)),
                         hardware_narrow(gsc__bits_float((uint32_t)bits)));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_widens_exactly),
        cmocka_unit_test(test_rounding_around_every_half),
        cmocka_unit_test(test_random_patterns),
        cmocka_unit_test(test_ties),
#if defined(__x86_64__)
        cmocka_unit_test(test_same_bits_as_hardware),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
