/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: the arguments of gsc_checkpoint_save and gsc_checkpoint_load. */
#ifndef GSC_TRAIN_CHECKPOINT_CHECK_H
#define GSC_TRAIN_CHECKPOINT_CHECK_H

#include "gradscaler/checkpoint.h"

/* Checks the lists' names and objects, not the tensors themselves. GSC_ERR_VALUE; `function` begins the message. */
gsc_status gsc__checkpoint_check(const char *function, const char *dir, const gsc_checkpoint *checkpoint);

#endif
