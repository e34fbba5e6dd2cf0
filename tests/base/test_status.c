/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses: their numbers and names, and each thread's message. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "asserts.h"
#include "gradscaler/status.h"

/* Programs are compiled with the numbers. */
static void test_numbers_and_names(void **state)
{
    (void)state;
    static const struct {
        gsc_status status;
        int number;
        const char *name;
    } expected[] = {
        {GSC_OK, 0, "GSC_OK"},
        {GSC_ERR_VALUE, 1, "GSC_ERR_VALUE"},
        {GSC_ERR_STATE, 2, "GSC_ERR_STATE"},
        {GSC_ERR_UNSUPPORTED, 3, "GSC_ERR_UNSUPPORTED"},
        {GSC_ERR_DEVICE, 4, "GSC_ERR_DEVICE"},
        {GSC_ERR_MEMORY, 5, "GSC_ERR_MEMORY"},
        {GSC_ERR_IO, 6, "GSC_ERR_IO"},
        {GSC_ERR_OPTIMIZER, 7, "GSC_ERR_OPTIMIZER"},
        {GSC_ERR_COMM, 8, "GSC_ERR_COMM"},
        {GSC_ERR_DIVERGED, 9, "GSC_ERR_DIVERGED"},
    };
    const size_t count = sizeof expected / sizeof *expected;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(expected[i].status, expected[i].number);
        assert_string_equal(gsc_status_name(expected[i].status), expected[i].name);
    }
    assert_string_equal(gsc_status_name((gsc_status)count), "unknown status");
    assert_string_equal(gsc_status_name((gsc_status)-1), "unknown status");
}

static void test_the_list_has_each_once_with_a_meaning(void **state)
{
    (void)state;
    int next = 0;
#define CHECK(name, number, python, meaning)                                                                           \
    assert_int_equal(number, next++);                                                                                  \
    assert_true(strlen(#python) > 0 && strlen(meaning) > 0);
    GSC_STATUSES(CHECK)
#undef CHECK
    assert_int_equal(next, GSC_ERR_DIVERGED + 1);
}

static void test_a_message_without_a_format_is_the_name(void **state)
{
    (void)state;
    assert_status(gsc_fail(GSC_ERR_IO, NULL), GSC_ERR_IO);
    assert_string_equal(gsc_last_error(), "GSC_ERR_IO");
}

/* trial T11 */
static void test_message_without_printf_rules(void **state)
{
    (void)state;
    assert_int_equal(gsc_fail_message(GSC_ERR_IO, "50%s %n done"), GSC_ERR_IO);
    assert_string_equal(gsc_last_error(), "50%s %n done");
    assert_int_equal(gsc_fail_message(GSC_ERR_COMM, NULL), GSC_ERR_COMM);
    assert_string_equal(gsc_last_error(), "GSC_ERR_COMM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_and_names),
        cmocka_unit_test(test_the_list_has_each_once_with_a_meaning),
        cmocka_unit_test(test_a_message_without_a_format_is_the_name),
        cmocka_unit_test(test_message_without_printf_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
