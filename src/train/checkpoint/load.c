/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_load.c: everything is read and verified first; what then remains to be done cannot fail, but for scalers,
 * which come first and are given their old states back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fpenv.h"
#include "train/checkpoint/checkpoint.h"
#include "train/tensor/tensor.h"

#define LOAD "gsc_checkpoint_load"

/* A checkpoint that is being loaded; zero: nothing of it yet. */
typedef struct loading {
    const gsc_checkpoint *into;
    gsc__file_sum sums[GSC_FILES];
    gsc__mapping mappings[GSC_FILES];
    gsc_safetensors *model, *optimizer;
    gsc__optim_tensors optims;
    gsc_scaler_state *states; /* of the scalers */
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
    free(l->states);
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
    gsc_status status = gsc__run_read(generation, &l->run, l->sums);
    for (size_t i = 0; i < GSC_FILE_RUN && status == GSC_OK; i++) {
        const char *path = generation->paths[i];
        if (!l->sums[i].present)
            continue;
        status = gsc__mapping_open(generation->folder, gsc__checkpoint_files[i], path, &l->mappings[i]);
        if (status == GSC_OK)
            status = verify_file(path, &l->mappings[i], &l->sums[i]);
    }
    return status;
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

/* The tensors, whose names differ, are those of the file. */
static gsc_status match(const char *path, const gsc_safetensors *file, const gsc_named_tensor *tensors, size_t n)
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

static gsc_status check_tensors(const gsc_named_tensor *tensors, size_t n)
{
    gsc__safetensors_plan plan;
    gsc_status status = gsc__safetensors_plan_create(LOAD, tensors, n, NULL, 0, &plan);
    if (status == GSC_OK)
        gsc__safetensors_plan_free(&plan);
    return status;
}

static void copy(const gsc_safetensors *file, const gsc_named_tensor *tensors, size_t n)
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
    gsc_status status = check_tensors(into->tensors, into->tensor_count);
    if (status == GSC_OK)
        status = gsc__safetensors_open_mapping(path, &l->mappings[GSC_FILE_MODEL], &l->model);
    return status == GSC_OK ? match(path, l->model, into->tensors, into->tensor_count) : status;
}

static gsc_status match_kinds(const char *path, const gsc_safetensors *file, const gsc__optim_tensors *optims)
{
    for (size_t i = 0; i < optims->kind_count; i++) {
        const gsc_metadata *own = &optims->kinds[i];
        const char *saved = gsc_safetensors_metadata_find(file, own->key);
        if (!saved || strcmp(saved, own->value) != 0)
            return gsc_fail(GSC_ERR_VALUE, "%s: its \"%s\" is %s, but %s is to be loaded", path, own->key,
                            saved ? saved : "missing", own->value);
    }
    return GSC_OK;
}

static gsc_status read_optims(loading *l, const char *path)
{
    const gsc_named_optim *optims = l->into->optims;
    size_t n = l->into->optim_count;
    gsc_status status = gsc__optim_tensors_create(LOAD, optims, n, &l->optims);
    if (status == GSC_OK)
        status = check_tensors(l->optims.tensors, l->optims.count);
    if (status == GSC_OK)
        status = gsc__safetensors_open_mapping(path, &l->mappings[GSC_FILE_OPTIMIZER], &l->optimizer);
    if (status == GSC_OK)
        status = match_kinds(path, l->optimizer, &l->optims);
    if (status == GSC_OK)
        status = match(path, l->optimizer, l->optims.tensors, l->optims.count);
    if (status != GSC_OK)
        return status;
    copy(l->optimizer, l->optims.tensors, l->optims.scalar_count); /* into memory of ours */
    return gsc__optim_tensors_check(path, &l->optims, optims, n);
}

static gsc_status read_scalers(loading *l, const char *path)
{
    const gsc__mapping *mapping = &l->mappings[GSC_FILE_SCALER];
    l->states = calloc(l->into->scaler_count, sizeof *l->states);
    if (!l->states)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    return gsc__scalers_parse(path, mapping->data ? (const char *)mapping->data : "", mapping->size, l->into->scalers,
                              l->into->scaler_count, l->states);
}

/* Into memory of free()'s. */
static gsc_status print_run(const json_t *run, char **out)
{
    size_t size;
    *out = gsc__json_print(run, GSC_JSON_REALS, &size);
    return *out ? GSC_OK : gsc_fail(GSC_ERR_MEMORY, "run.json: out of memory");
}

static gsc_status read_all(loading *l, const gsc__generation *generation)
{
    gsc_status status = open_files(l, generation);
    if (status == GSC_OK)
        status = check_present(l, generation);
    if (status == GSC_OK && l->into->tensor_count > 0)
        status = read_model(l, generation->paths[GSC_FILE_MODEL]);
    if (status == GSC_OK && l->into->optim_count > 0)
        status = read_optims(l, generation->paths[GSC_FILE_OPTIMIZER]);
    if (status == GSC_OK && l->into->scaler_count > 0)
        status = read_scalers(l, generation->paths[GSC_FILE_SCALER]);
    return status == GSC_OK ? print_run(l->run, &l->run_text) : status;
}

/* Loads all of the states; after a failure every scaler has its own again, which `states` then holds. */
static gsc_status apply_scalers(const gsc_checkpoint *into, gsc_scaler_state *states)
{
    gsc_status status = GSC_OK;
    size_t done = 0;
    while (done < into->scaler_count && status == GSC_OK) {
        gsc_scaler_state own;
        status = gsc_scaler_state_dict(into->scalers[done].scaler, &own);
        if (status == GSC_OK)
            status = gsc_scaler_load_state_dict(into->scalers[done].scaler, &states[done]);
        if (status == GSC_OK)
            states[done++] = own;
    }
    while (status != GSC_OK && done > 0) {
        done--;
        gsc_scaler_load_state_dict(into->scalers[done].scaler, &states[done]);
    }
    return status;
}

static gsc_status apply(const loading *l, const gsc__generation *generation)
{
    const gsc_checkpoint *into = l->into;
    gsc_status status = apply_scalers(into, l->states);
    if (status != GSC_OK)
        return gsc_fail(status, "%s: %s", generation->paths[GSC_FILE_SCALER], gsc_last_error());
    copy(l->model, into->tensors, into->tensor_count);
    copy(l->optimizer, l->optims.tensors + l->optims.scalar_count, l->optims.count - l->optims.scalar_count);
    gsc__optim_tensors_apply(&l->optims, into->optims, into->optim_count);
    return GSC_OK;
}

static gsc_status load(const char *dir, const gsc_checkpoint *into, char **run)
{
    gsc_status status = gsc__checkpoint_check(LOAD, dir, into);
    gsc__generation generation;
    if (status == GSC_OK)
        status = gsc__generation_find(dir, &generation);
    if (status != GSC_OK)
        return status;
    loading l = {.into = into};
    status = read_all(&l, &generation);
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

static gsc_status read_run(const char *dir, char **run)
{
    if (!dir || !run)
        return gsc_fail(GSC_ERR_VALUE, "gsc_checkpoint_read_run: %s is NULL", dir ? "run" : "dir");
    gsc__generation generation;
    gsc_status status = gsc__generation_find(dir, &generation);
    if (status != GSC_OK)
        return status;
    gsc__file_sum sums[GSC_FILES];
    json_t *read = NULL;
    char *text;
    status = gsc__run_read(&generation, &read, sums);
    if (status == GSC_OK)
        status = print_run(read, &text);
    if (status == GSC_OK)
        *run = text;
    json_decref(read);
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
