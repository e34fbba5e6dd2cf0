/* SPDX-License-Identifier: Apache-2.0 */
/* JSON has a decimal point in every locale, also where the program's is a comma or a character of several bytes. */
#define _XOPEN_SOURCE 700 /* setenv */
#include "checkpoint_rig.h"

#include <locale.h>

#include "gradscaler/state_json.h"
#include "skipped.h"

static const char text[] =
    "{\"scale\": 24576.0, \"growth_factor\": 2.25, \"backoff_factor\": 0.5, \"growth_interval\": 7, "
    "\"_growth_tracker\": 1}";

static void assert_round_trip(void)
{
    gsc_scaler_state state;
    assert_ok(gsc_scaler_state_from_json(text, &state));
    assert_true(state.scale == 24576 && state.growth_factor == 2.25 && state.backoff_factor == 0.5);
    char *written = gsc_scaler_state_to_json(&state);
    assert_non_null(written);
    assert_string_equal(written, text);
    gsc_free(written);
}

/* Compiles and sets the locale; false if its source is missing (Debian: package locales). */
static bool enter(const char *dir, const char *name)
{
    char command[2048];
    snprintf(command, sizeof command, "localedef -f UTF-8 -i %s %s/%s.UTF-8 >%s/log 2>&1", name, dir, name, dir);
    if (system(command) == -1)
        return false;
    snprintf(command, sizeof command, "%s.UTF-8", name);
    return setlocale(LC_ALL, command) != NULL;
}

static void test_decimal_points(void **state)
{
    (void)state;
    const struct {
        const char *locale, *point;
    } cases[] = {{"de_DE", ","}, {"ps_AF", "\xd9\xab"}};
    char *dir = temp_dir_create();
    assert_int_equal(setenv("LOCPATH", dir, 1), 0);
    bool done = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && done; i++) {
        done = enter(dir, cases[i].locale);
        if (!done)
            continue;
        assert_string_equal(localeconv()->decimal_point, cases[i].point);
        assert_round_trip();
        assert_string_equal(localeconv()->decimal_point, cases[i].point); /* the caller's locale stays */
        setlocale(LC_ALL, "C");
    }
    temp_tree_remove(dir);
    if (!done)
        SKIP_BECAUSE("localedef or the sources of locales are not installed (Debian: package locales)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decimal_points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
