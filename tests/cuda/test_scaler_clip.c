/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping on the device: the norms have the CPU's bits, and nothing waits but for total_norm. */
#include "scaler_rig.h"

enum { ELEMENTS = 5000 };
static double values[ELEMENTS];

/* A power of two apart, so that the order of additions shows. */
static void draw_values(void)
{
    uint64_t random = 12345;
    for (int i = 0; i < ELEMENTS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        values[i] = ldexp((double)(int64_t)(random >> 12), -48 + (int)(random % 7)) - 8;
    }
}

/* The same on the CPU. Returns the total norm; *first becomes the first gradient's first element afterwards. */
static double clip_on_cpu(double max_norm, double p, double *first)
{
    static float one[ELEMENTS];
    static double other[100];
    int64_t sizes[] = {ELEMENTS, 100};
    DLTensor tensors[] = {{.data = one, .device = {kDLCPU, 0}, .ndim = 1, .dtype = GSC_FLOAT32, .shape = &sizes[0]},
                          {.data = other, .device = {kDLCPU, 0}, .ndim = 1, .dtype = GSC_FLOAT64, .shape = &sizes[1]}};
    DLTensor *list[] = {&tensors[0], &tensors[1]};
    double norm;
    draw_values();
    for (int i = 0; i < ELEMENTS; i++)
        one[i] = (float)values[i];
    memcpy(other, values, sizeof other);
    assert_ok(gsc_unscale_grads(list, 2, 8, NULL));
    assert_ok(gsc_clip_grad_norm(list, 2, max_norm, p, &norm));
    *first = (double)one[0];
    return norm;
}

static void start(rig *r)
{
    draw_values();
    rig_start(r, NULL);
    add_grad(&r->optimizer, 0, GSC_FLOAT32, ELEMENTS, "a");
    add_grad(&r->optimizer, 0, GSC_FLOAT64, 100, "b");
    set_grad(&r->optimizer, 0, values);
    set_grad(&r->optimizer, 1, values);
}

/* rule 17.8 */
static void norms_are_the_cpus(void **state)
{
    (void)state;
    static const double types[] = {1, 2, INFINITY, 3, 0.5};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const bool exact = i < 3;
        rig r;
        double expected_first, norm, expected = clip_on_cpu(0.5, types[i], &expected_first);
        start(&r);
        assert_waits(1, gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 0.5, types[i], &norm));
        assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_UNSCALED);
        const double first = grad_at(&r.optimizer, 0, 0);
        if (exact) {
            assert_exact(norm, expected);
            assert_exact(first, expected_first);
        }
        assert_true(fabs(norm - expected) <= 1e-12 * expected && fabs(first - expected_first) <= 1e-6 * fabs(first));
        rig_stop(&r);
    }
}

static void a_clip_without_its_norm_waits_for_nothing(void **state)
{
    (void)state;
    rig r;
    double first;
    (void)clip_on_cpu(0.5, 2, &first);
    start(&r);
    assert_waits(0, gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 0.5, 2, NULL));
    assert_exact(grad_at(&r.optimizer, 0, 0), first);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, -1, 2, NULL), "max_norm");
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_fails(GSC_ERR_STATE, gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, 2, NULL), "already stepped");
    rig_stop(&r);
}

static void a_plain_step_clips_in_place(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    double first, norm = clip_on_cpu(0.5, 2, &first);
    start(&r);
    assert_waits(1, gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 0.5}, &result));
    assert_exact(result.grad_norm, norm);
    assert_exact(grad_at(&r.optimizer, 0, 0), first);
    assert_ok(gsc_scaler_update(r.scaler));
    set_grad(&r.optimizer, 0, values);
    set_grad(&r.optimizer, 1, values);
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_waits(1, gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 0.5}, &result));
    assert_exact(result.grad_norm, norm);
    assert_exact(grad_at(&r.optimizer, 0, 0), first);
    rig_stop(&r);
}

static void a_scale_aware_step_gets_the_coefficient(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    double unused, norm = clip_on_cpu(0.5, 2, &unused);
    start(&r);
    r.optimizer.base.step_scaled = optimizer_step_scaled;
    for (int unscaled = 0; unscaled < 2; unscaled++) {
        set_grad(&r.optimizer, 0, values);
        set_grad(&r.optimizer, 1, values);
        if (unscaled)
            assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_waits(0, gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 0.5}, &result));
        assert_int_equal(result.outcome, GSC_PENDING);
        const double coefficient = 0.5 / (norm + 1e-6), multiplier = unscaled ? coefficient : coefficient / 8;
        assert_exact((double)device_float(r.optimizer.last_scaling.multiplier_dev), (double)(float)multiplier);
        assert_exact(grad_at(&r.optimizer, 0, 0), (double)((float)values[0] / (unscaled ? 8.0f : 1.0f)));
        assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
        assert_exact(result.grad_norm, norm);
        assert_ok(gsc_scaler_update(r.scaler));
        assert_ok(gsc_scaler_update_to(r.scaler, 8));
    }
    /* A step that failed leaves no coefficient for the next one. */
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    r.optimizer.failing = true;
    assert_fails(GSC_ERR_OPTIMIZER,
                 gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 0.01}, &result), "fail");
    r.optimizer.failing = false;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_exact((double)device_float(r.optimizer.last_scaling.multiplier_dev), 1);
    rig_stop(&r);
}

static void an_overflow_leaves_a_norm_that_is_not_finite(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    start(&r);
    r.optimizer.base.step_scaled = optimizer_step_scaled;
    values[7] = (double)INFINITY;
    set_grad(&r.optimizer, 0, values);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 0.5}, NULL));
    assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_exact(result.grad_norm, (double)INFINITY);
    rig_stop(&r);
}

/* The caller's word for an overflow says nothing of the gradients: they are clipped as on the CPU, but not by a step.
 */
static void gradients_of_a_recorded_overflow_are_clipped(void **state)
{
    (void)state;
    for (int where = 0; where > -3; where--) {
        rig r;
        gsc_step_result result;
        double norm;
        rig_start(&r, NULL);
        add_grad(&r.optimizer, where == ON_CPU ? ON_CPU : 0, GSC_FLOAT32, 1, "a");
        add_grad(&r.optimizer, where == 0 ? 0 : ON_CPU, GSC_FLOAT32, 1, "b");
        fill_grad(&r.optimizer, 0, 3);
        fill_grad(&r.optimizer, 1, 4);
        assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, true));
        assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, 2, &norm));
        assert_exact(norm, 5);
        const float coefficient = (float)(1 / (5 + 1e-6));
        assert_exact(grad_at(&r.optimizer, 0, 0), (double)(3.0f * coefficient));
        assert_exact(grad_at(&r.optimizer, 1, 0), (double)(4.0f * coefficient));
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 0.5}, &result));
        assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
        assert_exact(grad_at(&r.optimizer, 0, 0), (double)(3.0f * coefficient));
        assert_exact(grad_at(&r.optimizer, 1, 0), (double)(4.0f * coefficient));
        rig_stop(&r);
    }
}

/* The gradients may be others, or have other values, than when they were unscaled. */
static void a_clip_looks_at_the_gradients_again(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    rig_start(&r, NULL);
    device_grad *grad = add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "a");
    set_grad(&r.optimizer, 0, (double[]){24, 32});
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    set_grad(&r.optimizer, 0, (double[]){6, 8});
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1e9, (double)INFINITY, &norm));
    assert_exact(norm, 8);
    void *before = grad->tensor.data;
    grad->tensor.data = standin_alloc(0, 2 * sizeof(float));
    set_grad(&r.optimizer, 0, (double[]){30, 40});
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 1}, &result));
    assert_exact(result.grad_norm, 50);
    assert_exact(grad_at(&r.optimizer, 0, 0), (double)(30.0f * (float)(1 / (50 + 1e-6))));
    standin_free(before);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_the_cpus),
        cmocka_unit_test(a_clip_without_its_norm_waits_for_nothing),
        cmocka_unit_test(a_plain_step_clips_in_place),
        cmocka_unit_test(a_scale_aware_step_gets_the_coefficient),
        cmocka_unit_test(an_overflow_leaves_a_norm_that_is_not_finite),
        cmocka_unit_test(gradients_of_a_recorded_overflow_are_clipped),
        cmocka_unit_test(a_clip_looks_at_the_gradients_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
