/* SPDX-License-Identifier: Apache-2.0 */
/* In every floating-point environment the same bits are written and read, nothing traps, and the environment stays as
 * it was. */
#define _GNU_SOURCE /* feenableexcept */
#define _XOPEN_SOURCE 700
#include "checkpoint_rig.h"

#include <fenv.h>

#include "gradscaler/state_json.h"
#include "safetensors_files.h"

static const rule_case adam = {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};

static void round_upward(void) { fesetround(FE_UPWARD); }
static void round_downward(void) { fesetround(FE_DOWNWARD); }
static void round_to_zero(void) { fesetround(FE_TOWARDZERO); }

#if defined(__x86_64__)
#include <xmmintrin.h>

static unsigned short x87_control(void)
{
    unsigned short control;
    __asm__ volatile("fnstcw %0" : "=m"(control));
    return control;
}

static void set_x87_control(unsigned short control) { __asm__ volatile("fldcw %0" : : "m"(control)); }

static void flush_subnormals(void) { _mm_setcsr(_mm_getcsr() | 0x8040u); }      /* FTZ and DAZ */
static void round_upward_in_mxcsr(void) { _mm_setcsr(_mm_getcsr() | 0x4000u); } /* rounding of SSE alone */
static void round_upward_in_x87(void) { set_x87_control(0x0b7f); }              /* printf and strtod depend on it */
static void single_precision_in_x87(void) { set_x87_control(0x007f); }
static unsigned long control_bits(void) { return (_mm_getcsr() & 0xffc0ul) << 16 | x87_control(); }
#else
static unsigned long control_bits(void) { return (unsigned long)fegetround(); }
#endif

#if defined(__GLIBC__) && defined(__x86_64__)
static void trap(void) { feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT); }
#endif

static void (*const environments[])(void) = {
    round_upward,
    round_downward,
    round_to_zero,
#if defined(__x86_64__)
    flush_subnormals,
    round_upward_in_mxcsr,
    round_upward_in_x87,
    single_precision_in_x87,
#endif
#if defined(__GLIBC__) && defined(__x86_64__)
    trap,
#endif
};

enum { ENVIRONMENTS = sizeof environments / sizeof environments[0] };

/* Runs `statement` in an environment and checks that it is unchanged afterwards. */
#define IN_ENVIRONMENT(index, statement)                                                                               \
    do {                                                                                                               \
        fenv_t own_;                                                                                                   \
        fegetenv(&own_);                                                                                               \
        environments[index]();                                                                                         \
        const unsigned long before_ = control_bits();                                                                  \
        statement;                                                                                                     \
        const unsigned long after_ = control_bits();                                                                   \
        fesetenv(&own_);                                                                                               \
        assert_int_equal(after_, before_);                                                                             \
    } while (0)

/* Decimals that no double equals, subnormals, the largest and the smallest number. */
static const gsc_scaler_state awkward = {.scale = 0.1,
                                         .growth_factor = 1.0 / 3.0,
                                         .backoff_factor = 2.2250738585072011e-308,
                                         .growth_interval = INT64_MAX,
                                         .growth_tracker = 9007199254740993,
                                         .min_scale = 5e-324,
                                         .max_scale = 1.7976931348623157e308,
                                         .hysteresis = 7,
                                         .hysteresis_tracker = 3};

static void states_are_written_and_read_the_same(void **state)
{
    (void)state;
    char *expected = gsc_scaler_state_to_json(&awkward);
    assert_non_null(expected);
    for (size_t i = 0; i < ENVIRONMENTS; i++) {
        char *text = NULL;
        gsc_scaler_state read = {0};
        gsc_status status = GSC_ERR_STATE;
        IN_ENVIRONMENT(i, text = gsc_scaler_state_to_json(&awkward));
        assert_string_equal(text, expected);
        IN_ENVIRONMENT(i, status = gsc_scaler_state_from_json(expected, &read));
        assert_ok(status);
        assert_memory_equal(&read, &awkward, sizeof read);
        IN_ENVIRONMENT(i, status = gsc_scaler_state_from_json("{\"scale\": 0.1", &read));
        assert_status(status, GSC_ERR_VALUE);
        gsc_free(text);
    }
    gsc_free(expected);
}

/* A header may have unknown entries, so also numbers that are not integers. */
static void tensors_are_written_and_read_the_same(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    const char *header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"more\":[0.1,1e-320,1e300]}}";
    for (size_t i = 0; i < ENVIRONMENTS; i++) {
        gsc_status status = GSC_ERR_STATE;
        gsc_safetensors *file = NULL;
        const char *path = temp_path(dir, "all.safetensors");
        IN_ENVIRONMENT(i, status = write_recorded(path));
        assert_ok(status);
        assert_files_equal(path, RECORDED("all.safetensors"));
        IN_ENVIRONMENT(i, status = gsc_safetensors_open(path, &file));
        assert_ok(status);
        assert_recorded(file);
        gsc_safetensors_close(file);
        path = write_raw(dir, header, SIZE_MAX, 2);
        IN_ENVIRONMENT(i, status = gsc_safetensors_open(path, &file));
        assert_ok(status);
        gsc_safetensors_close(file);
    }
    temp_dir_remove(dir);
}

static const char run[] = "{\"a\": 0.10000000000000001, \"b\": [4.9406564584124654e-324, 1.7976931348623157e308]}";

static void checkpoints_are_written_and_read_the_same(void **state)
{
    (void)state;
    char *expected_dir = temp_dir_create(), *dir = temp_dir_create();
    run_rig saved, into;
    rig_create(&saved, &adam, 1);
    rig_create(&into, &adam, 2);
    rig_step(&saved, 0, false);
    saved.checkpoint.run = run;
    assert_ok(gsc_checkpoint_save(expected_dir, &saved.checkpoint));
    for (size_t i = 0; i < ENVIRONMENTS; i++) {
        gsc_status status = GSC_ERR_STATE;
        char *read = NULL;
        IN_ENVIRONMENT(i, status = gsc_checkpoint_save(dir, &saved.checkpoint));
        assert_ok(status);
        for (size_t k = 0; k < FILES; k++)
            assert_files_equal(temp_path(dir, file_names[k]), temp_path(expected_dir, file_names[k]));
        IN_ENVIRONMENT(i, status = gsc_checkpoint_load(dir, &into.checkpoint, &read));
        assert_ok(status);
        assert_true(rigs_equal(&saved, &into));
        assert_string_equal(read, run);
        gsc_free(read);
        IN_ENVIRONMENT(i, status = gsc_checkpoint_read_run(dir, &read));
        assert_ok(status);
        assert_string_equal(read, run);
        gsc_free(read);
    }
    rig_free(&saved);
    rig_free(&into);
    temp_tree_remove(expected_dir);
    temp_tree_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_written_and_read_the_same),
        cmocka_unit_test(tensors_are_written_and_read_the_same),
        cmocka_unit_test(checkpoints_are_written_and_read_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
