/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* mkdir, access */
#include "output.h"
#include "path.h"

#include <errno.h>
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

gsc_status output_create(const char *dir, output *out)
{
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return gsc_fail(GSC_ERR_IO, "--out %s: the folder cannot be made: %s", dir, strerror(errno));
    gsc_status status = refuse_files(dir);
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
