/* SPDX-License-Identifier: Apache-2.0 */
/* optim_isa.h: all loops of the optimizers for one instruction set. Included by optim_isa_*.c, which define
 *
 *     GSC_TARGET         the target attribute of the loops, or nothing
 *     GSC_TABLE          the table to define
 *     GSC_ISA_NAME       what gsc_isa() calls it */
#include "train/optim/kernels.h"

#include <math.h>

#define GSC_REAL float
#define GSC_SQRT sqrtf
#define GSC_LOOP(name) name##_f32
#include "train/optim/loops.h"
#undef GSC_REAL
#undef GSC_SQRT
#undef GSC_LOOP

#define GSC_REAL double
#define GSC_SQRT sqrt
#define GSC_LOOP(name) name##_f64
#include "train/optim/loops.h"
#undef GSC_REAL
#undef GSC_SQRT
#undef GSC_LOOP

#define TABLE_ENTRY(name) .name = {name##_f32, name##_f64},
const gsc__update_kernels GSC_TABLE = {.isa = GSC_ISA_NAME, GSC_UPDATE_KERNELS(TABLE_ENTRY)};
