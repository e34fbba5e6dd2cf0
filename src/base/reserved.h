/* SPDX-License-Identifier: Apache-2.0 */
/* reserved.h: callers fill structs that end in `reserved` words; those must be zero. */
#ifndef GSC_BASE_RESERVED_H
#define GSC_BASE_RESERVED_H

#include <stddef.h>
#include <stdint.h>

#include "gradscaler/status.h"

static inline gsc_status gsc__check_reserved(const uint64_t *reserved, size_t words, const char *api, const char *name)
{
    for (size_t i = 0; i < words; i++)
        if (reserved[i] != 0)
            return gsc_fail(GSC_ERR_VALUE, "%s: %s.reserved[%zu] is not zero; zero-initialise the struct", api, name,
                            i);
    return GSC_OK;
}

/* GSC_OK or GSC_ERR_VALUE. `api` is the public function, `name` the struct, both for the message. */
#define GSC_CHECK_RESERVED(pointer, api, name)                                                                         \
    gsc__check_reserved((pointer)->reserved, sizeof(pointer)->reserved / sizeof *(pointer)->reserved, api, name)

#endif
