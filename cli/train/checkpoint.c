/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c: saves and loads a run with the library's checkpoints. */
#include "train/checkpoint.h"
#include "base/try.h"
#include "common/escape.h"
#include "common/message.h"
#include "train/record.h"

#include "gradscaler/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>

/* The lists of a gsc_checkpoint. */
typedef struct parts {
    gsc_named_tensor *tensors;
    gsc_named_optim optim;
    gsc_named_scaler scaler;
} parts;

/* p->tensors is to be freed with free(). */
static gsc_status list_parts(const train_run *run, parts *p, gsc_checkpoint *out)
{
    const size_t n = gsc_module_param_count(run->model);
    *p = (parts){malloc(n * sizeof *p->tensors), {NULL, run->optim}, {NULL, run->scaler}};
    if (!p->tensors)
        return fail_with(GSC_ERR_MEMORY, "no memory for a list of %zu parameters", n);
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
    GSC_TRY(metrics_sync(&run->output->metrics));
    GSC_TRY(list_parts(run, &p, &checkpoint));
    char *text = record_print(run, state);
    checkpoint.run = text;
    gsc_status status = text ? gsc_checkpoint_save(run->output->dir, &checkpoint)
                             : fail_with(GSC_ERR_MEMORY, "no memory to describe the run");
    free(text);
    free(p.tensors);
    return status;
}

static gsc_status read_record(const char *dir, json_t **record, const json_t **options)
{
    char *text;
    GSC_TRY(gsc_checkpoint_read_run(dir, &text));
    json_t *parsed = NULL;
    gsc_status status = record_parse(dir, text, &parsed);
    gsc_free(text);
    if (status == GSC_OK)
        status = record_options(dir, parsed, options);
    if (status == GSC_OK)
        *record = parsed;
    else
        json_decref(parsed);
    return status;
}

int64_t checkpoint_step(const char *dir)
{
    json_t *record = NULL;
    const json_t *options;
    if (read_record(dir, &record, &options) != GSC_OK)
        return -1;
    const int64_t step = record_step(record);
    json_decref(record);
    return step;
}

/* Explains a folder that has checkpoints but no link to one of them, like a copy that dropped symbolic links; names the
 * later checkpoint. */
static gsc_status check_link(const char *dir)
{
    static const char *const folders[] = {GSC_CHECKPOINT_0, GSC_CHECKPOINT_1};
    const char *found = NULL;
    int64_t last = -1;
    if (path_exists(dir, GSC_CHECKPOINT_RUN) || path_exists(dir, GSC_CHECKPOINT_CURRENT))
        return GSC_OK;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[PATH_SIZE];
        const int64_t step = path_join(path, dir, folders[i]) == GSC_OK ? checkpoint_step(path) : -1;
        if (step > last) {
            found = folders[i];
            last = step;
        }
    }
    if (!found)
        return GSC_OK;
    char link[PATH_SIZE];
    GSC_TRY(path_join(link, dir, GSC_CHECKPOINT_CURRENT));
    return fail_with(GSC_ERR_VALUE,
                     "%s: %s has a checkpoint of step %" PRId64
                     ", but the symbolic link 'checkpoint' to it is missing or broken; restore it with: ln -sfn %s %s",
                     dir, found, last, found, quote_path(link).text);
}

gsc_status checkpoint_read(const char *dir, json_t **record, const json_t **options)
{
    GSC_TRY(check_link(dir));
    return read_record(dir, record, options);
}

/* Before anything is loaded. */
static gsc_status check_recorded_data(const char *dir, const fingerprint *data)
{
    json_t *record = NULL;
    const json_t *options;
    GSC_TRY(checkpoint_read(dir, &record, &options));
    gsc_status status = record_check_data(dir, record, data);
    json_decref(record);
    return status;
}

static gsc_status load_parts(const char *dir, const train_run *run, char **text)
{
    parts p;
    gsc_checkpoint checkpoint;
    GSC_TRY(list_parts(run, &p, &checkpoint));
    gsc_status status = gsc_checkpoint_load(dir, &checkpoint, text);
    free(p.tensors);
    return status;
}

gsc_status checkpoint_load(const char *dir, const train_run *run, const fingerprint *data, run_state *out)
{
    char *text;
    json_t *record = NULL;
    GSC_TRY(check_recorded_data(dir, data));
    GSC_TRY(load_parts(dir, run, &text));
    gsc_status status = record_parse(dir, text, &record);
    gsc_free(text);
    GSC_TRY(status);
    status = record_state(dir, record, out);
    json_decref(record);
    return status;
}
