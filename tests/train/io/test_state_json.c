/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "gradscaler/state_json.h"

#define STANDARD "\"scale\": 65536.0, \"growth_factor\": 2.0, \"backoff_factor\": 0.5, \"growth_interval\": 2000"
#define PYTORCH STANDARD ", \"_growth_tracker\": 7"

static gsc_scaler_state standard_state(void)
{
    return (gsc_scaler_state){
        .scale = 65536, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2000, .growth_tracker = 7};
}

static void assert_json(const gsc_scaler_state *state, const char *expected)
{
    char *text = gsc_scaler_state_to_json(state);
    assert_non_null(text);
    assert_string_equal(text, expected);
    gsc_free(text);
}

static void assert_states_equal(const gsc_scaler_state *a, const gsc_scaler_state *b)
{
    assert_memory_equal(a, b, sizeof *a); /* the struct has no padding */
}

static gsc_scaler_state parse(const char *text)
{
    gsc_scaler_state state;
    memset(&state, 0x55, sizeof state);
    assert_ok(gsc_scaler_state_from_json(text, &state));
    return state;
}

/* Refused with these words, *out unchanged. */
#define assert_refused(text, ...)                                                                                      \
    do {                                                                                                               \
        gsc_scaler_state refused_, before_;                                                                            \
        memset(&refused_, 0x55, sizeof refused_);                                                                      \
        before_ = refused_;                                                                                            \
        assert_fails(GSC_ERR_VALUE, gsc_scaler_state_from_json(text, &refused_), "gsc_scaler_state_from_json",         \
                     __VA_ARGS__);                                                                                     \
        assert_memory_equal(&refused_, &before_, sizeof refused_);                                                     \
    } while (0)

static void state_is_written_as_pytorch_does(void **state)
{
    (void)state;
    gsc_scaler_state written = standard_state();
    assert_json(&written, "{" PYTORCH "}");
    gsc_scaler_state read = parse("{" PYTORCH "}");
    assert_states_equal(&read, &written);
}

static void a_scaler_survives_the_way_through_json(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    gsc_scaler *from, *to;
    assert_ok(gsc_scaler_create(&options, &from));
    options.init_scale = 8.0;
    options.hysteresis = 3;
    assert_ok(gsc_scaler_create(&options, &to));
    gsc_scaler_state written;
    assert_ok(gsc_scaler_state_dict(from, &written));
    assert_json(&written, "{" STANDARD ", \"_growth_tracker\": 0}");
    gsc_scaler_state read = parse("{" PYTORCH "}");
    assert_ok(gsc_scaler_load_state_dict(to, &read));
    assert_true(gsc_scaler_get_scale(to) == 65536.0);
    assert_ok(gsc_scaler_state_dict(to, &written));
    assert_json(&written, "{" PYTORCH ", \"hysteresis\": 3}");
    gsc_scaler_destroy(from);
    gsc_scaler_destroy(to);
}

static void empty_state_is_an_empty_object(void **state)
{
    (void)state;
    const gsc_scaler_state empty = {0};
    assert_json(&empty, "{}");
    gsc_scaler_state read = parse(" { } ");
    assert_states_equal(&read, &empty);
}

static void defaults_of_extra_keys_are_not_written(void **state)
{
    (void)state;
    gsc_scaler_state written = standard_state();
    written.min_scale = FLT_MIN;
    written.max_scale = FLT_MAX;
    written.hysteresis = written.hysteresis_tracker = 1;
    assert_json(&written, "{" PYTORCH "}");
    written.hysteresis = written.hysteresis_tracker = 3;
    assert_json(&written, "{" PYTORCH ", \"hysteresis\": 3}");
    written.hysteresis_tracker = 2;
    assert_json(&written, "{" PYTORCH ", \"hysteresis\": 3, \"hysteresis_tracker\": 2}");
    written.hysteresis = 1;
    written.hysteresis_tracker = 0;
    assert_json(&written, "{" PYTORCH ", \"hysteresis\": 1, \"hysteresis_tracker\": 0}");
    written = standard_state();
    written.min_scale = 1;
    written.max_scale = 1024;
    written.consecutive_skips = 4;
    assert_json(&written, "{" PYTORCH ", \"min_scale\": 1.0, \"max_scale\": 1024.0, \"consecutive_skips\": 4}");
}

static void missing_extra_keys_mean_keep(void **state)
{
    (void)state;
    gsc_scaler_state read = parse("{" PYTORCH "}");
    assert_true(read.min_scale == 0.0 && read.max_scale == 0.0 && read.consecutive_skips == 0);
    assert_true(read.hysteresis == 0 && read.hysteresis_tracker == 0);
    read = parse("{" PYTORCH ", \"hysteresis\": 3}");
    assert_true(read.hysteresis == 3 && read.hysteresis_tracker == 3);
    read = parse("{" PYTORCH ", \"hysteresis_tracker\": 0, \"hysteresis\": 3}");
    assert_true(read.hysteresis == 3 && read.hysteresis_tracker == 0);
}

/* A tracker without its hysteresis would be lost without a message. */
static void a_hysteresis_tracker_needs_its_hysteresis(void **state)
{
    (void)state;
    assert_refused("{" PYTORCH ", \"hysteresis_tracker\": 2}", "hysteresis_tracker is 2", "hysteresis is missing",
                   "both or neither");
    assert_refused("{" PYTORCH ", \"hysteresis_tracker\": 0}", "hysteresis_tracker is 0", "hysteresis is missing");
    gsc_scaler_state written = standard_state();
    written.hysteresis_tracker = 2; /* out of range: gsc_scaler_load_state_dict refuses it, JSON keeps it */
    assert_json(&written, "{" PYTORCH ", \"hysteresis\": 0, \"hysteresis_tracker\": 2}");
    gsc_scaler_state read = parse("{" PYTORCH ", \"hysteresis_tracker\": 2, \"hysteresis\": 0}");
    assert_states_equal(&read, &written);
    gsc_scaler *scaler;
    assert_ok(gsc_scaler_create(NULL, &scaler));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_load_state_dict(scaler, &read), "hysteresis is 0", "hysteresis_tracker 0");
    gsc_scaler_destroy(scaler);
}

/* Values that need all 17 digits, and the ends of each range. */
static void numbers_survive_bit_for_bit(void **state)
{
    (void)state;
    static const double reals[] = {0.1,    0.523,      1.0 / 3.0,  2.0 / 3.0, 1e300,
                                   5e-324, DBL_MIN,    DBL_MAX,    FLT_MIN,   FLT_MAX,
                                   1e17,   0x1p53 + 2, 16777217.0, -0.0,      3.0000000000000004};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        gsc_scaler_state written = {.scale = reals[i],
                                    .growth_factor = -reals[i],
                                    .backoff_factor = (double)(float)fmin(reals[i], FLT_MAX),
                                    .growth_interval = INT64_MAX,
                                    .growth_tracker = INT64_MIN,
                                    .min_scale = 0.3,
                                    .max_scale = 1e5,
                                    .hysteresis = INT32_MAX,
                                    .hysteresis_tracker = INT32_MIN,
                                    .consecutive_skips = -1};
        char *text = gsc_scaler_state_to_json(&written);
        assert_non_null(text);
        assert_null(strchr(text, '\n'));
        gsc_scaler_state read = parse(text);
        assert_states_equal(&read, &written);
        gsc_free(text);
    }
}

static void integers_and_reals_are_interchangeable(void **state)
{
    (void)state;
    gsc_scaler_state expected = standard_state();
    gsc_scaler_state read = parse("{\"scale\": 65536, \"growth_factor\": 2, \"backoff_factor\": 5e-1, "
                                  "\"growth_interval\": 2e3, \"_growth_tracker\": 7.0}");
    assert_states_equal(&read, &expected);
    assert_refused("{" STANDARD ", \"_growth_tracker\": 7.5}", "_growth_tracker is 7.5", "integer");
    assert_refused("{" STANDARD ", \"_growth_tracker\": 1e19}", "_growth_tracker is 1e+19");
    assert_refused("{" STANDARD ", \"_growth_tracker\": 9223372036854775808.0}", "_growth_tracker is 9.22");
    assert_refused("{" STANDARD ", \"_growth_tracker\": 9223372036854775808}", "too big integer");
    assert_refused("{" PYTORCH ", \"hysteresis\": 2147483648}", "hysteresis is 2147483648", "2147483647");
    assert_refused("{" PYTORCH ", \"hysteresis\": 2, \"hysteresis_tracker\": 1e300}", "hysteresis_tracker is");
    assert_refused("{\"scale\": 1e999}", "real number overflow");
}

static void other_types_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const keys[] = {"scale",           "growth_factor",      "backoff_factor",   "growth_interval",
                                       "_growth_tracker", "growth_tracker",     "min_scale",        "max_scale",
                                       "hysteresis",      "hysteresis_tracker", "consecutive_skips"};
    static const struct {
        const char *json, *words;
    } values[] = {{"true", "is true"}, {"false", "is false"},    {"\"2.0\"", "is a string"},
                  {"null", "is null"}, {"[2.0]", "is an array"}, {"{}", "is an object"}};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            char text[1024], words[64];
            size_t used = 0;
            text[used++] = '{';
            for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
                used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\": %s", i ? ", " : "", keys[i],
                                         i == k ? values[v].json : "1");
            snprintf(text + used, sizeof text - used, "}");
            snprintf(words, sizeof words, ": %s %s", keys[k], values[v].words);
            assert_refused(text, words, "must be a number");
        }
}

static void required_keys_are_required(void **state)
{
    (void)state;
    static const char *const keys[] = {"scale", "growth_factor", "backoff_factor", "growth_interval",
                                       "_growth_tracker"};
    for (size_t missing = 0; missing < 5; missing++) {
        char text[512] = "{\"other\": 1", words[64];
        for (size_t i = 0; i < 5; i++)
            if (i != missing)
                snprintf(text + strlen(text), sizeof text - strlen(text), ", \"%s\": 1", keys[i]);
        strcat(text, "}");
        snprintf(words, sizeof words, ": %s is missing", keys[missing]);
        assert_refused(text, words);
    }
    assert_refused("{\"other\": 1}", "scale is missing");
}

static void both_names_of_the_tracker_are_read(void **state)
{
    (void)state;
    gsc_scaler_state expected = standard_state();
    gsc_scaler_state read = parse("{" STANDARD ", \"growth_tracker\": 7}");
    assert_states_equal(&read, &expected);
    read = parse("{" PYTORCH ", \"growth_tracker\": 7}");
    assert_states_equal(&read, &expected);
    assert_refused("{" PYTORCH ", \"growth_tracker\": 8}", "_growth_tracker is 7", "growth_tracker is 8");
}

static void unknown_keys_are_ignored(void **state)
{
    (void)state;
    gsc_scaler_state expected = standard_state();
    gsc_scaler_state read = parse("{\"version\": \"1\", " PYTORCH ", \"nested\": {\"scale\": [true, null]}}");
    assert_states_equal(&read, &expected);
}

static void texts_that_are_not_objects_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "   ",
                                        "{",
                                        "}",
                                        "{\"scale\"}",
                                        "65536.0",
                                        "nonsense",
                                        "{\"scale\": NaN}",
                                        "{\"scale\": Infinity}",
                                        "{\"scale\": 1,}",
                                        "{} {}",
                                        "{\"a\\u0000\": 1}",
                                        "{\"\xff\": 1}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_refused(texts[i], "line 1, column");
    assert_refused("[1]", "is an array, it must be an object");
    assert_refused("{" PYTORCH ", \"scale\": 1}", "duplicate");
}

static void deep_and_huge_texts_are_refused(void **state)
{
    (void)state;
    enum { SIZE = 1 << 22 };
    char *text = malloc(SIZE + 1);
    assert_non_null(text);
    memset(text, '[', SIZE);
    text[SIZE] = '\0';
    assert_refused(text, "maximum parsing depth");
    memset(text, ' ', SIZE);
    assert_refused(text, "line 1");
    memset(text, '1', SIZE);
    memcpy(text, "{\"scale\": ", 10);
    assert_refused(text, "line 1");
    free(text);
}

static void unwritable_states_are_refused(void **state)
{
    (void)state;
    const double bad[] = {NAN, INFINITY, -INFINITY};
    static const struct {
        size_t offset;
        const char *words;
    } fields[] = {{offsetof(gsc_scaler_state, scale), ": scale is"},
                  {offsetof(gsc_scaler_state, growth_factor), ": growth_factor is"},
                  {offsetof(gsc_scaler_state, backoff_factor), ": backoff_factor is"},
                  {offsetof(gsc_scaler_state, min_scale), ": min_scale is"},
                  {offsetof(gsc_scaler_state, max_scale), ": max_scale is"}};
    for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++)
        for (size_t i = 0; i < 3; i++) {
            gsc_scaler_state written = standard_state();
            memcpy((char *)&written + fields[f].offset, &bad[i], sizeof bad[i]);
            assert_null(gsc_scaler_state_to_json(&written));
            assert_message(fields[f].words);
        }
    gsc_scaler_state written = standard_state();
    written.reserved[7] = 1;
    assert_null(gsc_scaler_state_to_json(&written));
    assert_message("reserved[7]");
    assert_null(gsc_scaler_state_to_json(NULL));
    assert_message("state is NULL");
    gsc_scaler_state out;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_state_from_json(NULL, &out), "text is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_scaler_state_from_json("{}", NULL), "out is NULL");
    gsc_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_is_written_as_pytorch_does),
        cmocka_unit_test(a_scaler_survives_the_way_through_json),
        cmocka_unit_test(empty_state_is_an_empty_object),
        cmocka_unit_test(defaults_of_extra_keys_are_not_written),
        cmocka_unit_test(missing_extra_keys_mean_keep),
        cmocka_unit_test(a_hysteresis_tracker_needs_its_hysteresis),
        cmocka_unit_test(numbers_survive_bit_for_bit),
        cmocka_unit_test(integers_and_reals_are_interchangeable),
        cmocka_unit_test(other_types_are_refused_by_name),
        cmocka_unit_test(required_keys_are_required),
        cmocka_unit_test(both_names_of_the_tracker_are_read),
        cmocka_unit_test(unknown_keys_are_ignored),
        cmocka_unit_test(texts_that_are_not_objects_are_refused),
        cmocka_unit_test(deep_and_huge_texts_are_refused),
        cmocka_unit_test(unwritable_states_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
