/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h: Python numbers as C's. Ranges are the core's to check: what C's type cannot hold becomes what the core
 * refuses. what names the argument in messages. 0, or -1 with TypeError or ValueError. */
#ifndef EXT_NUMBERS_H
#define EXT_NUMBERS_H

#include "module.h"

#include <stdint.h>

/* Anything with __float__ or __index__; integers beyond double become infinite. */
int number_to_double(PyObject *object, const char *what, double *out);
/* Anything with __index__, and other numbers without a fraction. */
int number_to_int64(PyObject *object, const char *what, int64_t *out);
int number_to_int32(PyObject *object, const char *what, int32_t *out);

#endif
