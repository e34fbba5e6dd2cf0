/* SPDX-License-Identifier: Apache-2.0 */
/* output.c: creates the folder of a run durably; never replaces files of anything else. */
#define _POSIX_C_SOURCE 200809L /* mkdir, fsync */
#include "train/output.h"
#include "base/try.h"
#include "common/escape.h"
#include "common/message.h"
#include "common/path.h"

#include "gradscaler/checkpoint.h"
#include "gradscaler/state_json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_readable(const char *dir, const char *place)
{
    char path[PATH_SIZE], *run;
    if (path_join(path, dir, place) != GSC_OK || gsc_checkpoint_read_run(path, &run) != GSC_OK)
        return false;
    gsc_free(run);
    return true;
}

/* Whether --resume can read the checkpoint in the folder, or says how to restore the missing link to it. */
static bool is_resumable(const char *dir)
{
    if (path_exists(dir, GSC_CHECKPOINT_CURRENT))
        return is_readable(dir, ".");
    return is_readable(dir, ".") || is_readable(dir, GSC_CHECKPOINT_0) || is_readable(dir, GSC_CHECKPOINT_1);
}

static gsc_status refuse_name(const char *dir, const char *name)
{
    if (!path_exists(dir, name))
        return GSC_OK;
    if (strstr(name, GSC_CHECKPOINT_RUN) && is_resumable(dir))
        return fail_with(GSC_ERR_VALUE,
                         "--out %s: the folder has a run already (%s); go on with it by --resume %s, or give another "
                         "folder",
                         dir, name, quote_path(dir).text);
    return fail_with(GSC_ERR_VALUE, "--out %s: the folder has a file or folder '%s' already; give another folder", dir,
                     name);
}

/* Refuses files of a checkpoint in the folder dir/prefix; with only_complete, none of an incomplete one. */
static gsc_status refuse_checkpoint(const char *dir, const char *prefix, bool only_complete)
{
    static const char *const files[] = {GSC_CHECKPOINT_RUN, GSC_CHECKPOINT_MODEL, GSC_CHECKPOINT_OPTIMIZER,
                                        GSC_CHECKPOINT_SCALER};
    const size_t count = only_complete ? 1 : sizeof files / sizeof *files; /* run.json is written last */
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, files[i]);
        GSC_TRY(refuse_name(dir, name));
    }
    return GSC_OK;
}

/* Refuses everything that a checkpoint would replace, also in folders that no link leads to. Metrics beside an
 * incomplete checkpoint, and dangling links, are what a run leaves that was killed before its first checkpoint: a new
 * run may take that folder. */
static gsc_status refuse_files(const char *dir)
{
    const bool has_metrics = path_exists(dir, METRICS_FILE);
    GSC_TRY(refuse_checkpoint(dir, "", false));
    GSC_TRY(refuse_checkpoint(dir, GSC_CHECKPOINT_0 "/", has_metrics));
    GSC_TRY(refuse_checkpoint(dir, GSC_CHECKPOINT_1 "/", has_metrics));
    return refuse_name(dir, GSC_CHECKPOINT_CURRENT);
}

static gsc_status sync_folder(const char *path)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced =
        folder >= 0 && (fsync(folder) == 0 || errno == EINVAL); /* EINVAL: this file system cannot sync folders */
    const int error = errno;
    if (folder >= 0)
        close(folder);
    return synced ? GSC_OK : fail_with(GSC_ERR_IO, "--out: the folder %s cannot be synced: %s", path, strerror(error));
}

/* Syncs the parent folder, which holds the name of the new folder. */
static gsc_status make_folder(const char *dir)
{
    char parent[PATH_SIZE];
    if (mkdir(dir, 0777) != 0)
        return errno == EEXIST ? GSC_OK
                               : fail_with(GSC_ERR_IO, "--out %s: the folder cannot be made: %s", dir, strerror(errno));
    GSC_TRY(path_join(parent, dir, ".."));
    return sync_folder(parent);
}

gsc_status output_create(const char *dir, output *out)
{
    GSC_TRY(make_folder(dir));
    GSC_TRY(refuse_files(dir));
    GSC_TRY(output_open(dir, out));
    if (metrics_size(&out->metrics) == 0)
        return GSC_OK;
    output_close(out);
    return fail_with(GSC_ERR_VALUE, "--out %s: the folder has a file '" METRICS_FILE "' already; give another folder",
                     dir);
}

gsc_status output_open(const char *dir, output *out)
{
    output made = {.dir = dir};
    GSC_TRY(metrics_open(dir, &made.metrics));
    *out = made;
    return GSC_OK;
}

void output_close(output *o)
{
    if (o->dir)
        metrics_close(&o->metrics);
    *o = (output){0};
}

bool output_is_same(const char *dir, const char *other)
{
    struct stat a, b;
    return stat(dir, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
