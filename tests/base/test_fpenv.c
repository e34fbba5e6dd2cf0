/* SPDX-License-Identifier: Apache-2.0 */
/* Results do not depend on the caller's floating-point environment, which is restored afterwards. */
#include <fenv.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "asserts.h"
#include "base/fpenv.h"
#include "base/half.h"
#include "gradscaler/gradients.h"
#include "gradscaler/scaler.h"
#include "layouts.h"

static volatile float tiny = 0x1p-130f, one = 1.0f, divisor = 25.0f;

static void flush_subnormals(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040u); /* FTZ, DAZ */
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | 1u << 24));
#endif
}

static int round_upward(void) { return fesetround(FE_UPWARD); }

/* Finds out by arithmetic, not by registers, what the environment is. */
static bool flushes(void)
{
    volatile float product = tiny * one; /* volatile: stays between the changes of the environment */
    return gsc__float_bits(product) == 0;
}

static bool rounds_up(void)
{
    volatile float quotient = one / divisor;
    return gsc__float_bits(quotient) == 0x3d23d70bu; /* 0x3d23d70a to nearest */
}

static void trap_everything(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() & ~0x1f80u);
#endif
}

/* rule 16.1 */
static void test_enter_and_leave(void **state)
{
    (void)state;
    fenv_t before;
    fegetenv(&before);
    flush_subnormals();
    assert_int_equal(round_upward(), 0);
    bool caller_flushes = flushes();
    gsc__fpenv caller = gsc__fpenv_enter();
    bool inside_flushes = flushes(), inside_rounds_up = rounds_up();
    gsc__fpenv_leave(caller);
    bool flushes_after = flushes(), rounds_up_after = rounds_up();
    fesetenv(&before);
    assert_false(inside_flushes);
    assert_false(inside_rounds_up);
    assert_true(flushes_after == caller_flushes);
    assert_true(rounds_up_after);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_true(caller_flushes);
#endif
}

static void test_sticky_flags_are_the_callers(void **state)
{
    (void)state;
    feclearexcept(FE_ALL_EXCEPT);
    gsc__fpenv caller = gsc__fpenv_enter();
    assert_true(gsc__fpenv_pin(0x1p1023 * gsc__fpenv_pin(4.0)) > 1.0);
    gsc__fpenv_leave(caller);
    assert_int_equal(fetestexcept(FE_OVERFLOW | FE_DIVBYZERO | FE_INVALID), 0);
}

enum { COUNT = 70000 }; /* more than one task */

typedef struct results {
    float f32[COUNT];
    double norm, max_norm;
    float scaled[4];
    uint16_t clamped[8];
} results;

static void compute(results *out)
{
    for (size_t i = 0; i < COUNT; i++)
        out->f32[i] = gsc__bits_float((uint32_t)(i * 64 + 1)); /* subnormal ones, and some normal ones */
    int64_t count = COUNT, four = 4, eight = 8;
    DLTensor f32 = tensor_over(out->f32, GSC_FLOAT32, 1, &count, NULL), *grads = &f32;
    float loss[4] = {0x1p-140f, 1.1f, 0x1.fffffep127f, 3.3f};
    DLTensor in = tensor_over(loss, GSC_FLOAT32, 1, &four, NULL);
    DLTensor scaled = tensor_over(out->scaled, GSC_FLOAT32, 1, &four, NULL);
    for (int i = 0; i < 8; i++)
        out->clamped[i] = (uint16_t)(0x3c00 + 100 * i);
    DLTensor halves = tensor_over(out->clamped, GSC_FLOAT16, 1, &eight, NULL), *half_list = &halves;
    assert_ok(gsc_unscale_grads(&grads, 1, 3.0, NULL));
    assert_ok(gsc_grad_norm(&grads, 1, 2.0, &out->norm));
    assert_ok(gsc_grad_norm(&grads, 1, (double)INFINITY, &out->max_norm));
    assert_ok(gsc_clip_grad_norm(&grads, 1, 1e-37, 2.0, NULL));
    assert_ok(gsc_clip_grad_value(&half_list, 1, 1.3));
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = (double)1.1f;
    gsc_scaler *scaler = NULL;
    assert_ok(gsc_scaler_create(&options, &scaler));
    assert_ok(gsc_scaler_scale(scaler, &in, &scaled));
    gsc_scaler_destroy(scaler);
}

static void test_results_do_not_depend_on_it(void **state)
{
    (void)state;
    static results expected, found;
    compute(&expected);
    fenv_t before;
    fegetenv(&before);
    gsc_set_num_threads(2);
    flush_subnormals();
    round_upward();
    trap_everything();
    compute(&found);
    bool still_up = fegetround() == FE_UPWARD;
#if defined(__x86_64__)
    unsigned control = _mm_getcsr() & GSC_MXCSR_CONTROL;
#endif
    fesetenv(&before);
    gsc_set_num_threads(0);
    assert_memory_equal(&expected, &found, sizeof expected);
    assert_true(still_up);
#if defined(__x86_64__)
    assert_int_equal(control, 0x8040u | 0x4000u); /* FTZ, DAZ, upwards, nothing masked */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enter_and_leave),
        cmocka_unit_test(test_sticky_flags_are_the_callers),
        cmocka_unit_test(test_results_do_not_depend_on_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
