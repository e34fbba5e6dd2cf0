/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* mkdir, access, fsync */
#include "output.h"
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* All that a checkpoint would replace. Dangling links, which a run leaves that was killed before its first checkpoint,
 * count as absent. */
static gsc_status refuse_files(const char *dir)
{
    static const char *const names[] = {"run.json", "checkpoint", "model.safetensors", "optimizer.safetensors",
                                        "scaler.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_SIZE];
        gsc_status status = path_join(path, dir, names[i]);
        if (status != GSC_OK)
            return status;
        if (access(path, F_OK) != 0)
            continue;
        if (i == 0)
            return gsc_fail(GSC_ERR_VALUE,
                            "--out %s: the folder has a run already; go on with it by --resume %s, or give another "
                            "folder",
                            dir, dir);
        return gsc_fail(GSC_ERR_VALUE, "--out %s: the folder has a file '%s' already; give another folder", dir,
                        names[i]);
    }
    return GSC_OK;
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
