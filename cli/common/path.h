/* SPDX-License-Identifier: Apache-2.0 */
/* path.h: names of files in folders. */
#ifndef CLI_COMMON_PATH_H
#define CLI_COMMON_PATH_H

#include <stdbool.h>

#include "gradscaler/status.h"

#define PATH_SIZE 4096 /* the longest path that Linux accepts */

/* dir/name. GSC_ERR_VALUE: too long. */
gsc_status path_join(char out[PATH_SIZE], const char *dir, const char *name);
/* Whether dir/name exists; a dangling link does not. */
bool path_exists(const char *dir, const char *name);

#endif
