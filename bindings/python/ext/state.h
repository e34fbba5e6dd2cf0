/* SPDX-License-Identifier: Apache-2.0 */
/* state.h: the methods of Scaler that save and load the core's state dict, as a Python dict of the same fields. */
#ifndef EXT_STATE_H
#define EXT_STATE_H

#include "python.h"

PyObject *scaler_state(PyObject *object, PyObject *none);
PyObject *scaler_load_state(PyObject *object, PyObject *dict);

#endif
