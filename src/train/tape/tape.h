/* SPDX-License-Identifier: Apache-2.0 */
/* tape.h: the struct behind gsc_tape: the record of op calls, and what ops need: memory and oneDNN's primitives. */
#ifndef GSC_TRAIN_TAPE_TAPE_H
#define GSC_TRAIN_TAPE_TAPE_H

#include "train/dnnl/dnnl.h"
#include "train/tape/op.h"
#include "train/tensor/arena.h"

/* A parameter in another dtype, made by autocast; later ops of the region use it again. */
typedef struct gsc__cached_cast {
    struct gsc__cached_cast *previous;
    uint64_t serial; /* the parameter's serial number */
    gsc_tensor *cast;
    uint64_t region; /* gsc__autocast_region() when the cast was made */
} gsc__cached_cast;

struct gsc_tape {
    gsc__arena arena;
    gsc__dnnl dnnl;
    gsc__node *last; /* the latest recorded call, linked to the earlier ones */
    gsc__cached_cast *casts;
    bool ran_backward;
};

/* A tensor on the tape with memory for its elements, not initialised. NULL with a message: no memory. */
gsc_tensor *gsc__tape_tensor(gsc_tape *tape, gsc__kind kind, int32_t ndim, const int64_t *shape, size_t count);
/* Not initialised, freed when the running op call ends. NULL with a message: no memory. */
void *gsc__tape_scratch(gsc_tape *tape, size_t count, gsc__kind kind);

#endif
