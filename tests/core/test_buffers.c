/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.h: an optimizer made of plain arrays. */
#include "rig.h"

typedef struct sgd {
    float params[2], grads[2];
    int steps;
    gsc_status status;
} sgd;

static gsc_status sgd_step(void *ctx)
{
    sgd *s = ctx;
    s->steps++;
    if (s->status != GSC_OK)
        return s->status;
    for (int i = 0; i < 2; i++)
        s->params[i] -= s->grads[i];
    return GSC_OK;
}

static void test_five_line_adoption(void **state)
{
    (void)state;
    sgd s = {.params = {1, 1}, .grads = {65536, -131072}};
    char name[] = "weight";
    gsc_buffer buffer = {.data = s.grads, .count = 2, .dtype = GSC_FLOAT32, .name = name};
    gsc_optimizer *optimizer = NULL;
    assert_ok(gsc_optimizer_from_buffers(&buffer, 1, sgd_step, &s, &optimizer));
    memset(&buffer, 0, sizeof buffer); /* descriptors and names were copied */
    memset(name, 'x', sizeof name - 1);
    gsc_scaler *scaler = new_scaler(NULL);
    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_false(result.has_value);
    assert_exact(result.max_abs, 2);
    assert_exact((double)s.params[0], 0);
    assert_exact((double)s.params[1], 3);
    assert_ok(gsc_scaler_update(scaler));
    s.grads[1] = INFINITY;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_int_equal(s.steps, 1);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(scaler, optimizer, &overflow, 1), 1);
    assert_string_equal(overflow.name, "weight");
    assert_int_equal(overflow.first_index, 1);
    assert_ok(gsc_scaler_forget(scaler, optimizer));
    gsc_optimizer_free(optimizer);
    assert_ok(gsc_scaler_update(scaler));
    assert_exact(gsc_scaler_get_scale(scaler), 32768);
    gsc_scaler_destroy(scaler);
    gsc_optimizer_free(NULL);
}

static void test_mixed_and_missing_buffers(void **state)
{
    (void)state;
    sgd s = {.params = {1, 1}, .grads = {8, 16}};
    double f64 = 8;
    uint16_t bf16 = to_bf16(8), unused = to_bf16(8);
    const gsc_buffer buffers[] = {
        {.data = s.grads, .count = 2, .dtype = GSC_FLOAT32},
        {.data = NULL, .count = 5, .dtype = GSC_FLOAT32, .name = "no gradient"},
        {.data = &f64, .count = 1, .dtype = GSC_FLOAT64},
        {.data = &bf16, .count = 1, .dtype = GSC_BFLOAT16},
        {.data = &unused, .count = 0, .dtype = GSC_BFLOAT16},
    };
    gsc_optimizer *optimizer = NULL;
    assert_ok(gsc_optimizer_from_buffers(buffers, 5, sgd_step, &s, &optimizer));
    assert_int_equal(optimizer->grad_count(optimizer->self), 5);
    assert_null(optimizer->grad(optimizer->self, 1));
    assert_string_equal(optimizer->name(optimizer->self, 1), "no gradient");
    assert_null(optimizer->name(optimizer->self, 0));
    gsc_scaler_options options = options_of(8, 1);
    gsc_scaler *scaler = new_scaler(&options);
    assert_ok(gsc_scaler_unscale(scaler, optimizer));
    assert_exact((double)s.grads[1], 2);
    assert_exact(f64, 1);
    assert_exact(from_bf16(bf16), 1);
    assert_exact(from_bf16(unused), 8);
    gsc_scaler_destroy(scaler);
    gsc_optimizer_free(optimizer);
}

/* rule 6.5 */
static void test_failing_step(void **state)
{
    (void)state;
    sgd s = {.status = GSC_ERR_IO};
    gsc_buffer buffer = {.data = s.grads, .count = 2, .dtype = GSC_FLOAT32};
    gsc_optimizer *optimizer = NULL;
    assert_ok(gsc_optimizer_from_buffers(&buffer, 1, sgd_step, &s, &optimizer));
    gsc_scaler *scaler = new_scaler(NULL);
    gsc_fail(GSC_ERR_VALUE, "an older message");
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_null(strstr(gsc_last_error(), "an older message")); /* it belongs to another call */
    assert_message("GSC_ERR_IO");
    gsc_scaler_destroy(scaler);
    gsc_optimizer_free(optimizer);
}

static void test_without_buffers(void **state)
{
    (void)state;
    sgd s = {.params = {1, 1}};
    gsc_optimizer *optimizer = NULL;
    assert_ok(gsc_optimizer_from_buffers(NULL, 0, sgd_step, &s, &optimizer));
    gsc_scaler *scaler = new_scaler(NULL);
    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, &result));
    assert_int_equal(result.outcome, GSC_NO_GRADS);
    assert_int_equal(s.steps, 1);
    gsc_scaler_destroy(scaler);
    gsc_optimizer_free(optimizer);
}

static void test_refusals(void **state)
{
    (void)state;
    sgd s = {.steps = 0};
    gsc_optimizer *out = (gsc_optimizer *)(void *)&s;
    gsc_buffer buffers[2] = {{.data = s.grads, .count = 2, .dtype = GSC_FLOAT32},
                             {.data = s.grads, .count = 2, .dtype = GSC_FLOAT32, .name = "second"}};
    assert_fails(GSC_ERR_VALUE, gsc_optimizer_from_buffers(NULL, 1, sgd_step, &s, &out));
    assert_fails(GSC_ERR_VALUE, gsc_optimizer_from_buffers(buffers, 2, NULL, &s, &out));
    assert_fails(GSC_ERR_VALUE, gsc_optimizer_from_buffers(buffers, 2, sgd_step, &s, NULL));
    const struct {
        DLDataType dtype;
        gsc_status status;
    } wrong[] = {{{kDLInt, 32, 1}, GSC_ERR_VALUE},
                 {{kDLFloat, 32, 2}, GSC_ERR_VALUE},
                 {{kDLFloat, 8, 1}, GSC_ERR_VALUE},
                 {{kDLComplex, 64, 1}, GSC_ERR_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        buffers[1].dtype = wrong[i].dtype;
        assert_fails(wrong[i].status, gsc_optimizer_from_buffers(buffers, 2, sgd_step, &s, &out));
        assert_message("second");
    }
    assert_ptr_equal(out, &s); /* set on success only */
}

static gsc_status never_stepped(void *ctx)
{
    (void)ctx;
    return gsc_fail(GSC_ERR_VALUE, "this test only unscales");
}

/* case 81 */
static void test_many_small_tensors(void **state)
{
    (void)state;
    enum { N = 1000, SIZE = 64 };
    static float data[N][SIZE];
    static gsc_buffer buffers[N];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < SIZE; j++)
            data[i][j] = 8.0f * (float)(i + 1);
        buffers[i] = (gsc_buffer){.data = data[i], .count = SIZE, .dtype = GSC_FLOAT32};
    }
    rig r;
    rig_start(&r, 8);
    gsc_optimizer *optimizer = NULL;
    assert_ok(gsc_optimizer_from_buffers(buffers, N, never_stepped, NULL, &optimizer));
    assert_ok(gsc_scaler_unscale(r.scaler, optimizer));
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < SIZE; j++)
            assert_exact((double)data[i][j], i + 1);
    }
    assert_ok(gsc_scaler_update(r.scaler));
    data[777][63] = NAN;
    assert_ok(gsc_scaler_unscale(r.scaler, optimizer));
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(r.scaler, optimizer, &overflow, 1), 1);
    assert_int_equal(overflow.index, 777);
    assert_int_equal(overflow.first_index, 63);
    rig_stop(&r);
    gsc_optimizer_free(optimizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five_line_adoption), cmocka_unit_test(test_mixed_and_missing_buffers),
        cmocka_unit_test(test_failing_step),       cmocka_unit_test(test_without_buffers),
        cmocka_unit_test(test_refusals),           cmocka_unit_test(test_many_small_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
