/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.h: Python arrays as the DLTensors of one call, borrowed and never copied.
 *
 *     arrays grads = {0};                                   once; may live as long as its owner
 *     if (arrays_take(&grads, list, true, name) == 0) {     each call
 *         … gsc_unscale_grads(grads.tensors, grads.count, …) …
 *         arrays_release(&grads);
 *     }
 *     arrays_free(&grads);                                  at the end
 */
#ifndef EXT_ARRAYS_H
#define EXT_ARRAYS_H

#include "python.h"

#include <stdbool.h>
#include <stdint.h>

#include "gradscaler/dtype.h"

typedef struct array array; /* one borrowed array; arrays.c */

typedef struct arrays { /* all zero: empty */
    size_t count;       /* entries of the list */
    DLTensor **tensors; /* one an entry, NULL for None; their addresses change only when capacity grows */
    uint64_t elements;  /* in all; a hint: shapes are not checked here, but by the core */

    array *entries; /* private, as capacity */
    size_t capacity;
} arrays;

/* Borrows each item of a list of arrays and None. An array is: a torch.Tensor or Parameter, an object with the buffer
 * protocol, a NumPy array of ml_dtypes' bfloat16, or an object with __dlpack__. References and buffers are kept until
 * arrays_release; borrowed must be empty or released. Allocates nothing if a list of this size, with these numbers of
 * dimensions, was taken before (producers of capsules allocate theirs).
 * writes: read-only arrays are refused. name: None, or a callable from an index to a string or None, for messages.
 * Returns 0; or -1 with a Python exception and nothing borrowed: TypeError (no list, no array, a masked one),
 * ValueError (read-only, foreign byte order, elements that are no numbers), MemoryError; an exception of the array's
 * own is the cause of one of these. The core checks dtypes, devices and shapes, as far as DLPack can express them. Runs
 * Python code (an array's __dlpack__, its release, name), which may change any Python object. */
int arrays_take(arrays *borrowed, PyObject *list, bool writes, PyObject *name);

/* The same for arrays that are written, as results: "out[3]" in messages. */
int arrays_take_outputs(arrays *borrowed, PyObject *list);

/* The same for a single array, not None: its DLTensor is borrowed->tensors[0]. what: its name in messages ("source").
 */
int arrays_take_one(arrays *borrowed, PyObject *object, bool writes, const char *what);

/* Gives back what one call borrowed, and keeps the memory. Does nothing when empty. Keeps a Python exception that is
 * set. May run Python code. */
void arrays_release(arrays *borrowed);

/* Releases, then frees the memory: borrowed is empty again. */
void arrays_free(arrays *borrowed);

/* Below this many elements, giving up the GIL costs more than other threads gain. */
enum { ARRAYS_GIL_ELEMENTS = 65536 };

static inline bool arrays_free_the_gil(const arrays *borrowed) { return borrowed->elements >= ARRAYS_GIL_ELEMENTS; }

#endif
