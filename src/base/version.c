/* SPDX-License-Identifier: Apache-2.0 */
/* version.c: the version of the running library. */
#include "gradscaler/version.h"

#include "gradscaler/runtime.h"

const char *gsc_version(void) { return GSC_VERSION_STRING; }
