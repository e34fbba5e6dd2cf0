/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.h: what the library's own loops need besides gsc_parallel_run. */
#ifndef GSC_BASE_PARALLEL_H
#define GSC_BASE_PARALLEL_H

#include <stdbool.h>

/* The most threads that may work on a loop. Unknown for a host's parallel-for: the most that the pool can have. */
int gsc__parallel_threads(void);

/* Whether another thread is ready to help at once: false while the pool sleeps or has not started. With a host's
 * parallel-for it is unknown: true. */
bool gsc__parallel_awake(void);
/* For tests: with true, gsc__parallel_awake always says true, so that small work is shared as well. */
void gsc__parallel_assume_awake(bool assume);

#endif
