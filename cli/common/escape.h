/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h: texts from outside (file names, arguments) made harmless for terminals and for the shell. */
#ifndef CLI_COMMON_ESCAPE_H
#define CLI_COMMON_ESCAPE_H

#include "common/path.h"

#include <stddef.h>

#define ESCAPE_GROWTH ((size_t)4)                                /* one byte becomes at most \x1b */
#define QUOTED_SIZE (ESCAPE_GROWTH * PATH_SIZE + sizeof "./$''") /* of any path in quotes */

/* Copies `text` with control characters (also those of 128 to 159, and marks that reverse the direction of writing) and
 * bytes that are not UTF-8 written as \n, \t, \r or \xNN. Cuts what does not fit into `size` bytes. */
void escape_text(char *out, size_t size, const char *text);

typedef struct quoted {
    char text[QUOTED_SIZE];
} quoted;

/* The path as one word of a command line. A plain name stays as it is; 'a name'; $'a\012name' (bash, zsh, ksh and
 * POSIX of 2024) where it has what escape_text would escape. A name that begins with "-" gets "./". */
quoted quote_path(const char *path);

#endif
