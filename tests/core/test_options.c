/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 1: options, setters and update_to are checked, enabled or not, and name the field; nothing changes. */
#include <float.h>

#include "rig.h"

/* conformance A */
static void test_defaults(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    assert_int_equal(options.device.device_type, kDLCPU);
    assert_int_equal(options.device.device_id, 0);
    assert_null(options.backend);
    assert_exact(options.init_scale, 65536);
    assert_exact(options.growth_factor, 2);
    assert_exact(options.backoff_factor, 0.5);
    assert_int_equal(options.growth_interval, 2000);
    assert_true(options.enabled);
    assert_exact(options.min_scale, (double)FLT_MIN);
    assert_exact(options.max_scale, (double)FLT_MAX);
    assert_int_equal(options.hysteresis, 1);
    assert_int_equal(options.max_consecutive_skips, 0);
    assert_false(options.allow_fp16_grads);
    assert_null(options.comm);
    assert_null(options.observer);
    assert_null(options.observer_ctx);
    assert_int_equal(options.skip_window, 0);
    assert_false(options.hysteresis_until_growth);
    assert_reserved_zero(options);
}

/* case 11 */
static void test_null_options_are_the_defaults(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    assert_exact(gsc_scaler_get_scale(scaler), 65536);
    assert_exact(gsc_scaler_get_growth_factor(scaler), 2);
    assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.5);
    assert_int_equal(gsc_scaler_get_growth_interval(scaler), 2000);
    assert_true(gsc_scaler_is_enabled(scaler));
    gsc_scaler_state saved = state_of(scaler);
    assert_exact(saved.min_scale, (double)FLT_MIN);
    assert_exact(saved.max_scale, (double)FLT_MAX);
    assert_int_equal(saved.hysteresis, 1);
    gsc_scaler_destroy(scaler);
    gsc_scaler_destroy(NULL);
}

#define OPTION(field) offsetof(gsc_scaler_options, field), #field

static void assert_option_refused(const gsc_scaler_options *options, const char *field)
{
    gsc_scaler *out = (gsc_scaler *)(uintptr_t)16;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_create(options, &out));
    assert_message(field);
    assert_ptr_equal(out, (gsc_scaler *)(uintptr_t)16); /* *out is set on success only */
}

static void check_wrong_doubles(bool enabled)
{
    static const struct {
        size_t offset;
        const char *field;
        double values[12]; /* ends with a 42 */
    } wrong[] = {
        {OPTION(init_scale), {0, -0.0, -1, -65536, (double)NAN, (double)INFINITY, -(double)INFINITY, 1e-46, 1e39, 42}},
        {OPTION(growth_factor), {1, 0, -0.0, -2, 0.5, (double)NAN, (double)INFINITY, -(double)INFINITY, 42}},
        {OPTION(backoff_factor), {0, -0.0, 1, -0.5, 2, (double)NAN, (double)INFINITY, -(double)INFINITY, 42}},
        {OPTION(min_scale), {0, -0.0, -1, (double)NAN, (double)INFINITY, -(double)INFINITY, 1e-46, 1e-38, 1e39, 42}},
        {OPTION(max_scale), {0, -0.0, -1, (double)NAN, (double)INFINITY, -(double)INFINITY, 1e-46, 3.5e38, 1e300, 42}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        for (const double *value = wrong[i].values; *value != 42; value++) {
            gsc_scaler_options options = gsc_scaler_options_default();
            options.enabled = enabled;
            memcpy((char *)&options + wrong[i].offset, value, sizeof *value);
            assert_option_refused(&options, wrong[i].field);
        }
    }
}

/* rule 1.1, case 6, conformance A */
static void test_wrong_numbers_are_refused(void **state)
{
    (void)state;
    check_wrong_doubles(true);
    check_wrong_doubles(false);
}

/* rule 1.1, case 6 */
static void test_wrong_integers_are_refused(void **state)
{
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        static const int64_t wrong[] = {0, -1, INT64_MIN};
        for (size_t i = 0; i < 3; i++) {
            gsc_scaler_options options = gsc_scaler_options_default();
            options.enabled = enabled != 0;
            options.growth_interval = wrong[i];
            assert_option_refused(&options, "growth_interval");
        }
        gsc_scaler_options options = gsc_scaler_options_default();
        options.enabled = enabled != 0;
        options.hysteresis = 0;
        assert_option_refused(&options, "hysteresis");
        options.hysteresis = -3;
        assert_option_refused(&options, "hysteresis");
        options.hysteresis = 1;
        options.max_consecutive_skips = -1;
        assert_option_refused(&options, "max_consecutive_skips");
    }
}

/* rule 1.1 */
static void test_message_has_value_and_range(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.growth_factor = 0.75;
    assert_option_refused(&options, "growth_factor");
    assert_message("0.75");
    assert_message("1");
    options = gsc_scaler_options_default();
    options.growth_interval = -77;
    assert_option_refused(&options, "-77");
}

/* rule 1.1, case 5 */
static void test_order_of_limits(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.min_scale = 131072; /* above init 65536 */
    assert_option_refused(&options, "min_scale");
    options = gsc_scaler_options_default();
    options.max_scale = 1024; /* below init */
    assert_option_refused(&options, "max_scale");
    options.min_scale = 4096; /* above max */
    options.init_scale = 2048;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_create(&options, &(gsc_scaler *){NULL}));
    options = gsc_scaler_options_default();
    options.min_scale = options.max_scale = options.init_scale = 128; /* a static scale is fine */
    gsc_scaler_destroy(new_scaler(&options));
}

/* rule 1.2, 2.1 */
static void test_limits_are_rounded_to_float_first(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(1.0000000001, 1); /* rounds to 1 */
    options.max_scale = 1;
    options.min_scale = 1.00000000001;
    gsc_scaler *scaler = new_scaler(&options);
    assert_exact(gsc_scaler_get_scale(scaler), 1);
    assert_exact(state_of(scaler).min_scale, 1);
    gsc_scaler_destroy(scaler);

    options = gsc_scaler_options_default();
    options.min_scale = (double)FLT_MIN * (1 - 1e-9);
    options.max_scale = (double)FLT_MAX * (1 + 1e-9);
    scaler = new_scaler(&options);
    assert_exact(state_of(scaler).min_scale, (double)FLT_MIN);
    assert_exact(state_of(scaler).max_scale, (double)FLT_MAX);
    gsc_scaler_destroy(scaler);

    options = options_of(0.1, 1);
    scaler = new_scaler(&options);
    assert_exact(gsc_scaler_get_scale(scaler), (double)0.1f);
    gsc_scaler_destroy(scaler);
}

/* rule 1.1, 2.2 */
static void test_extremes_are_accepted(void **state)
{
    (void)state;
    static const double scales[] = {(double)FLT_MIN, 1e-30, 0.5, 1, 3, 4294967296.0, (double)FLT_MAX};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        gsc_scaler_options options = options_of(scales[i], INT64_MAX);
        options.growth_factor = 1 + DBL_EPSILON;
        options.backoff_factor = DBL_MIN;
        options.hysteresis = INT32_MAX;
        options.max_consecutive_skips = INT64_MAX;
        gsc_scaler *scaler = new_scaler(&options);
        assert_exact(gsc_scaler_get_scale(scaler), (double)(float)scales[i]);
        assert_exact(gsc_scaler_get_growth_factor(scaler), 1 + DBL_EPSILON);
        assert_exact(gsc_scaler_get_backoff_factor(scaler), DBL_MIN);
        assert_int_equal(gsc_scaler_get_growth_interval(scaler), INT64_MAX);
        gsc_scaler_destroy(scaler);
    }
}

/* rule 1.1, 11.4, case 6 */
static void test_setters_check_and_keep(void **state)
{
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        gsc_scaler_options options = options_of(8, 4);
        options.enabled = enabled != 0;
        gsc_scaler *scaler = new_scaler(&options);
        static const double wrong[] = {1, 0.5, 0, -0.0, -2, (double)NAN, (double)INFINITY, -(double)INFINITY};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            assert_fails(GSC_ERR_VALUE, gsc_scaler_set_growth_factor(scaler, wrong[i]));
            assert_message("growth_factor");
            if (wrong[i] != 0.5) {
                assert_fails(GSC_ERR_VALUE, gsc_scaler_set_backoff_factor(scaler, wrong[i]));
                assert_message("backoff_factor");
            }
        }
        static const int64_t wrong_interval[] = {0, -1, INT64_MIN};
        for (size_t i = 0; i < 3; i++) {
            assert_fails(GSC_ERR_VALUE, gsc_scaler_set_growth_interval(scaler, wrong_interval[i]));
            assert_message("growth_interval");
        }
        assert_exact(gsc_scaler_get_growth_factor(scaler), 2);
        assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.5);
        assert_int_equal(gsc_scaler_get_growth_interval(scaler), 4);
        assert_ok(gsc_scaler_set_growth_factor(scaler, 1.1));
        assert_ok(gsc_scaler_set_backoff_factor(scaler, 0.9));
        assert_ok(gsc_scaler_set_growth_interval(scaler, 7));
        assert_exact(gsc_scaler_get_growth_factor(scaler), 1.1);
        assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.9);
        assert_int_equal(gsc_scaler_get_growth_interval(scaler), 7);
        gsc_scaler_destroy(scaler);
    }
}

/* rule 1.1, case 6 */
static void test_update_to_is_checked(void **state)
{
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        gsc_scaler_options options = options_of(8, 4);
        options.enabled = enabled != 0;
        options.min_scale = 2;
        options.max_scale = 64;
        gsc_scaler *scaler = new_scaler(&options);
        static const double wrong[] = {0,    -0.0, -8, 1.9999, 64.001, (double)NAN, (double)INFINITY, -(double)INFINITY,
                                       1e300};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to(scaler, wrong[i]));
            assert_message("new_scale");
            double value = wrong[i];
            DLTensor tensor = tensor_of(GSC_FLOAT64, &value, NULL);
            assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to_tensor(scaler, &tensor));
        }
        assert_exact(gsc_scaler_get_scale(scaler), enabled != 0 ? 8 : 1);
        assert_ok(gsc_scaler_update_to(scaler, 2));
        assert_ok(gsc_scaler_update_to(scaler, 64 * (1 + 1e-9))); /* rounds to 64 */
        assert_exact(gsc_scaler_get_scale(scaler), enabled != 0 ? 64 : 1);
        gsc_scaler_destroy(scaler);
    }
}

/* JAX gives its CPU devices ids. */
/* trial T31 */
static void test_every_cpu_is_served(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 7, INT32_MAX};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const DLDevice cpu = {kDLCPU, ids[i]};
        gsc_scaler_options options = options_of(8, 2);
        options.device = cpu;
        rig r;
        rig_start_with(&r, &options);
        r.optimizer.params[0].grad.device = cpu;
        assert_int_equal(rig_iterate(&r, 16), GSC_STEPPED);
        assert_exact((double)r.grad, 2);
        DLTensor view;
        assert_ok(gsc_scaler_scale_view(r.scaler, cpu, &view));
        assert_int_equal(view.device.device_type, kDLCPU);
        assert_int_equal(view.device.device_id, ids[i]);
        assert_ok(gsc_scaler_set_stream(r.scaler, cpu, NULL));
        rig_stop(&r);
    }
}

/* rule 1.1, trial T14 */
static void test_a_zeroed_struct_with_a_few_fields(void **state)
{
    (void)state;
    const char *start = "start from gsc_scaler_options_default()";
    const gsc_scaler_options zeroed[] = {
        {.init_scale = 1024},
        {.enabled = true},
        {.init_scale = 65536, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2000, .enabled = true},
        {.init_scale = 1, .min_scale = 1, .max_scale = 1, .growth_factor = 2, .backoff_factor = 0.5},
        {.init_scale = 1, .min_scale = 1, .max_scale = 1, .growth_factor = 2, .growth_interval = 1},
    };
    for (size_t i = 0; i < sizeof zeroed / sizeof *zeroed; i++)
        assert_option_refused(&zeroed[i], start);
    assert_option_refused(&zeroed[0], "min_scale is 0, allowed are");
    gsc_scaler_options options = gsc_scaler_options_default(); /* one field alone was meant */
    options.growth_interval = 0;
    assert_option_refused(&options, "growth_interval is 0");
    assert_null(strstr(gsc_last_error(), start));
}

/* rule 1.3, 17.1, case 47, conformance M */
static void test_unserved_device_is_refused_never_disabled(void **state)
{
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        gsc_scaler_options options = gsc_scaler_options_default();
        options.enabled = enabled != 0;
        options.device = (DLDevice){kDLCUDA, 0};
        gsc_scaler *out = NULL;
        assert_fails(GSC_ERR_DEVICE, gsc_scaler_create(&options, &out), "device is CUDA device 0;", "the CPU");
        assert_null(out);
        options.device = (DLDevice){kDLROCM, 1};
        assert_fails(GSC_ERR_DEVICE, gsc_scaler_create(&options, &out), "device is ROCm device 1;");
    }
    gsc_scaler *scaler = new_scaler(NULL);
    DLTensor view;
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_scale_view(scaler, (DLDevice){kDLCUDA, 0}, &view));
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_set_stream(scaler, (DLDevice){kDLCUDA, 0}, NULL));
    assert_ok(gsc_scaler_set_stream(scaler, (DLDevice){kDLCPU, 0}, NULL));
    gsc_scaler_destroy(scaler);
}

static int never_called(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)values, (void)stream;
    return 1;
}

/* rule 1.5 */
static void test_reserved_and_comm(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    for (size_t i = 0; i < RESERVED_WORDS(options); i++) {
        options.reserved[i] = 1;
        assert_option_refused(&options, "reserved");
        options.reserved[i] = 0;
    }
    gsc_comm comm = {.allreduce_max = never_called};
    options.comm = &comm;
    for (size_t i = 0; i < RESERVED_WORDS(comm); i++) {
        comm.reserved[i] = UINT64_MAX;
        assert_option_refused(&options, "reserved");
        comm.reserved[i] = 0;
    }
    comm.allreduce_max = NULL;
    assert_option_refused(&options, "allreduce_max");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_null_options_are_the_defaults),
        cmocka_unit_test(test_wrong_numbers_are_refused),
        cmocka_unit_test(test_wrong_integers_are_refused),
        cmocka_unit_test(test_message_has_value_and_range),
        cmocka_unit_test(test_order_of_limits),
        cmocka_unit_test(test_limits_are_rounded_to_float_first),
        cmocka_unit_test(test_extremes_are_accepted),
        cmocka_unit_test(test_setters_check_and_keep),
        cmocka_unit_test(test_update_to_is_checked),
        cmocka_unit_test(test_every_cpu_is_served),
        cmocka_unit_test(test_a_zeroed_struct_with_a_few_fields),
        cmocka_unit_test(test_unserved_device_is_refused_never_disabled),
        cmocka_unit_test(test_reserved_and_comm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
