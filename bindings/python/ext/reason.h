/* SPDX-License-Identifier: Apache-2.0 */
/* reason.h: why an array does not lend its memory. DLPack has no words for some devices, layouts and dtypes, so that
 * arrays of them refuse before the core could; but they say what they are. */
#ifndef EXT_REASON_H
#define EXT_REASON_H

#include "module.h"

#include "gradscaler/status.h"

/* Writes what follows "gradient 3 (a Tensor) " and returns what it means; GSC_OK where no reason is found, which leaves
 * why alone. Keeps the exception that is set. */
gsc_status reason_of(PyObject *array, char *why, size_t size);

#endif
