/* SPDX-License-Identifier: Apache-2.0 */
/* chain.h: whether an op has failed in this thread's chain of ops. A chain begins where a tape is created or cleared,
 * or has run backward. */
#ifndef GSC_TRAIN_TAPE_CHAIN_H
#define GSC_TRAIN_TAPE_CHAIN_H

#include <stdbool.h>

#include "gradscaler/tensor.h"

void gsc__chain_begin(void);
/* Returns `result`; NULL is a failure. */
gsc_tensor *gsc__chain_note(gsc_tensor *result);
bool gsc__chain_has_failed(void);

#endif
