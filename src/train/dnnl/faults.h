/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h: which products of half dtypes not to leave to a version of oneDNN. `implementation` is what oneDNN calls
 * the code that it has chosen, such as "brg:avx512_core_amx_bf16". */
#ifndef GSC_TRAIN_DNNL_FAULTS_H
#define GSC_TRAIN_DNNL_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype_kind.h"

/* Whether it uses the processor's instructions for the dtype: neither oneDNN's plain loops, nor arithmetic that it puts
 * together from others. isa: dnnl_get_effective_cpu_isa(), a set of bits. */
bool gsc__dnnl_is_fast(gsc__kind kind, const char *implementation, unsigned isa);

/* Whether no fault is known of this version of oneDNN for products with the inner size k. */
bool gsc__dnnl_is_right(int64_t k, const char *implementation, int major, int minor);

#endif
