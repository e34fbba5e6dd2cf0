/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c: the monotonic clock. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "common/clock.h"

#include <time.h>

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
