/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.h: what the library's own loops want to know besides gsc_parallel_run. */
#ifndef GSC_BASE_PARALLEL_H
#define GSC_BASE_PARALLEL_H

/* How many threads may work on a loop; of a host's loop nobody knows, so many. */
int gsc__parallel_threads(void);

#endif
