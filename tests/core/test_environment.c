/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 16: a caller that flushes subnormals, rounds upward or traps gets the same results, and its environment is
 * restored. Callbacks run in the caller's environment. */
#define _GNU_SOURCE
#include <fenv.h>
#include <float.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "rig.h"

static uint64_t read_control(void)
{
#if defined(__x86_64__)
    return _mm_getcsr() & 0xffc0u; /* all but the sticky exception flags */
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
#else
    return (uint64_t)fegetround();
#endif
}

static void flush_subnormals(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040u); /* FTZ and DAZ */
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)1 << 24));
#endif
}

static void round_upward(void) { fesetround(FE_UPWARD); }
static void round_to_zero(void) { fesetround(FE_TOWARDZERO); }

static void trap_everything(void)
{
#if defined(__GLIBC__)
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
#endif
}

static void (*const environments[])(void) = {flush_subnormals, round_upward, round_to_zero, trap_everything};

enum { N = 40000 }; /* large enough for the pool's threads */

/* One training iteration with values at every edge: subnormals, ties, overflows. */
typedef struct iteration {
    float grads[N], loss[3];
    double wide[8], norm, max_abs, scale[3];
    uint16_t half[8];
    uint64_t controls[5]; /* seen by the callbacks: grad_count, grad, step, observer, after the last call */
    gsc_scaler *scaler;
    fake_optimizer optimizer;
} iteration;

static iteration *current;

static size_t seeing_grad_count(void *self)
{
    current->controls[0] = read_control();
    return fake_grad_count(self);
}

static DLTensor *seeing_grad(void *self, size_t index)
{
    current->controls[1] = read_control();
    return fake_grad(self, index);
}

static gsc_status seeing_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)self, (void)args, (void)value, (void)has_value;
    current->controls[2] = read_control();
    return GSC_OK;
}

static void seeing_observer(void *ctx, const gsc_event *event)
{
    (void)ctx, (void)event;
    current->controls[3] = read_control();
}

static void prepare(iteration *it)
{
    memset(it, 0, sizeof *it);
    gsc_scaler_options options = options_of(3, 1);
    options.growth_factor = 1.1;
    options.backoff_factor = 0.7;
    options.observer = seeing_observer;
    it->scaler = new_scaler(&options);
    for (int i = 0; i < N; i++)
        it->grads[i] = bits_to_float((uint32_t)i * 53569u & 0x3fffffffu); /* subnormals and numbers below 2 */
    for (int i = 0; i < 8; i++) {
        it->wide[i] = ldexp(1 + 0.1 * i, -1030);
        it->half[i] = (uint16_t)(i * 37 + 1); /* bfloat16 subnormals and more */
    }
    it->loss[0] = FLT_MIN / 8;
    it->loss[1] = 0.1f;
    it->loss[2] = FLT_MAX;
    fake_init(&it->optimizer);
    fake_add(&it->optimizer, GSC_FLOAT32, NULL, it->grads, N, "f32");
    fake_add(&it->optimizer, GSC_FLOAT64, NULL, it->wide, 8, "f64");
    fake_add(&it->optimizer, GSC_BFLOAT16, NULL, it->half, 8, "bf16");
    it->optimizer.base.grad_count = seeing_grad_count;
    it->optimizer.base.grad = seeing_grad;
    it->optimizer.base.step = seeing_step;
    current = it;
}

/* Does no arithmetic itself, since the caller's environment may trap. Returns whether all calls did what they should.
 */
static bool run(iteration *it)
{
    const gsc_optimizer *optimizer = &it->optimizer.base;
    int64_t three = 3;
    DLTensor loss = tensor_of(GSC_FLOAT32, it->loss, &three);
    gsc_step_result result;
    bool fine = gsc_scaler_scale(it->scaler, &loss, &loss) == GSC_OK;
    fine &= gsc_scaler_clip_grad_norm(it->scaler, optimizer, 0.01, 2, &it->norm) == GSC_OK;
    fine &= gsc_scaler_step(it->scaler, optimizer, NULL, &result) == GSC_OK;
    it->max_abs = result.max_abs;
    fine &= gsc_scaler_update(it->scaler) == GSC_OK; /* growth: 3 x 1.1 */
    it->scale[0] = gsc_scaler_get_scale(it->scaler);
    it->grads[5] = INFINITY;
    fine &= gsc_scaler_unscale(it->scaler, optimizer) == GSC_OK;
    fine &= gsc_scaler_update(it->scaler) == GSC_OK; /* backoff: x 0.7 */
    it->scale[1] = gsc_scaler_get_scale(it->scaler);
    fine &= gsc_scaler_update_to(it->scaler, 0.1) == GSC_OK;
    it->scale[2] = gsc_scaler_get_scale(it->scaler);
    it->controls[4] = read_control();
    return fine;
}

/* rule 16.1, 16.2, 16.3, case 13 */
static void test_results_are_the_same_and_it_is_restored(void **state)
{
    (void)state;
    static iteration usual, unusual;
    prepare(&usual);
    assert_true(run(&usual));
    for (size_t i = 0; i < sizeof environments / sizeof *environments; i++) {
        prepare(&unusual);
        fenv_t before;
        fegetenv(&before);
        environments[i]();
        uint64_t control = read_control();
        bool fine = run(&unusual);
        fesetenv(&before);
        assert_true(fine);
        assert_memory_equal(unusual.grads, usual.grads, sizeof usual.grads);
        assert_memory_equal(unusual.wide, usual.wide, sizeof usual.wide);
        assert_memory_equal(unusual.half, usual.half, sizeof usual.half);
        assert_memory_equal(unusual.loss, usual.loss, sizeof usual.loss);
        assert_memory_equal(&unusual.norm, &usual.norm, sizeof usual.norm);
        assert_memory_equal(&unusual.max_abs, &usual.max_abs, sizeof usual.max_abs);
        assert_memory_equal(unusual.scale, usual.scale, sizeof usual.scale);
        for (size_t j = 0; j < 5; j++)
            assert_int_equal(unusual.controls[j], control); /* callbacks see the caller's, and it is restored */
        gsc_scaler_destroy(unusual.scaler);
    }
    assert_exact(usual.scale[0], (double)(float)((double)3.0f * 1.1));
    assert_exact((double)usual.loss[0], (double)(3 * (FLT_MIN / 8)));
    gsc_scaler_destroy(usual.scaler);
}

static gsc_status keep_multiplier(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                                  bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    ((fake_optimizer *)self)->last_scaling = *scaling; /* no arithmetic: the environment may trap */
    return GSC_OK;
}

/* The multiplier of a scale-aware step is 1/scale rounded to nearest, with and without clipping on top. */
static void test_multipliers_are_the_same(void **state)
{
    (void)state;
    const double third = 1.0 / 3.0, norm = (double)(3.0f * (float)third);
    for (size_t i = 0; i < sizeof environments / sizeof *environments; i++)
        for (int clips = 0; clips < 2; clips++) {
            gsc_scaler_options options = options_of(3, 1000);
            gsc_scaler *scaler = new_scaler(&options);
            float grad = 3;
            fake_optimizer optimizer;
            fake_init(&optimizer);
            fake_add(&optimizer, GSC_FLOAT32, NULL, &grad, 1, "w");
            optimizer.base.step_scaled = keep_multiplier;
            const gsc_step_args args = {.clip_norm = clips ? 0.1 : 0};
            fenv_t before;
            fegetenv(&before);
            environments[i]();
            int raised = fetestexcept(FE_ALL_EXCEPT);
            gsc_status status = gsc_scaler_step(scaler, &optimizer.base, &args, NULL);
            gsc_status second = gsc_scaler_update(scaler);
            gsc_status third_status = gsc_scaler_step(scaler, &optimizer.base, NULL, NULL);
            int raised_after = fetestexcept(FE_ALL_EXCEPT);
            fesetenv(&before);
            assert_ok(status);
            assert_ok(second);
            assert_ok(third_status);
            assert_int_equal(raised_after, raised); /* exceptions that the library raises do not reach the caller */
            assert_exact(optimizer.last_scaling.multiplier, third);
            gsc_scaler_rearm(scaler, &optimizer.base);
            assert_ok(gsc_scaler_step(scaler, &optimizer.base, &args, NULL));
            double expected = clips ? third * (0.1 / (norm + 1e-6)) : third;
            assert_exact(optimizer.last_scaling.multiplier, expected);
            gsc_scaler_destroy(scaler);
        }
}

/* Numbers are rounded to nearest in create, setters and load, whatever the caller's rounding. */
/* rule 16.1 */
static void test_options_and_states(void **state)
{
    (void)state;
    fenv_t before;
    fegetenv(&before);
    gsc_scaler_options options = options_of(0.1, 1);
    gsc_scaler *scaler = NULL;
    gsc_scaler_state loaded = {.scale = 0.3, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 1};
    round_upward();
    gsc_status created = gsc_scaler_create(&options, &scaler);
    fesetenv(&before);
    assert_ok(created);
    assert_exact(gsc_scaler_get_scale(scaler), (double)0.1f);
    round_to_zero();
    gsc_status status = gsc_scaler_load_state_dict(scaler, &loaded);
    int rounding = fegetround();
    fesetenv(&before);
    assert_ok(status);
    assert_int_equal(rounding, FE_TOWARDZERO);
    assert_exact(gsc_scaler_get_scale(scaler), (double)0.3f);
    gsc_scaler_destroy(scaler);
}

static gsc_status step_that_changes_rounding(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)self, (void)args, (void)value, (void)has_value;
    fesetround(FE_DOWNWARD);
    return GSC_OK;
}

/* If a callback changes the environment, the change stays, as if the caller had called it. */
/* rule 16.2 */
static void test_a_callback_may_change_it(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 3);
    r.optimizer.base.step = step_that_changes_rounding;
    r.grad = 5;
    gsc_status status = gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL);
    int rounding = fegetround();
    fesetround(FE_TONEAREST);
    assert_ok(status);
    assert_int_equal(rounding, FE_DOWNWARD);
    assert_exact((double)r.grad, (double)1.66666675f);
    rig_stop(&r);
}

/* Numbers are checked in the library's environment: a NaN argument does not trap. */
static void test_numbers_that_are_refused(void **state)
{
    (void)state;
    float value = 1;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &value, NULL), *grads[] = {&tensor};
    bool found;
    double norm;
    for (size_t i = 0; i < sizeof environments / sizeof *environments; i++) {
        rig r;
        rig_start(&r, 8);
        fenv_t before;
        fegetenv(&before);
        environments[i]();
        gsc_status statuses[] = {
            gsc_unscale_grads(grads, 1, (double)NAN, &found),
            gsc_grad_norm(grads, 1, (double)NAN, &norm),
            gsc_clip_grad_norm(grads, 1, (double)NAN, 2, &norm),
            gsc_clip_grad_norm(grads, 1, 1, (double)NAN, &norm),
            gsc_clip_grad_value(grads, 1, (double)NAN),
            gsc_scaler_update_to(r.scaler, (double)NAN),
            gsc_scaler_set_growth_factor(r.scaler, (double)NAN),
            gsc_scaler_set_backoff_factor(r.scaler, (double)NAN),
            gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, (double)NAN, 2, NULL),
            gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = (double)NAN}, NULL),
        };
        uint64_t after = read_control();
        fesetenv(&before);
        environments[i]();
        uint64_t expected = read_control();
        fesetenv(&before);
        for (size_t j = 0; j < sizeof statuses / sizeof *statuses; j++)
            assert_status(statuses[j], GSC_ERR_VALUE);
        assert_true(after == expected);
        rig_stop(&r);
    }
}

static int only_rank(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)values, (void)stream; /* alone, the values are the result */
    return 0;
}

/* After a callback, the library continues in its own environment. */
typedef struct interrupted {
    gsc_status clipped, overflowed;
    double norm, multiplier;
    size_t overflows;
    gsc_overflow overflow;
} interrupted;

static void interrupt(interrupted *out, void (*environment)(void))
{
    gsc_comm comm = {.allreduce_max = only_rank, .allreduce_sum = only_rank};
    gsc_scaler_options options = options_of(0.1, 1000);
    options.comm = &comm;
    options.observer = seeing_observer;
    static iteration seen;
    current = &seen;
    rig r;
    rig_start_with(&r, &options);
    float large[2] = {1, FLT_MAX * 0.1001f}; /* divided by 0.1 it is infinite, unless rounded to zero */
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, NULL, 1, "absent")->absent = true;
    r.optimizer.base.step_scaled = keep_multiplier;
    const gsc_step_args args = {.clip_norm = 0.01, .clip_norm_type = 3};
    r.grad = 0.7f;
    gsc_step_result result;
    fenv_t before;
    fegetenv(&before);
    environment();
    out->clipped = gsc_scaler_step(r.scaler, &r.optimizer.base, &args, &result);
    fesetenv(&before);
    out->norm = result.grad_norm;
    out->multiplier = r.optimizer.last_scaling.multiplier;
    assert_ok(gsc_scaler_update(r.scaler));

    fake_add(&r.optimizer, GSC_FLOAT32, NULL, large, 2, "large");
    environment();
    out->overflowed = gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL);
    fesetenv(&before);
    out->overflows = gsc_scaler_overflows(r.scaler, &r.optimizer.base, &out->overflow, 1);
    rig_stop(&r);
}

static void keep_environment(void) {}

/* rule 16.1, 16.2 */
static void test_arithmetic_after_callbacks(void **state)
{
    (void)state;
    interrupted expected, actual;
    interrupt(&expected, keep_environment);
    assert_int_equal(expected.clipped, GSC_OK);
    assert_int_equal(expected.overflowed, GSC_OK);
    assert_int_equal(expected.overflows, 1);
    assert_int_equal(expected.overflow.first_index, 1);
    for (size_t i = 0; i < sizeof environments / sizeof *environments; i++) {
        interrupt(&actual, environments[i]);
        assert_int_equal(actual.clipped, GSC_OK);
        assert_int_equal(actual.overflowed, GSC_OK);
        assert_exact(actual.norm, expected.norm);
        assert_exact(actual.multiplier, expected.multiplier);
        assert_int_equal(actual.overflows, 1);
        assert_int_equal(actual.overflow.inf_count, 1);
        assert_int_equal(actual.overflow.first_index, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_are_the_same_and_it_is_restored),
        cmocka_unit_test(test_multipliers_are_the_same),
        cmocka_unit_test(test_options_and_states),
        cmocka_unit_test(test_a_callback_may_change_it),
        cmocka_unit_test(test_numbers_that_are_refused),
        cmocka_unit_test(test_arithmetic_after_callbacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
