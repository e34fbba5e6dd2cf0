/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: prints and reads a run's own object in run.json. */
#include "train/record.h"
#include "base/try.h"
#include "common/message.h"
#include "train/options_resume.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Keys of run.json's "run". */
#define KEY_OPTIONS "options"
#define KEY_DATA "data"
#define KEY_TRAIN "train"
#define KEY_TEST "test"
#define KEY_EXAMPLES "examples"
#define KEY_CHECKSUM "checksum"
#define KEY_STATE "state"

typedef struct checksum_text {
    char text[17];
} checksum_text;

static checksum_text print_checksum(uint64_t checksum)
{
    checksum_text out;
    snprintf(out.text, sizeof out.text, "%016" PRIx64, checksum);
    return out;
}

static json_t *dataset_to_json(const data_checksum *dataset)
{
    return json_pack("{s:I, s:s}", KEY_EXAMPLES, (json_int_t)dataset->examples, KEY_CHECKSUM,
                     print_checksum(dataset->checksum).text);
}

static json_t *data_to_json(const fingerprint *data)
{
    return json_pack("{s:o, s:o}", KEY_TRAIN, dataset_to_json(&data->train), KEY_TEST, dataset_to_json(&data->test));
}

/* The types of run_state's members. */
typedef enum field_type {
    INTEGER,      /* int64_t */
    REAL,         /* double */
    REAL_OR_NULL, /* double; NaN and infinity are written as null, and null is read as NaN */
    OVERFLOW      /* overflow_report; version 0.1.0 wrote it as a text, which is read as none */
} field_type;

typedef struct state_field {
    size_t offset;
    field_type type;
    const char *name;
} state_field;

#define FIELD(name, type)                                                                                              \
    {                                                                                                                  \
        offsetof(run_state, name), type, #name                                                                         \
    }

/* The members of run_state that run.json holds. Their names are its keys. */
static const state_field state_fields[] = {
    FIELD(step, INTEGER),           FIELD(made, INTEGER),
    FIELD(skipped, INTEGER),        FIELD(growths, INTEGER),
    FIELD(backoffs, INTEGER),       FIELD(lr, REAL),
    FIELD(skips_in_a_row, INTEGER), FIELD(scale_before_skips, REAL),
    FIELD(last_overflow, OVERFLOW), FIELD(initial_loss, REAL_OR_NULL),
    FIELD(seconds, REAL),
};
#define STATE_FIELDS (sizeof state_fields / sizeof *state_fields)

/* NULL: no memory, or a value that JSON cannot hold. */
static json_t *field_to_json(const state_field *field, const run_state *state)
{
    const void *value = (const char *)state + field->offset;
    switch (field->type) {
    case INTEGER: return json_integer(*(const int64_t *)value);
    case REAL: return json_real(*(const double *)value);
    case REAL_OR_NULL: return isfinite(*(const double *)value) ? json_real(*(const double *)value) : json_null();
    case OVERFLOW: break;
    }
    return overflow_to_json(value);
}

/* false: not of the field's type. */
static bool read_field(const state_field *field, const json_t *value, run_state *state)
{
    void *out = (char *)state + field->offset;
    switch (field->type) {
    case INTEGER: *(int64_t *)out = json_integer_value(value); return json_is_integer(value);
    case REAL: *(double *)out = json_number_value(value); return json_is_number(value);
    case REAL_OR_NULL:
        *(double *)out = json_is_null(value) ? (double)NAN : json_number_value(value);
        return json_is_null(value) || json_is_number(value);
    case OVERFLOW: break;
    }
    return json_is_string(value) || overflow_from_json(value, out);
}

static json_t *state_to_json(const run_state *state)
{
    json_t *out = json_object();
    for (size_t i = 0; out && i < STATE_FIELDS; i++) {
        if (json_object_set_new(out, state_fields[i].name, field_to_json(&state_fields[i], state)) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

char *record_print(const train_run *run, const run_state *state)
{
    char program[64];
    snprintf(program, sizeof program, "gradscaler %s", gsc_version());
    json_t *options = options_record(run->options);
    json_t *data = data_to_json(&run->output->data);
    json_t *record = json_pack("{s:s, s:o, s:o, s:o}", "program", program, KEY_OPTIONS, options, KEY_DATA, data,
                               KEY_STATE, state_to_json(state));
    char *text = record ? json_dumps(record, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(record);
    return text;
}

static gsc_status refuse(const char *dir, const char *what)
{
    return fail_with(GSC_ERR_VALUE, "%s/run.json: %s: it was not written by `gradscaler train`, or by another version",
                     dir, what);
}

gsc_status record_parse(const char *dir, const char *text, json_t **out)
{
    json_error_t error;
    *out = json_loads(text, 0, &error); /* the library has parsed the text before: only memory can be missing */
    return *out ? GSC_OK : fail_with(GSC_ERR_MEMORY, "%s/run.json: no memory to read it", dir);
}

gsc_status record_options(const char *dir, const json_t *record, const json_t **options)
{
    *options = json_object_get(record, KEY_OPTIONS);
    return json_is_object(*options) ? GSC_OK : refuse(dir, "\"run\" has no \"" KEY_OPTIONS "\"");
}

static gsc_status check_dataset(const char *dir, const char *what, const json_t *recorded, const data_checksum *now)
{
    const char *checksum = json_string_value(json_object_get(recorded, KEY_CHECKSUM));
    const int64_t examples = json_integer_value(json_object_get(recorded, KEY_EXAMPLES));
    const checksum_text text = print_checksum(now->checksum);
    if (!checksum)
        return refuse(dir, "\"" KEY_DATA "\" is incomplete");
    if (examples == now->examples && strcmp(checksum, text.text) == 0)
        return GSC_OK;
    return fail_with(GSC_ERR_VALUE,
                     "the %s data are not those of the run in %s: %" PRId64
                     " examples with checksum %s, the run's are %" PRId64 " with %s; give the run's own with --data",
                     what, dir, now->examples, text.text, examples, checksum);
}

gsc_status record_check_data(const char *dir, const json_t *record, const fingerprint *data)
{
    const json_t *recorded = json_object_get(record, KEY_DATA);
    GSC_TRY(check_dataset(dir, "training", json_object_get(recorded, KEY_TRAIN), &data->train));
    return check_dataset(dir, "test", json_object_get(recorded, KEY_TEST), &data->test);
}

static bool is_possible(const run_state *s)
{
    return s->made >= 0 && s->skipped >= 0 && s->made <= INT64_MAX - s->skipped && s->made + s->skipped == s->step &&
           s->growths >= 0 && s->backoffs >= 0 && s->skips_in_a_row >= 0 && s->skips_in_a_row <= s->skipped &&
           s->lr >= 0 && s->seconds >= 0 && (s->step == 0 || !isnan(s->initial_loss));
}

gsc_status record_state(const char *dir, const json_t *record, run_state *out)
{
    const json_t *values = json_object_get(record, KEY_STATE);
    run_state state = {.saved_step = -1};
    for (size_t i = 0; i < STATE_FIELDS; i++)
        if (!read_field(&state_fields[i], json_object_get(values, state_fields[i].name), &state))
            return refuse(dir, "\"" KEY_STATE "\" is incomplete");
    if (!is_possible(&state))
        return refuse(dir, "\"" KEY_STATE "\" does not add up");
    *out = state;
    return GSC_OK;
}

int64_t record_step(const json_t *record)
{
    const json_t *step = json_object_get(json_object_get(record, KEY_STATE), "step");
    return json_is_integer(step) ? json_integer_value(step) : -1;
}
