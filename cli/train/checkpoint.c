/* SPDX-License-Identifier: Apache-2.0 */
#include "train/checkpoint.h"

#include "gradscaler/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sum_text {
    char text[17];
} sum_text;

static sum_text print_sum(uint64_t checksum)
{
    sum_text out;
    snprintf(out.text, sizeof out.text, "%016" PRIx64, checksum);
    return out;
}

static json_t *describe_set(const data_sum *sum)
{
    return json_pack("{s:I, s:s}", "examples", (json_int_t)sum->examples, "checksum", print_sum(sum->checksum).text);
}

static json_t *describe_state(const run_state *state)
{
    json_t *loss = isfinite(state->initial_loss) ? json_real(state->initial_loss) : json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:s, s:o, s:f}", /**/
                     "step", (json_int_t)state->step,                           /**/
                     "made", (json_int_t)state->made,                           /**/
                     "skipped", (json_int_t)state->skipped,                     /**/
                     "growths", (json_int_t)state->growths,                     /**/
                     "backoffs", (json_int_t)state->backoffs,                   /**/
                     "lr", state->lr,                                           /**/
                     "skips_in_a_row", (json_int_t)state->skips_in_a_row,       /**/
                     "scale_before_skips", state->scale_before_skips,           /**/
                     "last_overflow", state->last_overflow,                     /**/
                     "initial_loss", loss, "seconds", state->seconds);          /**/
}

/* The text of run.json's own part, to be freed with free(). NULL: no memory. */
static char *describe(const train_run *run, const run_state *state)
{
    const fingerprint *data = &run->output->data;
    char program[64];
    snprintf(program, sizeof program, "gradscaler %s", gsc_version());
    json_t *record = json_pack("{s:s, s:o, s:{s:o, s:o}, s:o}", "program", program, "options",
                               options_record(run->options), "data", "train", describe_set(&data->train), "test",
                               describe_set(&data->test), "state", describe_state(state));
    char *text = record ? json_dumps(record, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(record);
    return text;
}

/* The lists of a checkpoint. */
typedef struct parts {
    gsc_named_tensor *tensors;
    gsc_named_optim optim;
    gsc_named_scaler scaler;
} parts;

/* Free p->tensors with free(). */
static gsc_status list_parts(const train_run *run, parts *p, gsc_checkpoint *out)
{
    const size_t n = gsc_module_param_count(run->model);
    *p = (parts){malloc(n * sizeof *p->tensors), {NULL, run->optim}, {NULL, run->scaler}};
    if (!p->tensors)
        return gsc_fail(GSC_ERR_MEMORY, "no memory for a list of %zu parameters", n);
    for (size_t i = 0; i < n; i++) {
        gsc_tensor *param = gsc_module_param(run->model, i);
        p->tensors[i] = (gsc_named_tensor){gsc_tensor_get_name(param), gsc_tensor_data(param)};
    }
    *out = (gsc_checkpoint){.tensors = p->tensors,
                            .tensor_count = n,
                            .optims = &p->optim,
                            .optim_count = 1,
                            .scalers = &p->scaler,
                            .scaler_count = 1};
    return GSC_OK;
}

gsc_status checkpoint_save(const train_run *run, const run_state *state)
{
    parts p;
    gsc_checkpoint checkpoint;
    gsc_status status = metrics_sync(&run->output->metrics);
    if (status == GSC_OK)
        status = list_parts(run, &p, &checkpoint);
    if (status != GSC_OK)
        return status;
    char *text = describe(run, state);
    checkpoint.run = text;
    status = text ? gsc_checkpoint_save(run->output->dir, &checkpoint)
                  : gsc_fail(GSC_ERR_MEMORY, "no memory to describe the run");
    free(text);
    free(p.tensors);
    return status;
}

static gsc_status refuse(const char *dir, const char *what)
{
    return gsc_fail(GSC_ERR_VALUE, "%s/run.json: %s: it was not written by `gradscaler train`, or by another version",
                    dir, what);
}

static gsc_status parse(const char *dir, const char *text, json_t **out)
{
    json_error_t error;
    *out = json_loads(text, 0, &error);
    return *out ? GSC_OK : gsc_fail(GSC_ERR_MEMORY, "%s/run.json: no memory to read it", dir);
}

static gsc_status read_record(const char *dir, json_t **record, const json_t **options)
{
    char *text;
    gsc_status status = gsc_checkpoint_read_run(dir, &text);
    if (status != GSC_OK)
        return status;
    json_t *read;
    status = parse(dir, text, &read);
    gsc_free(text);
    if (status != GSC_OK)
        return status;
    *options = json_object_get(read, "options");
    if (!json_is_object(*options)) {
        json_decref(read);
        return refuse(dir, "\"run\" has no \"options\"");
    }
    *record = read;
    return GSC_OK;
}

int64_t checkpoint_step(const char *dir)
{
    json_t *record = NULL;
    const json_t *options;
    if (read_record(dir, &record, &options) != GSC_OK)
        return -1;
    const json_t *step = json_object_get(json_object_get(record, "state"), "step");
    const int64_t found = json_is_integer(step) ? json_integer_value(step) : -1;
    json_decref(record);
    return found;
}

/* A folder whose checkpoints are there but not the link to one of them, as copies have it that dropped the symbolic
 * links. Then the later one is named. */
static gsc_status check_link(const char *dir)
{
    static const char *const folders[] = {"checkpoint-0", "checkpoint-1"};
    const char *found = NULL;
    int64_t last = -1;
    for (size_t i = 0; i < 2 && !path_exists(dir, "run.json") && !path_exists(dir, "checkpoint"); i++) {
        char path[PATH_SIZE];
        const int64_t step = path_join(path, dir, folders[i]) == GSC_OK ? checkpoint_step(path) : -1;
        if (step > last) {
            found = folders[i];
            last = step;
        }
    }
    if (!found)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE,
                    "%s: %s has a checkpoint of step %" PRId64
                    ", but the symbolic link 'checkpoint' to it is missing or broken; restore it with: ln -sfn %s "
                    "%s/checkpoint",
                    dir, found, last, found, dir);
}

gsc_status checkpoint_read(const char *dir, json_t **record, const json_t **options)
{
    gsc_status status = check_link(dir);
    return status == GSC_OK ? read_record(dir, record, options) : status;
}

static gsc_status check_set(const char *dir, const char *what, const json_t *own, const data_sum *now)
{
    const char *checksum = json_string_value(json_object_get(own, "checksum"));
    const int64_t examples = json_integer_value(json_object_get(own, "examples"));
    const sum_text text = print_sum(now->checksum);
    if (!checksum)
        return refuse(dir, "\"data\" is incomplete");
    if (examples == now->examples && strcmp(checksum, text.text) == 0)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE,
                    "the %s data are not those of the run in %s: %" PRId64 " examples with checksum %s, there %" PRId64
                    " with %s; give the run's own with --data",
                    what, dir, now->examples, text.text, examples, checksum);
}

static gsc_status check_data(const char *dir, const json_t *record, const fingerprint *data)
{
    const json_t *own = json_object_get(record, "data");
    gsc_status status = check_set(dir, "training", json_object_get(own, "train"), &data->train);
    return status == GSC_OK ? check_set(dir, "test", json_object_get(own, "test"), &data->test) : status;
}

static bool is_possible(const run_state *s)
{
    return s->made >= 0 && s->skipped >= 0 && s->made <= INT64_MAX - s->skipped && s->made + s->skipped == s->step &&
           s->growths >= 0 && s->backoffs >= 0 && s->skips_in_a_row >= 0 && s->skips_in_a_row <= s->skipped &&
           s->lr >= 0 && s->seconds >= 0 && (s->step == 0 || !isnan(s->initial_loss));
}

static gsc_status read_state(const char *dir, const json_t *record, run_state *out)
{
    json_int_t step, made, skipped, growths, backoffs, row;
    run_state s = {0};
    const char *overflow;
    const json_t *loss;
    if (json_unpack(json_object_get(record, "state"), "{s:I, s:I, s:I, s:I, s:I, s:F, s:I, s:F, s:s, s:o, s:F}", /**/
                    "step", &step, "made", &made, "skipped", &skipped,                                           /**/
                    "growths", &growths, "backoffs", &backoffs, "lr", &s.lr,                                     /**/
                    "skips_in_a_row", &row, "scale_before_skips", &s.scale_before_skips, "last_overflow", &overflow,
                    "initial_loss", &loss, "seconds", &s.seconds) != 0 ||
        !(json_is_number(loss) || json_is_null(loss)))
        return refuse(dir, "\"state\" is incomplete");
    s.step = step;
    s.made = made;
    s.skipped = skipped;
    s.growths = growths;
    s.backoffs = backoffs;
    s.skips_in_a_row = row;
    s.initial_loss = json_is_null(loss) ? (double)NAN : json_number_value(loss);
    snprintf(s.last_overflow, sizeof s.last_overflow, "%s", overflow);
    if (!is_possible(&s))
        return refuse(dir, "\"state\" does not add up");
    *out = s;
    return GSC_OK;
}

gsc_status checkpoint_load(const char *dir, const train_run *run, const fingerprint *data, run_state *out)
{
    parts p;
    gsc_checkpoint checkpoint;
    json_t *record = NULL;
    const json_t *options;
    char *text = NULL;
    gsc_status status = checkpoint_read(dir, &record, &options);
    if (status == GSC_OK)
        status = check_data(dir, record, data);
    json_decref(record);
    if (status == GSC_OK)
        status = list_parts(run, &p, &checkpoint);
    if (status != GSC_OK)
        return status;
    status = gsc_checkpoint_load(dir, &checkpoint, &text);
    free(p.tensors);
    if (status != GSC_OK)
        return status;
    status = parse(dir, text, &record);
    gsc_free(text);
    if (status == GSC_OK)
        status = read_state(dir, record, out);
    json_decref(record);
    return status;
}
