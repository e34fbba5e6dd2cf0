/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.h: the name that was probably meant. */
#ifndef CLI_COMMON_SUGGEST_H
#define CLI_COMMON_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

#define SUGGEST_SIZE 64 /* longer names are not compared */

/* A text as names are compared: without "-" at its beginning and "=..." at its end, in lower case, "_" as "-". Empty:
 * too long. */
void suggest_normalize(char out[SUGGEST_SIZE], const char *text);

/* How many characters must be inserted, removed, replaced or exchanged with their neighbour to get from a normalized
 * name to `name`, or to the nearest of the words in `aliases`, which are separated by spaces; NULL: none. */
size_t suggest_distance_to(const char *given, const char *name, const char *aliases);

/* Whether a name at a distance of `errors` is near enough to be suggested for `given`. */
bool suggest_is_near(const char *given, size_t errors);

/* Whether `given` is one of the aliases. */
bool suggest_is_listed(const char *given, const char *aliases);

#endif
