/* SPDX-License-Identifier: Apache-2.0 */
/* version.h: the version of these headers; the build reads it here. gsc_version() tells the running library's. */
#ifndef GRADSCALER_VERSION_H
#define GRADSCALER_VERSION_H

#define GSC_VERSION_STRING "0.1.0"

#endif
