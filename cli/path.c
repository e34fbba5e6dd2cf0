/* SPDX-License-Identifier: Apache-2.0 */
#include "path.h"

#include <stdio.h>

gsc_status path_join(char out[PATH_SIZE], const char *dir, const char *name)
{
    const int length = snprintf(out, PATH_SIZE, "%s/%s", dir, name);
    if (length >= 0 && length < PATH_SIZE)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "the folder's name is too long: %.60s...", dir);
}
