/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.h: Python arrays as the DLTensors of one call, borrowed and never copied.
 *
 *     arrays all = {0};                                   once; it may live as long as its owner
 *     if (arrays_take(&all, list, true, name) == 0) {     each call
 *         … gsc_unscale_grads(all.tensors, all.count, …) …
 *         arrays_release(&all);
 *     }
 *     arrays_free(&all);                                  at the end
 */
#ifndef EXT_ARRAYS_H
#define EXT_ARRAYS_H

#include "module.h"

#include <stdbool.h>
#include <stdint.h>

#include "gradscaler/dtype.h"

typedef struct array array; /* one borrowed array; arrays.c */

typedef struct arrays { /* all zero: empty */
    size_t count;       /* entries of the list */
    DLTensor **tensors; /* one each, NULL for None; an entry's address is the same in every call while capacity is */
    uint64_t elements;  /* in all; a hint: what the core checks is not checked here */

    array *entries; /* private from here on */
    size_t capacity;
} arrays;

/* Borrows each item of a list of arrays and None: a torch.Tensor or Parameter, what has the buffer protocol,
 * a NumPy array of ml_dtypes' bfloat16, what has __dlpack__. Keeps references and buffers until arrays_release. all
 * must be empty or released. Nothing is allocated where a list of this size and these numbers of dimensions was taken
 * before (producers of capsules allocate theirs). writes: read-only arrays are refused. name: None, or a callable from
 * an index to a string or None; asked only for messages.
 * 0; or -1 with a Python exception and nothing borrowed: TypeError for what is no list, no array or masked, ValueError
 * for read-only arrays, foreign byte orders and formats that are no numbers, MemoryError, or what the array raised, as
 * the cause of one of these. Dtypes, devices and shapes are left to the core to judge, where DLPack has them.
 * Runs Python code (an array's __dlpack__, its release, name): hold nothing that it could take away. */
int arrays_take(arrays *all, PyObject *list, bool writes, PyObject *name);

/* The same for a single array, not None: its DLTensor is all->tensors[0]. what names it in messages ("source"). */
int arrays_take_one(arrays *all, PyObject *object, bool writes, const char *what);

/* Gives back what one call borrowed and keeps the memory. Fine when empty. Keeps a Python exception that is set.
 * May run Python code. */
void arrays_release(arrays *all);

/* Releases, then frees the memory: all is empty again. */
void arrays_free(arrays *all);

/* Below this many elements, giving up the GIL costs more than the others gain. */
enum { ARRAYS_GIL_ELEMENTS = 65536 };

static inline bool arrays_free_the_gil(const arrays *all) { return all->elements >= ARRAYS_GIL_ELEMENTS; }

#endif
