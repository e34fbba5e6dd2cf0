/* SPDX-License-Identifier: Apache-2.0 */
/* summary_fields PREFIX: reads what `gradscaler train --json` wrote from stdin, checks that it is exactly one JSON
 * object with exactly the documented keys and types, and prints a line PREFIX_key=value for each; of last_overflow its
 * step, 0 for null. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct field {
    const char *key;
    json_type type;
} field;

static const field fields[] = {
    {"data", JSON_STRING},      {"model", JSON_STRING},         {"precision", JSON_STRING},  {"scaler", JSON_STRING},
    {"seed", JSON_INTEGER},     {"epochs", JSON_INTEGER},       {"steps", JSON_INTEGER},     {"skipped", JSON_INTEGER},
    {"growths", JSON_INTEGER},  {"backoffs", JSON_INTEGER},     {"initial_loss", JSON_REAL}, {"loss", JSON_REAL},
    {"accuracy", JSON_REAL},    {"final_scale", JSON_REAL},     {"images_per_s", JSON_REAL}, {"seconds", JSON_REAL},
    {"peak_rss_mb", JSON_REAL}, {"last_overflow", JSON_OBJECT},
};
#define FIELDS (sizeof fields / sizeof *fields)

static int print_field(const json_t *summary, const field *f, const char *prefix)
{
    const json_t *value = json_object_get(summary, f->key);
    const int absent_accuracy = strcmp(f->key, "accuracy") == 0 && json_is_null(value);
    const int absent_overflow = strcmp(f->key, "last_overflow") == 0 && json_is_null(value);
    if (!value || (json_typeof(value) != f->type && !absent_accuracy && !absent_overflow)) {
        printf("FAILED: key %s is absent or of the wrong type\n", f->key);
        return 1;
    }
    if (absent_accuracy)
        printf("%s_%s=null\n", prefix, f->key);
    else if (f->type == JSON_OBJECT)
        printf("%s_%s=%lld\n", prefix, f->key, (long long)json_integer_value(json_object_get(value, "step")));
    else if (json_is_string(value))
        printf("%s_%s=%s\n", prefix, f->key, json_string_value(value));
    else
        printf("%s_%s=%.17g\n", prefix, f->key, json_number_value(value));
    return 0;
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *summary = argc == 2 ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!json_is_object(summary) || json_object_size(summary) != FIELDS) {
        printf("FAILED: stdout is not one JSON object of %zu keys\n", FIELDS);
        json_decref(summary);
        return 1;
    }
    int wrong = 0;
    for (size_t i = 0; i < FIELDS; i++)
        wrong |= print_field(summary, &fields[i], argv[1]);
    json_decref(summary);
    return wrong;
}
