/* SPDX-License-Identifier: Apache-2.0 */
/* reason.h: why an array does not lend its memory. DLPack cannot express some devices, layouts and dtypes, so that
 * arrays with them raise an exception of their own before the core sees them; their attributes tell the reason. */
#ifndef EXT_REASON_H
#define EXT_REASON_H

#include "python.h"

#include "gradscaler/status.h"

/* Writes the reason, to follow "gradient 3 (a Tensor) ", and returns its status; GSC_OK if none is found, with `why`
 * unchanged. Keeps the exception that is set. */
gsc_status reason_find(PyObject *array, char *why, size_t size);

#endif
