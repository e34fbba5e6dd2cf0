/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: the element loops of the optimizers, with the formulas of base/optim_rules.h. Each loop reads grad, param
 * and state once and writes param and state once; grad is never written. */
#ifndef GSC_TRAIN_OPTIM_KERNELS_H
#define GSC_TRAIN_OPTIM_KERNELS_H

#include <stddef.h>

#include "base/optim_rules.h"

/* One parameter's step: compact arrays of its dtype that do not overlap. */
typedef struct gsc__update {
    void *param; /* its elements */
    const void *grad;
    void *state[2]; /* SGD: momentum buffer, if any; Adam: m, v */
    gsc__multiplier split;
    gsc__optim_rule rule;
} gsc__update;

/* Applies elements [first, first + count). */
typedef void gsc__update_kernel(const gsc__update *update, size_t first, size_t count);

/* Each kernel, once: K(loop of loops.h, argument). The tables, and the tests of all kernels, follow from this list. */
#define GSC_UPDATE_KERNELS(K, argument)                                                                                \
    K(sgd, argument)                                                                                                   \
    K(sgd_momentum, argument)                                                                                          \
    K(adam, argument)

/* The kernels compiled for one instruction set: [0] for float32 parameters, [1] for float64. */
typedef struct gsc__update_kernels {
    const char *isa;
#define GSC_UPDATE_MEMBER(name, argument) gsc__update_kernel *name[2];
    GSC_UPDATE_KERNELS(GSC_UPDATE_MEMBER, )
#undef GSC_UPDATE_MEMBER
} gsc__update_kernels;

/* The kernels of the instruction set that gsc_isa() calls `isa`; the baseline's for a name that is not in GSC_ISAS, as
 * a newer libgradscaler may return one. A name that gsc_isa() did not return may be of an instruction set that this
 * processor lacks. */
const gsc__update_kernels *gsc__update_kernels_of(const char *isa);

#endif
