/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h: collectives of ranks, as work on their streams. */
#ifndef GSC_TESTS_STANDIN_RANKS_H
#define GSC_TESTS_STANDIN_RANKS_H

#include "work.h"

enum { MAX_RANKS = 16 };

/* A rank has come to its collective. Where it is the last one, the values are combined, and released[] gets the
 * operations of all ranks, which are done now; returns how many: 0 while ranks are missing. */
size_t ranks_arrive(const work *w, op *o, op **released);

#endif
