/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.h: arrays that hand out DLPack capsules. A capsule is never consumed: it is kept for a call, then dropped,
 * which gives the memory back. */
#ifndef EXT_DLPACK_H
#define EXT_DLPACK_H

#include "python.h"

#include <stdbool.h>

#include "gradscaler/dtype.h"

/* Whether it is exactly a torch.Tensor or torch.nn.Parameter, not a subclass. False if torch has not been imported. */
bool dlpack_is_torch(PyObject *object);
/* The tensor's capsule, by PyTorch's own function, which is faster than __dlpack__; NULL with the exception that
 * PyTorch raised. */
PyObject *dlpack_from_torch(PyObject *tensor);

/* What object.__dlpack__ returns. Asks for a versioned capsule and no copy; asks again, without arguments, only if the
 * method does not know these. NULL with the exception that it raised, or without one if there is no such method. */
PyObject *dlpack_from_object(PyObject *object);

typedef enum dlpack_fault {
    DLPACK_FINE,
    DLPACK_NO_CAPSULE, /* not one, or already consumed */
    DLPACK_TOO_NEW,    /* a newer major version */
    DLPACK_COPY,       /* a copy, not the array's own memory */
} dlpack_fault;

/* The capsule's tensor, valid as long as the capsule. */
dlpack_fault dlpack_open(PyObject *capsule, DLTensor *out, bool *read_only);

#endif
