/* SPDX-License-Identifier: Apache-2.0 */
/* expect.h: asserts on statuses and their messages. The test includes cmocka first. */
#ifndef GSC_TESTS_EXPECT_H
#define GSC_TESTS_EXPECT_H

#include <string.h>

#include "gradscaler/status.h"

#define expect_ok(call)                                                                                                \
    do {                                                                                                               \
        gsc_status status_ = (call);                                                                                   \
        if (status_ != GSC_OK)                                                                                         \
            fail_msg("%s: %s: %s", #call, gsc_status_name(status_), gsc_last_error());                                 \
    } while (0)

/* The call fails so, with a message that contains each of the given parts. */
#define expect_error(expected, call, ...)                                                                              \
    do {                                                                                                               \
        gsc_fail(GSC_OK, "an old message");                                                                            \
        gsc_status status_ = (call);                                                                                   \
        if (status_ != (expected))                                                                                     \
            fail_msg("%s: %s instead of %s: %s", #call, gsc_status_name(status_), gsc_status_name(expected),           \
                     gsc_last_error());                                                                                \
        const char *parts_[] = {__VA_ARGS__};                                                                          \
        for (size_t i_ = 0; i_ < sizeof parts_ / sizeof parts_[0]; i_++)                                               \
            if (!strstr(gsc_last_error(), parts_[i_]))                                                                 \
                fail_msg("%s: the message lacks \"%s\": %s", #call, parts_[i_], gsc_last_error());                     \
    } while (0)

#endif
