/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: gsc_checkpoint_load and gsc_checkpoint_read_run. Everything is read and verified before the first change.
 * Then only the scalers can fail: they are loaded first, and get their old states back after a failure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fpenv.h"
#include "base/try.h"
#include "train/checkpoint/check.h"
#include "train/checkpoint/folder.h"
#include "train/checkpoint/optim.h"
#include "train/checkpoint/run.h"
#include "train/checkpoint/scaler.h"
#include "train/io/files.h"
#include "train/io/safetensors_read.h"
#include "train/io/safetensors_write.h"
#include "train/tensor/tensor.h"

#define LOAD "gsc_checkpoint_load"

/* A checkpoint that is being loaded; zero-initialised. */
typedef struct loading {
    const gsc_checkpoint *into;
    gsc__file_sum sums[GSC_FILES];
    gsc__mapping mappings[GSC_FILES];
    gsc_safetensors *model, *optimizer;
    gsc__optim_tensors optims;
    gsc_scaler_state *scaler_states;
    json_t *run;
    char *run_text;
} loading;

static void release(loading *l)
{
    for (size_t i = 0; i < GSC_FILES; i++)
        gsc__mapping_close(&l->mappings[i]);
    gsc_safetensors_close(l->model);
    gsc_safetensors_close(l->optimizer);
    gsc__optim_tensors_free(&l->optims);
    free(l->scaler_states);
    json_decref(l->run);
    free(l->run_text);
}

static gsc_status verify_file(const char *path, const gsc__mapping *mapping, const gsc__file_sum *sum)
{
    if (mapping->size != sum->size)
        return gsc_fail(GSC_ERR_VALUE, "%s: has %zu bytes, %llu were saved; it is truncated or not of this checkpoint",
                        path, mapping->size, (unsigned long long)sum->size);
    uint32_t crc = (uint32_t)crc32_z(0, NULL, 0);
    if (mapping->size > 0)
        crc = (uint32_t)crc32_z(crc, mapping->data, mapping->size);
    if (crc != sum->crc)
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: is damaged or not of this checkpoint: its CRC-32 is %08x, that of what was saved %08x",
                        path, (unsigned)crc, (unsigned)sum->crc);
    return GSC_OK;
}

static gsc_status open_files(loading *l, const gsc__generation *generation)
{
    GSC_TRY(gsc__run_read(generation, &l->run, l->sums));
    for (size_t i = 0; i < GSC_FILE_RUN; i++) {
        const char *path = generation->paths[i];
        if (!l->sums[i].present)
            continue;
        GSC_TRY(gsc__mapping_open(generation->folder, gsc__checkpoint_files[i], path, &l->mappings[i]));
        GSC_TRY(verify_file(path, &l->mappings[i], &l->sums[i]));
    }
    return GSC_OK;
}

static gsc_status check_present(const loading *l, const gsc__generation *generation)
{
    const size_t wanted[GSC_FILE_RUN] = {l->into->tensor_count, l->into->optim_count, l->into->scaler_count};
    for (size_t i = 0; i < GSC_FILE_RUN; i++)
        if (wanted[i] > 0 && !l->sums[i].present)
            return gsc_fail(GSC_ERR_VALUE, "%s: was not saved in this checkpoint, so it cannot be loaded",
                            generation->paths[i]);
    return GSC_OK;
}

/* "F32 [2, 3]" */
typedef struct tensor_text {
    char text[sizeof(gsc__shape_text) + 32];
} tensor_text;

static tensor_text print_tensor(const DLTensor *tensor)
{
    tensor_text out;
    const char *dtype = gsc__safetensors_dtype_of(tensor->dtype)->name;
    if (tensor->ndim > GSC_TENSOR_MAX_DIMS)
        snprintf(out.text, sizeof out.text, "%s of %d dimensions", dtype, (int)tensor->ndim);
    else
        snprintf(out.text, sizeof out.text, "%s %s", dtype, gsc__shape_print(tensor->ndim, tensor->shape).text);
    return out;
}

static bool is_alike(const DLTensor *a, const DLTensor *b)
{
    return gsc__safetensors_dtype_of(a->dtype) == gsc__safetensors_dtype_of(b->dtype) && a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

static bool is_listed(const gsc_named_tensor *tensors, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return true;
    return false;
}

/* Whether the file holds exactly these tensors. Their names are known to differ from each other. */
static gsc_status match_tensors(const char *path, const gsc_safetensors *file, const gsc_named_tensor *tensors,
                                size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const DLTensor *saved = gsc_safetensors_find(file, tensors[i].name);
        if (!saved)
            return gsc_fail(GSC_ERR_VALUE, "%s: holds no tensor \"%s\"", path, tensors[i].name);
        if (!is_alike(saved, tensors[i].tensor))
            return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\" is %s, but %s is to be loaded", path, tensors[i].name,
                            print_tensor(saved).text, print_tensor(tensors[i].tensor).text);
    }
    for (size_t i = 0; n != gsc_safetensors_count(file) && i < gsc_safetensors_count(file); i++)
        if (!is_listed(tensors, n, gsc_safetensors_name(file, i)))
            return gsc_fail(GSC_ERR_VALUE, "%s: holds tensor \"%s\", which has no place among the %zu to be loaded",
                            path, gsc_safetensors_name(file, i), n);
    return GSC_OK;
}

/* What can be loaded into is what could be saved: the same checks. */
static gsc_status check_tensors(const gsc_named_tensor *tensors, size_t n)
{
    gsc__safetensors_plan plan;
    GSC_TRY(gsc__safetensors_plan_create(LOAD, tensors, n, NULL, 0, &plan));
    gsc__safetensors_plan_free(&plan);
    return GSC_OK;
}

static void copy_elements(const gsc_safetensors *file, const gsc_named_tensor *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const DLTensor *saved = gsc_safetensors_find(file, tensors[i].name);
        int64_t bytes = 0;
        gsc__safetensors_bytes(gsc__safetensors_dtype_of(saved->dtype), saved->ndim, saved->shape, &bytes);
        if (bytes > 0)
            memcpy(gsc__elements(tensors[i].tensor), gsc__elements(saved), (size_t)bytes);
    }
}

static gsc_status read_model(loading *l, const char *path)
{
    const gsc_checkpoint *into = l->into;
    GSC_TRY(check_tensors(into->tensors, into->tensor_count));
    GSC_TRY(gsc__safetensors_open_mapping(path, &l->mappings[GSC_FILE_MODEL], &l->model));
    return match_tensors(path, l->model, into->tensors, into->tensor_count);
}

static gsc_status match_kinds(const char *path, const gsc_safetensors *file, const gsc__optim_tensors *optims)
{
    for (size_t i = 0; i < optims->kind_count; i++) {
        const gsc_metadata *kind = &optims->kinds[i];
        const char *saved = gsc_safetensors_metadata_find(file, kind->key);
        if (!saved || strcmp(saved, kind->value) != 0)
            return gsc_fail(GSC_ERR_VALUE, "%s: its \"%s\" is %s, but %s is to be loaded", path, kind->key,
                            saved ? saved : "missing", kind->value);
    }
    return GSC_OK;
}

static gsc_status read_optims(loading *l, const char *path)
{
    const gsc_named_optim *optims = l->into->optims;
    size_t n = l->into->optim_count;
    GSC_TRY(gsc__optim_tensors_create(LOAD, optims, n, &l->optims));
    GSC_TRY(check_tensors(l->optims.tensors, l->optims.count));
    GSC_TRY(gsc__safetensors_open_mapping(path, &l->mappings[GSC_FILE_OPTIMIZER], &l->optimizer));
    GSC_TRY(match_kinds(path, l->optimizer, &l->optims));
    GSC_TRY(match_tensors(path, l->optimizer, l->optims.tensors, l->optims.count));
    copy_elements(l->optimizer, l->optims.tensors, l->optims.scalar_count); /* into l->optims: changes no optimizer */
    return gsc__optim_tensors_check(path, &l->optims, optims, n);
}

static gsc_status read_scalers(loading *l, const char *path)
{
    const gsc__mapping *mapping = &l->mappings[GSC_FILE_SCALER];
    l->scaler_states = calloc(l->into->scaler_count, sizeof *l->scaler_states);
    if (!l->scaler_states)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    return gsc__scalers_parse(path, mapping->data ? (const char *)mapping->data : "", mapping->size, l->into->scalers,
                              l->into->scaler_count, l->scaler_states);
}

/* The text is to be freed with free(). */
static gsc_status print_run(const json_t *run, char **out)
{
    size_t size;
    *out = gsc__json_print(run, GSC_JSON_REALS, &size);
    return *out ? GSC_OK : gsc_fail(GSC_ERR_MEMORY, "run.json: out of memory");
}

static gsc_status read_all(loading *l, const gsc__generation *generation)
{
    GSC_TRY(open_files(l, generation));
    GSC_TRY(check_present(l, generation));
    if (l->into->tensor_count > 0)
        GSC_TRY(read_model(l, generation->paths[GSC_FILE_MODEL]));
    if (l->into->optim_count > 0)
        GSC_TRY(read_optims(l, generation->paths[GSC_FILE_OPTIMIZER]));
    if (l->into->scaler_count > 0)
        GSC_TRY(read_scalers(l, generation->paths[GSC_FILE_SCALER]));
    return print_run(l->run, &l->run_text);
}

/* Loads *state into the scaler and stores the scaler's old one in *state. */
static gsc_status exchange_state(gsc_scaler *scaler, gsc_scaler_state *state)
{
    gsc_scaler_state old;
    GSC_TRY(gsc_scaler_state_dict(scaler, &old));
    GSC_TRY(gsc_scaler_load_state_dict(scaler, state));
    *state = old;
    return GSC_OK;
}

/* Loads all states or none: after a failure, the scalers before it get their old states back. */
static gsc_status apply_scalers(const gsc_checkpoint *into, gsc_scaler_state *states)
{
    gsc_status status = GSC_OK;
    size_t done = 0;
    while (done < into->scaler_count && (status = exchange_state(into->scalers[done].scaler, &states[done])) == GSC_OK)
        done++;
    while (status != GSC_OK && done-- > 0)
        gsc_scaler_load_state_dict(into->scalers[done].scaler, &states[done]);
    return status;
}

static gsc_status apply(const loading *l, const gsc__generation *generation)
{
    const gsc_checkpoint *into = l->into;
    gsc_status status = apply_scalers(into, l->scaler_states);
    if (status != GSC_OK)
        return gsc_fail(status, "%s: %s", generation->paths[GSC_FILE_SCALER], gsc_last_error());
    copy_elements(l->model, into->tensors, into->tensor_count);
    copy_elements(l->optimizer, l->optims.tensors + l->optims.scalar_count, l->optims.count - l->optims.scalar_count);
    gsc__optim_tensors_apply(&l->optims, into->optims, into->optim_count);
    return GSC_OK;
}

static gsc_status load(const char *dir, const gsc_checkpoint *into, char **run)
{
    GSC_TRY(gsc__checkpoint_check(LOAD, dir, into));
    gsc__generation generation;
    GSC_TRY(gsc__generation_open(dir, &generation));
    loading l = {.into = into};
    gsc_status status = read_all(&l, &generation);
    if (status == GSC_OK)
        status = apply(&l, &generation);
    if (status == GSC_OK && run) {
        *run = l.run_text;
        l.run_text = NULL;
    }
    release(&l);
    gsc__generation_close(&generation);
    return status;
}

gsc_status gsc_checkpoint_load(const char *dir, const gsc_checkpoint *into, char **run)
{
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = load(dir, into, run);
    gsc__fpenv_leave(caller);
    return status;
}

static gsc_status read_run_text(const gsc__generation *generation, char **out)
{
    gsc__file_sum sums[GSC_FILES];
    json_t *run;
    char *text;
    GSC_TRY(gsc__run_read(generation, &run, sums));
    gsc_status status = print_run(run, &text);
    json_decref(run);
    if (status == GSC_OK)
        *out = text;
    return status;
}

static gsc_status read_run(const char *dir, char **run)
{
    if (!dir || !run)
        return gsc_fail(GSC_ERR_VALUE, "gsc_checkpoint_read_run: %s is NULL", dir ? "run" : "dir");
    gsc__generation generation;
    GSC_TRY(gsc__generation_open(dir, &generation));
    gsc_status status = read_run_text(&generation, run);
    gsc__generation_close(&generation);
    return status;
}

gsc_status gsc_checkpoint_read_run(const char *dir, char **run)
{
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = read_run(dir, run);
    gsc__fpenv_leave(caller);
    return status;
}
