/* SPDX-License-Identifier: Apache-2.0 */
/* scaler.h: gradscaler._core.Scaler, a scaler of the core. */
#ifndef EXT_SCALER_H
#define EXT_SCALER_H

#include "python.h"

/* Adds the type to the module; 0, or -1 with a Python exception. Call busy_init first. */
int scaler_add_type(PyObject *module);

#endif
