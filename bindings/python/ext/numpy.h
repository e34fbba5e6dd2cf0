/* SPDX-License-Identifier: Apache-2.0 */
/* numpy.h: what the buffer protocol does not tell about NumPy's arrays. NumPy is never imported here: without it, there
 * are no such arrays. */
#ifndef EXT_NUMPY_H
#define EXT_NUMPY_H

#include "python.h"

#include <stdbool.h>

/* Whether it is a numpy.ma.MaskedArray. Its buffer holds the masked elements, too. */
bool numpy_is_masked(PyObject *object);

/* Whether it is an array whose dtype is ml_dtypes' bfloat16: 1, 0, or -1 with an exception. */
int numpy_is_bfloat16(PyObject *object);

#endif
