/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c: whether an op has failed in this thread's chain of ops. Not kept by the tape, since an op whose operands are
 * on no tape fails, too. */
#include "train/tape/chain.h"

static _Thread_local bool failed;

void gsc__chain_begin(void) { failed = false; }

gsc_tensor *gsc__chain_note(gsc_tensor *result)
{
    failed = failed || !result;
    return result;
}

bool gsc__chain_has_failed(void) { return failed; }
