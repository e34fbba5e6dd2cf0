/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h: Python numbers as C's. The core checks ranges. what: the argument's name in messages. Each function
 * returns 0, or -1 with TypeError or ValueError. */
#ifndef EXT_NUMBERS_H
#define EXT_NUMBERS_H

#include "python.h"

#include <stdint.h>

/* Takes objects with __float__ or __index__. Integers beyond double become infinite, which the core refuses. */
int number_to_double(PyObject *object, const char *what, double *out);
/* Take objects with __index__, and other numbers without a fraction. */
int number_to_int64(PyObject *object, const char *what, int64_t *out);
int number_to_int32(PyObject *object, const char *what, int32_t *out);

#endif
