/* SPDX-License-Identifier: Apache-2.0 */
/* option_table.h: a command's options as a table, from which its command line is parsed and its help is printed. */
#ifndef CLI_COMMON_OPTION_TABLE_H
#define CLI_COMMON_OPTION_TABLE_H

#include "common/value.h"

#include <stdio.h>

typedef struct option {
    const char *name;        /* without "--" */
    const char *placeholder; /* stands for the value in the help: "DIR"; NULL: a flag */
    const char *help;        /* one line */
    const value_kind *kind;  /* NULL: a flag, whose field is a bool */
    value_range range;
    size_t field;        /* offset in the struct that the command parses into */
    const char *aliases; /* what other programs call it, separated by spaces, for suggestions; NULL: none */
} option;

static inline bool option_is_flag(const option *o) { return !o->kind; }

/* An option's id is the index of its row. */
typedef struct option_table {
    const char *command; /* as it is typed, for messages: "gradscaler train" */
    const void *rows;    /* an array of the command's own structs, whose first member is an option */
    size_t row_size;     /* of one of these structs */
    size_t count;        /* of rows, at most 64: option_set has a bit for each */
    size_t help_id;      /* of the option --help */
    /* Ends an option's line in the help with its default; NULL: nothing to add. */
    void (*print_default)(size_t id, FILE *out);
} option_table;

/* A set of options: bit `id` is set if the option is in it. */
typedef uint64_t option_set;

const option *option_row(const option_table *table, size_t id);
/* The option's field in the command's struct. */
void *option_field(const option_table *table, size_t id, void *options);

/* Reads `--name value`, `--name=value` and flags into *options, which the caller has zeroed. If an option is
 * given twice, the last value is used. Nothing after --help or -h is read. *given: the set of the options that were
 * read. Texts of argv are borrowed. false after a line on stderr: the command line is wrong. */
bool option_table_parse(const option_table *table, int argc, char **argv, void *options, option_set *given);

/* Prints a line for each option. */
void option_table_print(const option_table *table, FILE *out);

static inline bool option_in(option_set set, size_t id) { return (set >> id & 1) != 0; }
static inline void option_add(option_set *set, size_t id) { *set |= UINT64_C(1) << id; }

#endif
