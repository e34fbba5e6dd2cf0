/* SPDX-License-Identifier: Apache-2.0 */
/* What the suites of other scalers demand, where our rules agree. The numbers are those of tests/coverage.tsv. */
#include "rig.h"

/* A schedule as a row: after each letter (c clean, O overflow, - update without gradients) the scale is as given. */
typedef struct schedule {
    const char *item;
    double scale, growth, backoff;
    int64_t interval;
    double min_scale; /* 0: the default */
    int32_t hysteresis;
    const char *iterations;
    double after[14];
} schedule;

static const schedule schedules[] = {
    {"59", 4, 2, 0.25, 2, 0, 1, "ccO", {4, 8, 2}},
    {"60", 4, 2, 0.5, 3, 0, 1, "cccO", {4, 4, 8, 4}},
    {"61", 1024, 2, 0.5, 5, 0, 1, "cccccO", {1024, 1024, 1024, 1024, 2048, 1024}},
    {"63", 100, 3, 0.5, 1, 0, 1, "cc", {300, 900}},
    {"63", 100, 3, 0.5, 2, 0, 1, "cccc", {100, 300, 300, 900}},
    {"64", 8, 2, 0.5, 2, 0, 1, "Occ", {4, 4, 8}},
    {"67", 4, 2, 0.5, 2, 0, 1, "OOOO", {2, 1, 0.5, 0.25}},
    {"73", 65536, 2, 0.5, 3, 0, 1, "ccccccc", {65536, 65536, 131072, 131072, 131072, 262144, 262144}},
    {"73", 65536, 2, 0.5, 2000, 0, 1, "O", {32768}},
    {"74", 65536, 2, 0.5, 3, 0, 1, "ccccOcccc", {65536, 65536, 131072, 131072, 65536, 65536, 65536, 131072, 131072}},
    {"75", 256, 2, 0.5, 2, 0, 1, "ccccc", {256, 512, 512, 1024, 1024}},
    {"76", 400, 2, 0.5, 2000, 0, 1, "OOOO", {200, 100, 50, 25}},
    {"76", 2, 2, 0.5, 2, 0, 1, "cccccccc", {2, 4, 4, 8, 8, 16, 16, 32}},
    {"77", 10, 2, 0.5, 3, 1, 1, "ccOcccOOOOO", {10, 10, 5, 5, 5, 10, 5, 2.5, 1.25, 1, 1}},
    {"78", 2048, 2, 0.8, 1000, 0, 2, "OO", {2048, (double)(float)(2048 * 0.8)}},
    {"81", 16, 2, 0.5, 2, 1, 1, "OOOOOOOO", {8, 4, 2, 1, 1, 1, 1, 1}},
    {"81", 16, 2, 0.5, 2, 2, 1, "OOOO", {8, 4, 2, 2}},
    {"82", 256, 2, 0.5, 2, 0, 1, "OOccO", {128, 64, 64, 128, 64}},
    {"85", 1024, 2, 0.25, 10, 0, 3, "OOOOOcOOO", {1024, 1024, 256, 64, 16, 16, 16, 16, 4}},
    {"141", 8, 2, 0.5, 2, 0, 1, "c-c--c", {8, 8, 16, 16, 16, 16}},
};

/* rule 2.1, conformance E, 59, 60, 61, 63, 64, 67, 73, 74, 75, 76, 77, 78, 81, 82, 85, 141 */
static void test_schedules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        const schedule *s = &schedules[i];
        gsc_scaler_options options = options_of(s->scale, s->interval);
        options.growth_factor = s->growth;
        options.backoff_factor = s->backoff;
        options.hysteresis = s->hysteresis;
        if (s->min_scale > 0)
            options.min_scale = s->min_scale;
        rig r;
        rig_start_with(&r, &options);
        for (size_t j = 0; s->iterations[j] != '\0'; j++) {
            r.optimizer.params[0].absent = s->iterations[j] == '-';
            rig_iterate(&r, s->iterations[j] == 'O' ? NAN : 1);
            if (gsc_scaler_get_scale(r.scaler) != s->after[j])
                fail_msg("item %s, iteration %zu: %.9g", s->item, j, gsc_scaler_get_scale(r.scaler));
        }
        rig_stop(&r);
    }
}

/* The training case that PyTorch's tests share: init 128, interval 1, overflow at the third of four batches. */
typedef struct shared_case {
    bool enabled, unscale_first, fused;
    double clip_norm;
} shared_case;

static void run_shared_case(const shared_case *c)
{
    gsc_scaler_options options = options_of(128, 1);
    options.enabled = c->enabled;
    rig r, control;
    rig_start_with(&r, &options);
    rig_start_with(&control, &options);
    gsc_scaler_options plain = options;
    plain.enabled = false;
    gsc_scaler_destroy(control.scaler);
    control.scaler = new_scaler(&plain);
    r.optimizer.base.step_scaled = c->fused ? fake_step_scaled : NULL;
    r.param = control.param = 1;
    gsc_step_args args = {.clip_norm = c->clip_norm};
    for (int i = 0; i < 4; i++) {
        float g = 0.25f * (float)(i + 1);
        bool overflow = i == 2;
        r.grad = overflow && c->enabled ? INFINITY : g * (float)gsc_scaler_get_scale(r.scaler);
        if (c->unscale_first)
            assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
        assert_ok(gsc_scaler_update(r.scaler));
        control.grad = g;
        if (!overflow || !c->enabled)
            assert_ok(gsc_scaler_step(control.scaler, &control.optimizer.base, &args, NULL));
        assert_float_equal(r.param, control.param, 1e-6);
    }
    assert_exact(gsc_scaler_get_scale(r.scaler), c->enabled ? 128.0 * 2 * 2 * 0.5 * 2 : 1);
    rig_stop(&r);
    rig_stop(&control);
}

/* case 82, conformance D, H, O, 50, 102, 103, 132 */
static void test_items_50_102_103_and_132_the_shared_training_case(void **state)
{
    (void)state;
    for (int bits = 0; bits < 16; bits++) {
        const shared_case c = {.enabled = (bits & 1) != 0,
                               .unscale_first = (bits & 2) != 0,
                               .fused = (bits & 4) != 0,
                               .clip_norm = (bits & 8) != 0 ? 0.2 : 0};
        run_shared_case(&c);
    }
}

/* 2 optimizers, the second overflows at the third of four iterations; the first is unscaled beforehand. */
/* conformance G, 96 */
static void test_item_96_two_optimizers(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(128, 1);
    rig a, b;
    rig_start_with(&a, &options);
    rig_start(&b, 1);
    for (int i = 0; i < 4; i++) {
        float scaled = (float)gsc_scaler_get_scale(a.scaler);
        a.grad = scaled;
        b.grad = i == 2 ? INFINITY : scaled;
        assert_ok(gsc_scaler_unscale(a.scaler, &a.optimizer.base));
        assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
        assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
        assert_false(gsc_scaler_found_inf(a.scaler, &a.optimizer.base));
        assert_int_equal(gsc_scaler_found_inf(a.scaler, &b.optimizer.base), i == 2);
        assert_ok(gsc_scaler_update(a.scaler));
    }
    assert_int_equal(a.optimizer.steps, 4);
    assert_int_equal(b.optimizer.steps, 3);
    assert_exact(gsc_scaler_get_scale(a.scaler), 512);
    rig_stop(&a);
    rig_stop(&b);
}

/* case 40, conformance G, 98, 99, 100 */
static void test_items_98_to_100_no_flag_is_lost(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        for (int unscale_both = 0; unscale_both < 2; unscale_both++) {
            rig a, b;
            rig_start(&a, 4);
            rig_start(&b, 4);
            rig *const bad = order == 0 ? &a : &b, *const good = order == 0 ? &b : &a;
            bad->grad = INFINITY;
            good->grad = 4;
            if (unscale_both != 0) {
                assert_ok(gsc_scaler_unscale(a.scaler, &a.optimizer.base));
                assert_ok(gsc_scaler_unscale(a.scaler, &b.optimizer.base));
            }
            assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
            assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
            assert_exact((double)bad->param, 0);
            assert_exact((double)good->param, -1);
            assert_ok(gsc_scaler_update(a.scaler));
            assert_exact(gsc_scaler_get_scale(a.scaler), 2);
            assert_int_equal(state_of(a.scaler).growth_tracker, 0);
            rig_stop(&a);
            rig_stop(&b);
        }
    }
}

/* conformance C, 33 */
static void test_item_33_a_mixed_list(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    float first[3] = {2, -4, 0}, second[3] = {NAN, INFINITY, -8};
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, first, 3, "first");
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, second, 3, "second");
    r.grad = 1;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)first[0], 0.5);
    assert_exact((double)first[1], -1);
    assert_exact((double)first[2], 0);
    assert_exact((double)second[0], (double)NAN);
    assert_exact((double)second[1], (double)INFINITY);
    assert_exact((double)second[2], -2);
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    rig_stop(&r);
}

/* conformance C, 32 */
static void test_item_32_found_by_the_second_list(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 5);
    float list[4] = {1, 2, 3, 4};
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, list, 4, "list");
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    assert_exact((double)list[3], (double)(4 * 0.2f));
    assert_ok(gsc_scaler_update(r.scaler));
    list[3] = NAN;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    rig_stop(&r);
}

/* More elements than float32 counts exactly, one NaN among them; and large finite values whose sum is infinite. */
/* conformance L, 118, 119 */
static void test_items_118_and_119_neither_counted_nor_summed(void **state)
{
    (void)state;
    enum { N = (1 << 24) + 3 };
    static uint16_t data[N];
    static float large[1000];
    rig r;
    rig_start(&r, 2);
    for (size_t i = 0; i < 1000; i++)
        large[i] = 3e38f;
    fake_add(&r.optimizer, GSC_BFLOAT16, NULL, data, N, "zeros");
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, large, 1000, "large");
    assert_int_equal(rig_iterate(&r, 1), GSC_STEPPED);
    data[N - 2] = 0x7fc0;
    assert_int_equal(rig_iterate(&r, 1), GSC_SKIPPED_OVERFLOW);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &overflow, 1), 1);
    assert_int_equal(overflow.first_index, N - 2);
    assert_int_equal(overflow.nan_count, 1);
    rig_stop(&r);
}

/* conformance J, 108 */
static void test_item_108_a_gradient_penalty(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 1024);
    float scaled_grad = 3 * 1024; /* of the scaled loss, taken out of place */
    double inverse = 1 / gsc_scaler_get_scale(r.scaler);
    double penalty = (double)scaled_grad * inverse;
    float loss = (float)penalty;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &loss, NULL);
    assert_ok(gsc_scaler_scale(r.scaler, &tensor, &tensor));
    assert_exact((double)loss, 3 * 1024);
    assert_int_equal(rig_iterate(&r, loss), GSC_STEPPED);
    assert_exact((double)r.param, -3);
    rig_stop(&r);
}

/* conformance B, F, 17, 87 */
static void test_item_87_load_and_save_back(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(6, 1);
    options.growth_factor = 7;
    options.backoff_factor = 0.8;
    gsc_scaler *scaler = new_scaler(&options);
    const gsc_scaler_state in = {.scale = 3, .growth_factor = 4, .backoff_factor = 0.5, .growth_interval = 2};
    assert_ok(gsc_scaler_load_state_dict(scaler, &in));
    gsc_scaler_state out = state_of(scaler);
    assert_exact(out.scale, 3);
    assert_exact(out.growth_factor, 4);
    assert_exact(out.backoff_factor, 0.5);
    assert_int_equal(out.growth_interval, 2);
    assert_int_equal(out.growth_tracker, 0);
    float loss = 4; /* item 17 */
    DLTensor tensor = tensor_of(GSC_FLOAT32, &loss, NULL);
    assert_ok(gsc_scaler_scale(scaler, &tensor, &tensor));
    assert_exact((double)loss, 12);
    gsc_scaler_destroy(scaler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_items_50_102_103_and_132_the_shared_training_case),
        cmocka_unit_test(test_item_96_two_optimizers),
        cmocka_unit_test(test_items_98_to_100_no_flag_is_lost),
        cmocka_unit_test(test_item_33_a_mixed_list),
        cmocka_unit_test(test_item_32_found_by_the_second_list),
        cmocka_unit_test(test_items_118_and_119_neither_counted_nor_summed),
        cmocka_unit_test(test_item_108_a_gradient_penalty),
        cmocka_unit_test(test_item_87_load_and_save_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
