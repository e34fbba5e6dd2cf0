/* SPDX-License-Identifier: Apache-2.0 */
/* Included before each file that clang-tidy analyses: it does not see into other files, so it must be told here that
 * gsc_fail returns its argument, or it follows paths on which a failure counts as success. */
#include "gradscaler/status.h"
#define gsc_fail(status, ...) ((void)(gsc_fail)(status, __VA_ARGS__), (status))
