/* SPDX-License-Identifier: Apache-2.0 */
/* option_table.c: parses a command line by a table of options, and prints the table as help. */
#include "common/option_table.h"
#include "common/message.h"
#include "common/suggest.h"

#include <string.h>

const option *option_row(const option_table *table, size_t id)
{
    return (const option *)(const void *)((const char *)table->rows + id * table->row_size);
}

void *option_field(const option_table *table, size_t id, void *options)
{
    return (char *)options + option_row(table, id)->field;
}

/* The id of the option that `argument` names, or table->count; *value: what follows its "=", NULL without one. */
static size_t find_option(const option_table *table, const char *argument, const char **value)
{
    *value = NULL;
    if (strcmp(argument, "-h") == 0)
        return table->help_id;
    if (strncmp(argument, "--", 2) != 0)
        return table->count;
    const char *name = argument + 2;
    const size_t length = strcspn(name, "=");
    if (name[length] == '=')
        *value = name + length + 1;
    size_t id = 0;
    while (id < table->count &&
           !(strlen(option_row(table, id)->name) == length && strncmp(option_row(table, id)->name, name, length) == 0))
        id++;
    return id;
}

/* "--name" or "--name value" */
typedef struct suggestion {
    char text[2 * SUGGEST_SIZE];
} suggestion;

static suggestion suggest_option(const option *o, const char *value)
{
    suggestion out;
    snprintf(out.text, sizeof out.text, "--%s%s%s", o->name, value ? " " : "", value ? value : "");
    return out;
}

/* An option with this name or alias, or with this word among its values. Empty: none. */
static suggestion find_meant(const option_table *table, const char *name)
{
    for (size_t id = 0; id < table->count; id++) {
        const option *o = option_row(table, id);
        if (strcmp(o->name, name) == 0 || suggest_is_listed(name, o->aliases))
            return suggest_option(o, NULL);
    }
    for (size_t id = 0; id < table->count; id++) {
        const option *o = option_row(table, id);
        for (const char *const *word = o->range.choices; word && *word; word++)
            if (strcmp(*word, name) == 0)
                return suggest_option(o, *word);
    }
    return (suggestion){""};
}

/* The option whose name or alias differs by the fewest typing errors. Empty: none is near. */
static suggestion find_nearest(const option_table *table, const char *name)
{
    const option *nearest = NULL;
    size_t best = SUGGEST_SIZE;
    for (size_t id = 0; id < table->count; id++) {
        const option *o = option_row(table, id);
        const size_t distance = suggest_distance_to(name, o->name, o->aliases);
        if (distance < best) {
            best = distance;
            nearest = o;
        }
    }
    return nearest && suggest_is_near(name, best) ? suggest_option(nearest, NULL) : (suggestion){""};
}

static bool refuse_argument(const option_table *table, const char *argument)
{
    char name[SUGGEST_SIZE];
    suggest_normalize(name, argument);
    const bool is_option = argument[0] == '-';
    suggestion meant = find_meant(table, name);
    if (!meant.text[0] && is_option)
        meant = find_nearest(table, name);
    char question[sizeof meant + sizeof "did you mean ? "] = "";
    if (meant.text[0])
        snprintf(question, sizeof question, "did you mean %s? ", meant.text);
    if (is_option)
        say("unknown option '%s'; %s`%s --help` lists the options", argument, question, table->command);
    else
        say("unexpected argument '%s'; %s%svery value needs its option, see `%s --help`", argument, question,
            question[0] ? "E" : "e", table->command);
    return false;
}

static bool set_flag(const option *o, const char *value, bool *field)
{
    if (value) {
        say("--%s takes no value, but got '%s'", o->name, value);
        return false;
    }
    *field = true;
    return true;
}

static bool set_value(const option *o, const char *value, void *field)
{
    if (value && o->kind->parse(&o->range, value, field))
        return true;
    char allowed[160];
    o->kind->describe(&o->range, allowed, sizeof allowed);
    if (value)
        say("--%s '%s' is not possible; give %s", o->name, value, allowed);
    else
        say("--%s needs a value: %s", o->name, allowed);
    return false;
}

bool option_table_parse(const option_table *table, int argc, char **argv, void *options, option_set *given)
{
    *given = 0;
    for (int i = 0; i < argc && !option_in(*given, table->help_id); i++) {
        const char *value;
        const size_t id = find_option(table, argv[i], &value);
        if (id == table->count)
            return refuse_argument(table, argv[i]);
        const option *o = option_row(table, id);
        void *field = option_field(table, id, options);
        /* In "--lr --json" the value is missing. A value that begins with "--" is written --data=--name. */
        if (!option_is_flag(o) && !value && i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0)
            value = argv[++i];
        if (!(option_is_flag(o) ? set_flag(o, value, field) : set_value(o, value, field)))
            return false;
        option_add(given, id);
    }
    return true;
}

void option_table_print(const option_table *table, FILE *out)
{
    for (size_t id = 0; id < table->count; id++) {
        const option *o = option_row(table, id);
        char left[64];
        snprintf(left, sizeof left, "--%s %s", o->name, o->placeholder ? o->placeholder : "");
        fprintf(out, "  %-26s %s", left, o->help);
        if (table->print_default)
            table->print_default(id, out);
        fputc('\n', out);
    }
}
