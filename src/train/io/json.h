/* SPDX-License-Identifier: Apache-2.0 */
/* json.h: jansson for this library: any locale and rounding mode, memory of malloc, messages. */
#ifndef GSC_TRAIN_IO_JSON_H
#define GSC_TRAIN_IO_JSON_H

#include <jansson.h>

#include "gradscaler/status.h"

/* Parses; duplicate keys are an error. `who` begins the message. GSC_ERR_VALUE: not JSON; GSC_ERR_MEMORY. */
gsc_status gsc__json_parse(const char *who, const char *text, size_t size, json_t **out);
/* Returns text to be freed with free(), which jansson's own text may not be: a host can give jansson other allocators.
 * Ends in NUL, which *size does not count. NULL without a message: no memory. */
char *gsc__json_print(const json_t *value, size_t flags, size_t *size);
/* For messages: "an object", "a string", …; "missing" for NULL. */
const char *gsc__json_type(const json_t *value);
/* GSC_ERR_VALUE: the text is NULL or not UTF-8; the message calls it `what`. */
gsc_status gsc__json_check_text(const char *who, const char *what, const char *text);

/* A flag for gsc__json_print: 17 significant digits, from which every double is read back exactly. */
#define GSC_JSON_REALS JSON_REAL_PRECISION(17)

#endif
