/* SPDX-License-Identifier: Apache-2.0 */
/* option_table.h: a command's options as a table, from which its command line is parsed and its help is printed. */
#ifndef CLI_COMMON_OPTION_TABLE_H
#define CLI_COMMON_OPTION_TABLE_H

#include "common/value.h"

#include <stdio.h>

typedef struct option {
    const char *name;       /* without "--" */
    const char *value;      /* the value's name in the help; NULL: a flag */
    const char *help;       /* one line */
    const value_kind *kind; /* NULL: a flag, whose field is a bool */
    value_range range;
    size_t field; /* offset in the struct that the command parses into */
} option;

/* An option's id is its row; a set of options is an integer with one bit for each id. */
typedef struct option_table {
    const char *command; /* as it is typed, for messages: "gradscaler train" */
    const void *rows;    /* an array of structs that begin with an option */
    size_t row_size;
    size_t count; /* of rows, at most 64 */
    size_t help;  /* the id of --help */
    /* Ends an option's line in the help with its default; NULL: nothing to add. */
    void (*print_default)(size_t id, FILE *out);
} option_table;

const option *option_row(const option_table *table, size_t id);
/* The option's field in the command's struct. */
void *option_field(const option_table *table, size_t id, void *options);

/* Reads `--name value`, `--name=value` and flags into *options, which the caller has zeroed. Of an option given twice
 * the last one counts. Nothing after --help or -h is read. *given: the set of the options that were read. Texts of argv
 * are borrowed. false after a line on stderr: the command line is wrong. */
bool option_table_parse(const option_table *table, int argc, char **argv, void *options, uint64_t *given);

/* Prints a line for each option. */
void option_table_print(const option_table *table, FILE *out);

static inline bool option_in(uint64_t set, size_t id) { return (set >> id & 1) != 0; }
static inline void option_add(uint64_t *set, size_t id) { *set |= UINT64_C(1) << id; }

#endif
