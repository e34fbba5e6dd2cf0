/* SPDX-License-Identifier: Apache-2.0 */
/* path.h: names of files in folders. */
#ifndef CLI_COMMON_PATH_H
#define CLI_COMMON_PATH_H

#include <stdbool.h>

#include "gradscaler/status.h"

#define PATH_SIZE 4096 /* the longest that systems take */

/* GSC_ERR_VALUE: longer than that. */
gsc_status path_join(char out[PATH_SIZE], const char *dir, const char *name);
/* Whether dir/name leads to something; a dangling link does not. */
bool path_exists(const char *dir, const char *name);

#endif
