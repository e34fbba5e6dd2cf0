/* SPDX-License-Identifier: Apache-2.0 */
/* entries.h: the entries of a text file, corpus/<topic>.txt: one fuzz input a line.
 *
 * In an entry, \n, \r, \t, \0, \\ and \xhh (two lower-case hexadecimal digits) stand for bytes, other bytes for
 * themselves. A backslash at the end of a line stands for nothing: an entry without bytes is written as one, and it
 * protects a space at the end from editors. Empty lines and lines that begin with # are no entries. */
#ifndef GSC_FUZZ_ENTRIES_H
#define GSC_FUZZ_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* `line` is the number of the entry's line, from 1. */
typedef void entry_visitor(void *ctx, int line, const uint8_t *data, size_t size);

/* Visits the entries of a file in order. Returns false, with a message on stderr, if the file cannot be read or an
 * entry has an unknown escape. */
bool entries_visit(const char *path, entry_visitor *visit, void *ctx);

/* Appends an entry for an input. Printable ASCII stays as it is, other bytes are escaped. */
void entries_write(FILE *file, const uint8_t *data, size_t size);

#endif
