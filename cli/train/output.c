/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* mkdir, access, fsync */
#include "train/output.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN "run.json"

static gsc_status refuse_name(const char *dir, const char *name)
{
    if (!path_exists(dir, name))
        return GSC_OK;
    if (strstr(name, RUN))
        return gsc_fail(GSC_ERR_VALUE,
                        "--out %s: the folder has a run already (%s); go on with it by --resume %s, or give another "
                        "folder",
                        dir, name, dir);
    return gsc_fail(GSC_ERR_VALUE, "--out %s: the folder has a file '%s' already; give another folder", dir, name);
}

/* All that checkpoints would replace, also where no link leads to it. What a run leaves that was killed before its
 * first checkpoint counts as absent: dangling links, and files without the last one, run.json, beside its metrics. */
static gsc_status refuse_files(const char *dir)
{
    static const char *const folders[] = {"", "checkpoint-0/", "checkpoint-1/"};
    static const char *const files[] = {RUN, "model.safetensors", "optimizer.safetensors", "scaler.json"};
    gsc_status status = GSC_OK;
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < (i > 0 && path_exists(dir, "metrics.jsonl") ? 1 : 4) && status == GSC_OK; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", folders[i], files[k]);
            status = refuse_name(dir, name);
        }
    return status == GSC_OK ? refuse_name(dir, "checkpoint") : status;
}

static gsc_status sync_folder(const char *path)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = folder >= 0 && (fsync(folder) == 0 || errno == EINVAL); /* EINVAL: syncs no folders */
    const int error = errno;
    if (folder >= 0)
        close(folder);
    return synced ? GSC_OK : gsc_fail(GSC_ERR_IO, "--out: the folder %s cannot be synced: %s", path, strerror(error));
}

/* A folder that is made is a name in the one above, which must last as what is saved in it. */
static gsc_status make_folder(const char *dir)
{
    char above[PATH_SIZE];
    if (mkdir(dir, 0777) != 0)
        return errno == EEXIST ? GSC_OK
                               : gsc_fail(GSC_ERR_IO, "--out %s: the folder cannot be made: %s", dir, strerror(errno));
    gsc_status status = path_join(above, dir, "..");
    return status == GSC_OK ? sync_folder(above) : status;
}

gsc_status output_create(const char *dir, output *out)
{
    gsc_status status = make_folder(dir);
    if (status == GSC_OK)
        status = refuse_files(dir);
    if (status == GSC_OK)
        status = output_open(dir, out);
    if (status == GSC_OK && metrics_size(&out->metrics) > 0) {
        status = gsc_fail(GSC_ERR_VALUE, "--out %s: the folder has a file 'metrics.jsonl' already; give another folder",
                          dir);
        output_close(out);
    }
    return status;
}

gsc_status output_open(const char *dir, output *out)
{
    output made = {.dir = dir};
    gsc_status status = metrics_open(dir, &made.metrics);
    if (status == GSC_OK)
        *out = made;
    return status;
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
