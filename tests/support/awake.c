/* SPDX-License-Identifier: Apache-2.0 */
/* awake.c: linked to tests, so that small work is shared among threads in them, whether or not the pool sleeps. */
#include "base/parallel.h"

__attribute__((constructor)) static void assume_awake(void) { gsc__parallel_assume_awake(true); }
