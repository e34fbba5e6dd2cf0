/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_save.c: all content is made and checked in memory, the tensors' elements aside, before the first write. */
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "train/checkpoint/checkpoint.h"

#define SAVE "gsc_checkpoint_save"

typedef struct content {
    json_t *run;
    gsc__safetensors_plan model, optimizer;
    gsc__optim_tensors optims;
    char *scaler, *run_text; /* of the JSON files; run.json's tells of the others and comes last */
    bool present[GSC_FILES];
} content;

static void release(content *c)
{
    json_decref(c->run);
    gsc__safetensors_plan_free(&c->model);
    gsc__safetensors_plan_free(&c->optimizer);
    gsc__optim_tensors_free(&c->optims);
    free(c->scaler);
    free(c->run_text);
}

static gsc_status prepare_run(content *c, const char *run)
{
    const char *text = run ? run : "{}";
    gsc_status status = gsc__json_parse(SAVE ": run", text, strlen(text), &c->run);
    if (status == GSC_OK && !json_is_object(c->run))
        status = gsc_fail(GSC_ERR_VALUE, SAVE ": run is %s, it must be an object", gsc__json_type(c->run));
    return status == GSC_OK ? gsc__run_check(SAVE ": run", c->run) : status;
}

/* What other programs ask for: PyTorch's layout of the elements. */
static const gsc_metadata model_metadata = {"format", "pt"};

static gsc_status prepare(const gsc_checkpoint *from, content *c)
{
    c->present[GSC_FILE_MODEL] = from->tensor_count > 0;
    c->present[GSC_FILE_OPTIMIZER] = from->optim_count > 0;
    c->present[GSC_FILE_SCALER] = from->scaler_count > 0;
    c->present[GSC_FILE_RUN] = true;
    gsc_status status = prepare_run(c, from->run);
    if (status == GSC_OK && c->present[GSC_FILE_MODEL])
        status = gsc__safetensors_plan_create(SAVE, from->tensors, from->tensor_count, &model_metadata, 1, &c->model);
    if (status == GSC_OK && c->present[GSC_FILE_OPTIMIZER])
        status = gsc__optim_tensors_create(SAVE, from->optims, from->optim_count, &c->optims);
    if (status == GSC_OK && c->present[GSC_FILE_OPTIMIZER])
        status = gsc__safetensors_plan_create(SAVE ": state of the optimizers", c->optims.tensors, c->optims.count,
                                              c->optims.kinds, c->optims.kind_count, &c->optimizer);
    if (status == GSC_OK && c->present[GSC_FILE_SCALER]) {
        c->scaler = gsc__scalers_print(from->scalers, from->scaler_count);
        if (!c->scaler) /* all that can be wrong with a scaler's own state is that there is no memory for it */
            status = GSC_ERR_MEMORY;
    }
    return status;
}

static gsc_status write_text(gsc__file *file, const char *text)
{
    gsc_status status = gsc__file_write(file, text, strlen(text));
    return status == GSC_OK ? gsc__file_write(file, "\n", 1) : status;
}

static gsc_status write_content(const content *c, size_t which, gsc__file *file)
{
    switch (which) {
    case GSC_FILE_MODEL: return gsc__safetensors_plan_write(&c->model, file);
    case GSC_FILE_OPTIMIZER: return gsc__safetensors_plan_write(&c->optimizer, file);
    case GSC_FILE_SCALER: return write_text(file, c->scaler);
    default: return write_text(file, c->run_text);
    }
}

static gsc_status write_file(const content *c, size_t which, const gsc__generation *generation, gsc__file_sum *sum)
{
    gsc__file file;
    gsc_status status = gsc__file_create(generation->folder, generation->paths[which], &file);
    if (status == GSC_OK)
        status = gsc__file_finish(&file, write_content(c, which, &file));
    if (status == GSC_OK)
        *sum = (gsc__file_sum){.present = true, .size = file.size, .crc = file.crc};
    return status;
}

static gsc_status write_all(content *c, const gsc__generation *generation)
{
    gsc__file_sum sums[GSC_FILES] = {0};
    gsc_status status = GSC_OK;
    for (size_t i = 0; i < GSC_FILE_RUN && status == GSC_OK; i++)
        if (c->present[i])
            status = write_file(c, i, generation, &sums[i]);
    if (status != GSC_OK)
        return status;
    size_t size;
    c->run_text = gsc__run_print(c->run, sums, &size);
    if (!c->run_text)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", generation->paths[GSC_FILE_RUN]);
    return write_file(c, GSC_FILE_RUN, generation, &sums[GSC_FILE_RUN]);
}

static gsc_status save(const char *dir, const gsc_checkpoint *checkpoint)
{
    gsc_status status = gsc__checkpoint_check(SAVE, dir, checkpoint);
    content c = {0};
    gsc__saving saving;
    if (status == GSC_OK)
        status = prepare(checkpoint, &c);
    if (status == GSC_OK)
        status = gsc__saving_begin(dir, &saving);
    if (status == GSC_OK)
        status = gsc__saving_finish(&saving, c.present, write_all(&c, &saving.generation));
    release(&c);
    return status;
}

gsc_status gsc_checkpoint_save(const char *dir, const gsc_checkpoint *checkpoint)
{
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = save(dir, checkpoint);
    gsc__fpenv_leave(caller);
    return status;
}
