/* SPDX-License-Identifier: Apache-2.0 */
/* asserts.h: cmocka, and asserts on statuses, messages and exact numbers.
 *
 *     assert_ok(gsc_scaler_update(scaler));
 *     assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to(scaler, 0), "new_scale", "0");   // the message contains both
 */
#ifndef GSC_TESTS_ASSERTS_H
#define GSC_TESTS_ASSERTS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gradscaler/status.h"

/* The number of reserved words of a struct. */
#define RESERVED_WORDS(object) (sizeof(object).reserved / sizeof *(object).reserved)

/* An output struct's reserved words are zero. */
#define assert_reserved_zero(object)                                                                                   \
    do {                                                                                                               \
        for (size_t word_ = 0; word_ < RESERVED_WORDS(object); word_++)                                                \
            assert_true((object).reserved[word_] == 0);                                                                \
    } while (0)

/* The call succeeds. */
#define assert_ok(call) asserts_status((call), GSC_OK, #call, __FILE__, __LINE__)

/* assert_fails(status, call, parts…): the call returns that status; its message contains each of the strings. */
#define assert_fails(expected, ...)                                                                                    \
    (asserts_old_message(),                                                                                            \
     asserts_failure(__FILE__, __LINE__, #__VA_ARGS__, (expected), __VA_ARGS__, (const char *)NULL))

/* assert_op_fails(call, parts…): the op returns NULL; its message contains each of the strings. */
#define assert_op_fails(...)                                                                                           \
    (asserts_old_message(), asserts_no_result(__FILE__, __LINE__, #__VA_ARGS__, __VA_ARGS__, (const char *)NULL))

/* A status that was returned before. */
#define assert_status(actual, expected) asserts_status((actual), (expected), #actual, __FILE__, __LINE__)

/* The last message contains the string. */
#define assert_message(part) asserts_message((part), "", __FILE__, __LINE__)

/* Equal numbers, zeros of one sign, or both NaN. */
#define assert_exact(actual, expected) asserts_exact((actual), (expected), #actual, __FILE__, __LINE__)

static inline void asserts_status(gsc_status actual, gsc_status expected, const char *call, const char *file, int line)
{
    if (actual == expected)
        return;
    print_error("%s: %s instead of %s (last message: %s)\n", call, gsc_status_name(actual), gsc_status_name(expected),
                gsc_last_error());
    _fail(file, line);
}

static inline void asserts_message(const char *part, const char *call, const char *file, int line)
{
    if (strstr(gsc_last_error(), part) != NULL)
        return;
    print_error("%s: \"%s\" is not in the message: %s\n", call, part, gsc_last_error());
    _fail(file, line);
}

/* So that a call that fails without a message is noticed. */
static inline void asserts_old_message(void) { (void)gsc_fail(GSC_OK, "an old message"); }

static inline void asserts_failure(const char *file, int line, const char *call, gsc_status expected, gsc_status actual,
                                   ...)
{
    asserts_status(actual, expected, call, file, line);
    va_list parts;
    va_start(parts, actual);
    for (const char *part; (part = va_arg(parts, const char *)) != NULL;)
        asserts_message(part, call, file, line);
    va_end(parts);
}

static inline void asserts_no_result(const char *file, int line, const char *call, const void *result, ...)
{
    if (result != NULL) {
        print_error("%s did not fail\n", call);
        _fail(file, line);
    }
    va_list parts;
    va_start(parts, result);
    for (const char *part; (part = va_arg(parts, const char *)) != NULL;)
        asserts_message(part, call, file, line);
    va_end(parts);
}

static inline void asserts_exact(double actual, double expected, const char *what, const char *file, int line)
{
    if (actual == expected ? signbit(actual) == signbit(expected) : isnan(actual) && isnan(expected))
        return;
    print_error("%s is %.17g instead of %.17g\n", what, actual, expected);
    _fail(file, line);
}

#endif
