/* SPDX-License-Identifier: Apache-2.0 */
/* numpy.h: what arrays of NumPy do not say by the buffer protocol. NumPy is never imported: if nobody has done so, it
 * cannot have made the object at hand. */
#ifndef EXT_NUMPY_H
#define EXT_NUMPY_H

#include "module.h"

#include <stdbool.h>

/* Is it a numpy.ma.MaskedArray? Its buffer has the masked elements too. */
bool numpy_is_masked(PyObject *object);

/* Is it an array whose dtype is ml_dtypes' bfloat16? 1, 0, or -1 with an exception. */
int numpy_is_bfloat16(PyObject *object);

#endif
