/* SPDX-License-Identifier: Apache-2.0 */
/* save.c: gsc_checkpoint_save. Before the first write, everything is checked, and all content but the tensors' elements
 * is made in memory. */
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/try.h"
#include "train/checkpoint/check.h"
#include "train/checkpoint/folder.h"
#include "train/checkpoint/optim.h"
#include "train/checkpoint/run.h"
#include "train/checkpoint/scaler.h"
#include "train/io/files.h"
#include "train/io/safetensors_write.h"

#define SAVE "gsc_checkpoint_save"

typedef struct content {
    json_t *run;
    gsc__safetensors_plan model, optimizer;
    gsc__optim_tensors optims;
    char *scaler_text, *run_text; /* run_text is made last, from the checksums of the other files */
    bool present[GSC_FILES];
} content;

static void release(content *c)
{
    json_decref(c->run);
    gsc__safetensors_plan_free(&c->model);
    gsc__safetensors_plan_free(&c->optimizer);
    gsc__optim_tensors_free(&c->optims);
    free(c->scaler_text);
    free(c->run_text);
}

static gsc_status prepare_run(content *c, const char *run)
{
    const char *text = run ? run : "{}";
    GSC_TRY(gsc__json_parse(SAVE ": run", text, strlen(text), &c->run));
    if (!json_is_object(c->run))
        return gsc_fail(GSC_ERR_VALUE, SAVE ": run is %s, it must be an object", gsc__json_type(c->run));
    return gsc__run_check(SAVE ": run", c->run);
}

static gsc_status prepare_optims(content *c, const gsc_checkpoint *from)
{
    GSC_TRY(gsc__optim_tensors_create(SAVE, from->optims, from->optim_count, &c->optims));
    return gsc__safetensors_plan_create(SAVE ": state of the optimizers", c->optims.tensors, c->optims.count,
                                        c->optims.kinds, c->optims.kind_count, &c->optimizer);
}

static gsc_status prepare_scalers(content *c, const gsc_checkpoint *from)
{
    c->scaler_text = gsc__scalers_print(from->scalers, from->scaler_count);
    return c->scaler_text ? GSC_OK : GSC_ERR_MEMORY; /* a scaler's state is valid: only memory can be missing */
}

/* Other programs expect this entry: the elements are laid out as PyTorch's. */
static const gsc_metadata model_metadata = {"format", "pt"};

static gsc_status prepare(content *c, const gsc_checkpoint *from)
{
    c->present[GSC_FILE_MODEL] = from->tensor_count > 0;
    c->present[GSC_FILE_OPTIMIZER] = from->optim_count > 0;
    c->present[GSC_FILE_SCALER] = from->scaler_count > 0;
    c->present[GSC_FILE_RUN] = true;
    GSC_TRY(prepare_run(c, from->run));
    if (c->present[GSC_FILE_MODEL])
        GSC_TRY(gsc__safetensors_plan_create(SAVE, from->tensors, from->tensor_count, &model_metadata, 1, &c->model));
    if (c->present[GSC_FILE_OPTIMIZER])
        GSC_TRY(prepare_optims(c, from));
    return c->present[GSC_FILE_SCALER] ? prepare_scalers(c, from) : GSC_OK;
}

static gsc_status write_text(gsc__file *file, const char *text)
{
    GSC_TRY(gsc__file_write(file, text, strlen(text)));
    return gsc__file_write(file, "\n", 1);
}

static gsc_status write_content(const content *c, size_t which, gsc__file *file)
{
    switch (which) {
    case GSC_FILE_MODEL: return gsc__safetensors_plan_write(&c->model, file);
    case GSC_FILE_OPTIMIZER: return gsc__safetensors_plan_write(&c->optimizer, file);
    case GSC_FILE_SCALER: return write_text(file, c->scaler_text);
    default: return write_text(file, c->run_text);
    }
}

static gsc_status write_file(const content *c, size_t which, const gsc__generation *generation, gsc__file_sum *sum)
{
    gsc__file file;
    GSC_TRY(gsc__file_create(generation->folder, generation->paths[which], &file));
    GSC_TRY(gsc__file_finish(&file, write_content(c, which, &file)));
    *sum = (gsc__file_sum){.present = true, .size = file.size, .crc = file.crc};
    return GSC_OK;
}

static gsc_status write_all(content *c, const gsc__generation *generation)
{
    gsc__file_sum sums[GSC_FILES] = {0};
    for (size_t i = 0; i < GSC_FILE_RUN; i++)
        if (c->present[i])
            GSC_TRY(write_file(c, i, generation, &sums[i]));
    size_t size;
    c->run_text = gsc__run_print(c->run, sums, &size);
    if (!c->run_text)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", generation->paths[GSC_FILE_RUN]);
    return write_file(c, GSC_FILE_RUN, generation, &sums[GSC_FILE_RUN]);
}

static gsc_status replace_checkpoint(const char *dir, content *c)
{
    gsc__saving saving;
    GSC_TRY(gsc__saving_begin(dir, &saving));
    return gsc__saving_finish(&saving, c->present, write_all(c, &saving.generation));
}

static gsc_status save(const char *dir, const gsc_checkpoint *checkpoint)
{
    GSC_TRY(gsc__checkpoint_check(SAVE, dir, checkpoint));
    content c = {0};
    gsc_status status = prepare(&c, checkpoint);
    if (status == GSC_OK)
        status = replace_checkpoint(dir, &c);
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
