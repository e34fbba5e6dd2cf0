/* SPDX-License-Identifier: Apache-2.0 */
/* reserved.h: structs that callers fill end in `reserved` words, which must be zero. */
#ifndef GSC_BASE_RESERVED_H
#define GSC_BASE_RESERVED_H

#include <stddef.h>
#include <stdint.h>

#include "gradscaler/status.h"

static inline gsc_status gsc__check_reserved(const uint64_t *reserved, size_t words, const char *caller,
                                             const char *name)
{
    for (size_t i = 0; i < words; i++)
        if (reserved[i] != 0)
            return gsc_fail(GSC_ERR_VALUE, "%s: %s.reserved[%zu] is not zero; zero-initialise the struct", caller, name,
                            i);
    return GSC_OK;
}

/* GSC_OK or GSC_ERR_VALUE. `name` is what messages call the struct. */
#define GSC_CHECK_RESERVED(pointer, caller, name)                                                                      \
    gsc__check_reserved((pointer)->reserved, sizeof(pointer)->reserved / sizeof *(pointer)->reserved, caller, name)

#endif
