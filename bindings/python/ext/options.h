/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the keyword arguments of Scaler as the core's options. */
#ifndef EXT_OPTIONS_H
#define EXT_OPTIONS_H

#include "objects.h"

/* Moves the callables into the scaler, references included. *comm must outlive gsc_scaler_create. 0, or -1 with a
 * Python exception. */
int options_from_arguments(py_scaler *self, PyObject *args, PyObject *keywords, gsc_scaler_options *options,
                           gsc_comm *comm);

#endif
