/* SPDX-License-Identifier: Apache-2.0 */
/* functions.h: the module's functions: the loops over gradients without a scaler, threads, instruction set, version. */
#ifndef EXT_FUNCTIONS_H
#define EXT_FUNCTIONS_H

#include "python.h"

/* Adds the functions to the module; 0, or -1 with a Python exception. */
int functions_add(PyObject *module);

#endif
