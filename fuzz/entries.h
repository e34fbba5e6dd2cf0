/* SPDX-License-Identifier: Apache-2.0 */
/* entries.h: fuzz inputs as lines of a text file, corpus/<topic>.txt.
 *
 * A line is an input. \n, \r, \t, \0, \\ and \xHH stand for bytes, other bytes for themselves. A backslash at the end
 * of a line stands for nothing: it writes the empty input and keeps blanks at the end. Empty lines and lines that begin
 * with # are comments. */
#ifndef GSC_FUZZ_ENTRIES_H
#define GSC_FUZZ_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef void entry_visitor(void *ctx, int line, const uint8_t *data, size_t size);

/* Visits the entries of a file in order. Returns false, with a message on stderr, if the file cannot be read or a line
 * has an unknown escape. */
bool entries_visit(const char *path, entry_visitor *visit, void *ctx);

/* Appends an entry. Printable ASCII stays as it is, other bytes are escaped. */
void entries_write(FILE *file, const uint8_t *data, size_t size);

#endif
