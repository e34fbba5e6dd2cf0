/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: wall-clock time. */
#ifndef CLI_COMMON_CLOCK_H
#define CLI_COMMON_CLOCK_H

/* Seconds since some fixed moment. */
double clock_seconds(void);

#endif
