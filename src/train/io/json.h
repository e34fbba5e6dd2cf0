/* SPDX-License-Identifier: Apache-2.0 */
/* json.h: what jansson leaves to its callers. */
#ifndef GSC_TRAIN_IO_JSON_H
#define GSC_TRAIN_IO_JSON_H

#include <jansson.h>

#include "gradscaler/status.h"

/* Parses; duplicate keys are refused. `who` begins the message. GSC_ERR_VALUE: not JSON; GSC_ERR_MEMORY. */
gsc_status gsc__json_parse(const char *who, const char *text, size_t size, json_t **out);
/* Into memory of free()'s: jansson's own may come from an allocator that the host has given it. Ends in NUL; *size does
 * not count it. NULL without a message: no memory. */
char *gsc__json_print(const json_t *value, size_t flags, size_t *size);
/* "an object", "a string", …, for messages; "missing" for NULL. */
const char *gsc__json_type(const json_t *value);
/* GSC_ERR_VALUE: the text is NULL or not UTF-8; `what` says what it is. */
gsc_status gsc__json_check_text(const char *who, const char *what, const char *text);

/* 17 significant digits give every double back. */
#define GSC_JSON_REALS JSON_REAL_PRECISION(17)

#endif
