/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.h: arrays that hand out DLPack capsules. A capsule is never consumed: it is kept for a call, and dropping it
 * gives the memory back. */
#ifndef EXT_DLPACK_H
#define EXT_DLPACK_H

#include "module.h"

#include <stdbool.h>

#include "gradscaler/dtype.h"

/* Is it exactly a torch.Tensor or torch.nn.Parameter, of a torch that somebody has imported? */
bool dlpack_is_torch(PyObject *object);
/* Its capsule, on PyTorch's short way; NULL with what PyTorch raised. */
PyObject *dlpack_of_torch(PyObject *tensor);

/* What object.__dlpack__ returns, never a copy; asked for a versioned capsule, and again without arguments only where
 * it does not know that one. NULL with what it raised, or without an exception where it has no such method. */
PyObject *dlpack_of(PyObject *object);

typedef enum dlpack_fault {
    DLPACK_FINE,
    DLPACK_NO_CAPSULE, /* not one, or already consumed */
    DLPACK_TOO_NEW,    /* of a major version that this code does not know */
    DLPACK_COPY,       /* not the array's own memory */
} dlpack_fault;

/* The capsule's tensor, as long as the capsule lives. */
dlpack_fault dlpack_open(PyObject *capsule, DLTensor *out, bool *read_only);

#endif
