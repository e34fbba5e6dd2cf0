/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.h: what the library's own loops want to know besides gsc_parallel_run. */
#ifndef GSC_BASE_PARALLEL_H
#define GSC_BASE_PARALLEL_H

#include <stdbool.h>

/* Cutting a loop into tasks would gain nothing. */
bool gsc_parallel_is_one_thread(void);

#endif
