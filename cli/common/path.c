/* SPDX-License-Identifier: Apache-2.0 */
/* path.c: joins paths. */
#define _POSIX_C_SOURCE 200809L /* access */
#include "common/path.h"

#include <stdio.h>
#include <unistd.h>

gsc_status path_join(char out[PATH_SIZE], const char *dir, const char *name)
{
    const int length = snprintf(out, PATH_SIZE, "%s/%s", dir, name);
    if (length >= 0 && length < PATH_SIZE)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "the folder's name is too long: %.60s...", dir);
}

bool path_exists(const char *dir, const char *name)
{
    char path[PATH_SIZE];
    return path_join(path, dir, name) == GSC_OK && access(path, F_OK) == 0;
}
