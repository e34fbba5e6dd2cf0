/* SPDX-License-Identifier: Apache-2.0 */
/* try.h: GSC_TRY, which returns a failed call's status from the calling function. */
#ifndef GSC_BASE_TRY_H
#define GSC_BASE_TRY_H

#include "gradscaler/status.h"

#define GSC_TRY(call)                                                                                                  \
    do {                                                                                                               \
        gsc_status try_status = (call);                                                                                \
        if (try_status != GSC_OK)                                                                                      \
            return try_status;                                                                                         \
    } while (0)

#endif
