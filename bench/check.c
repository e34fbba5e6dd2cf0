/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: check FILE TOPIC... fails unless FILE is what bench --json writes: every TOPIC has rows, and the numbers of
 * every row are finite and positive. It judges no time. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_positive(const json_t *row, const char *field)
{
    const json_t *value = json_object_get(row, field); /* JSON has neither infinities nor NaNs */
    if (json_is_number(value) && json_number_value(value) > 0)
        return true;
    fprintf(stderr, "check: %s is not a positive number in: ", field);
    json_dumpf(row, stderr, JSON_COMPACT);
    fprintf(stderr, "\n");
    return false;
}

static bool is_valid_row(const json_t *row)
{
    static const char *const fields[] = {"elements", "tensors", "threads", "ours", "reference", "ratio"};
    bool valid = json_is_string(json_object_get(row, "what"));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        valid = is_positive(row, fields[i]) && valid;
    return valid;
}

static size_t count_rows(const json_t *rows, const char *topic)
{
    size_t index, count = 0;
    const json_t *row;
    json_array_foreach(rows, index, row)
    {
        const char *row_topic = json_string_value(json_object_get(row, "topic"));
        count += row_topic && strcmp(row_topic, topic) == 0;
    }
    return count;
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *root = argc > 1 ? json_load_file(argv[1], JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!root) {
        fprintf(stderr, "check: %s\n", argc > 1 ? error.text : "no file given");
        return 1;
    }
    const json_t *rows = json_object_get(root, "rows"), *row;
    bool valid = json_array_size(rows) > 0;
    size_t index;
    json_array_foreach(rows, index, row) valid = is_valid_row(row) && valid;
    for (int i = 2; i < argc; i++)
        if (count_rows(rows, argv[i]) == 0) {
            fprintf(stderr, "check: no row of topic \"%s\"\n", argv[i]);
            valid = false;
        }
    json_decref(root);
    return valid ? 0 : 1;
}
