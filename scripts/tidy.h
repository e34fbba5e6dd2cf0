/* SPDX-License-Identifier: Apache-2.0 */
/* tidy.h: included before each file that clang-tidy analyses. It analyses one file at a time and does not know that gsc_fail
 * returns its argument; without this it would follow paths on which a failure counts as success. */
#include "gradscaler/status.h"
#define gsc_fail(status, ...) ((void)(gsc_fail)(status, __VA_ARGS__), (status))
