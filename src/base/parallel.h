/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.h: what the library's own loops need besides gsc_parallel_run. */
#ifndef GSC_BASE_PARALLEL_H
#define GSC_BASE_PARALLEL_H

/* The most threads that may work on a loop. Unknown for a host's parallel-for: the most that the pool can have. */
int gsc__parallel_threads(void);

#endif
