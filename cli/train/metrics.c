/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c: appends to metrics.jsonl, and cuts it to a step on --resume. */
#define _DEFAULT_SOURCE /* flock, getline, ftruncate */
#include "train/metrics.h"
#include "base/try.h"
#include "common/value.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP_KEY "{\"step\": "

static gsc_status io_error(const char *path, const char *what)
{
    return gsc_fail(GSC_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

gsc_status metrics_open(const char *dir, metrics *out)
{
    GSC_TRY(path_join(out->path, dir, METRICS_FILE));
    out->descriptor = open(out->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (out->descriptor < 0)
        return io_error(out->path, "cannot be opened for writing");
    struct stat about;
    gsc_status status = GSC_OK;
    if (fstat(out->descriptor, &about) != 0 || !S_ISREG(about.st_mode))
        status = gsc_fail(GSC_ERR_IO, "%s: is not a regular file", out->path);
    else if (flock(out->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        status = gsc_fail(GSC_ERR_IO, "%s: another run is writing into this folder; wait for its end or stop it", dir);
    if (status != GSC_OK)
        close(out->descriptor);
    return status;
}

void metrics_close(metrics *m) { close(m->descriptor); }

int64_t metrics_size(const metrics *m)
{
    struct stat about;
    return fstat(m->descriptor, &about) == 0 ? (int64_t)about.st_size : 0;
}

static gsc_status write_all(const metrics *m, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(m->descriptor, text, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return io_error(m->path, "cannot be written");
        text += written;
        size -= (size_t)written;
    }
    return GSC_OK;
}

/* The step of a line; 0: not a complete line of metrics. */
static int64_t line_step(const char *line, size_t length)
{
    if (length == 0 || line[length - 1] != '\n' || strncmp(line, STEP_KEY, strlen(STEP_KEY)) != 0)
        return 0;
    return strtoll(line + strlen(STEP_KEY), NULL, 10);
}

/* Reads the lines up to `step`; *kept: their bytes. Copies them if they come from another folder. */
static gsc_status read_lines(const metrics *m, FILE *in, bool is_other, int64_t step, int64_t *last, off_t *kept)
{
    gsc_status status = GSC_OK;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while (status == GSC_OK && (length = getline(&line, &capacity, in)) > 0) {
        const int64_t found = line_step(line, (size_t)length);
        if (found <= *last || found > step)
            break;
        *last = found;
        *kept += length;
        if (is_other)
            status = write_all(m, line, (size_t)length);
    }
    free(line);
    return status;
}

/* A missing file has no lines. */
static gsc_status read_file(const metrics *m, const char *path, int64_t step, int64_t *last, off_t *kept)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return errno == ENOENT ? GSC_OK : io_error(path, "cannot be read");
    gsc_status status = read_lines(m, in, strcmp(path, m->path) != 0, step, last, kept);
    if (status == GSC_OK && ferror(in))
        status = io_error(path, "cannot be read");
    fclose(in);
    return status;
}

gsc_status metrics_resume(metrics *m, const char *from, int64_t step, int64_t *last)
{
    char path[PATH_SIZE];
    off_t kept = *last = 0;
    GSC_TRY(path_join(path, from, METRICS_FILE));
    GSC_TRY(read_file(m, path, step, last, &kept));
    if (ftruncate(m->descriptor, kept) != 0 || lseek(m->descriptor, kept, SEEK_SET) != kept)
        return io_error(m->path, "cannot be cut off");
    return GSC_OK;
}

typedef struct real_text {
    char text[VALUE_REAL_SIZE];
} real_text;

/* JSON has no infinity and no NaN. */
static real_text print_real(double value)
{
    real_text out = {"null"};
    if (isfinite(value))
        value_print_real(value, out.text);
    return out;
}

gsc_status metrics_add(metrics *m, const metric *line)
{
    static const char *const outcomes[] = {
        [GSC_STEPPED] = "stepped", [GSC_SKIPPED_OVERFLOW] = "skipped", [GSC_NO_GRADS] = "no_grads"};
    char text[512];
    const int length =
        snprintf(text, sizeof text,
                 STEP_KEY "%" PRId64 ", \"loss\": %s, \"scale\": %s, \"outcome\": \"%s\", "
                          "\"grad_norm\": %s, \"lr\": %s, \"seconds\": %.6f}\n",
                 line->step, print_real(line->loss).text, print_real(line->scale).text, outcomes[line->outcome],
                 print_real(line->grad_norm).text, print_real(line->lr).text, line->seconds);
    return write_all(m, text, (size_t)length);
}

/* Whether the path still leads to the file that is open and locked. */
static bool is_named(const metrics *m)
{
    struct stat opened, named;
    return fstat(m->descriptor, &opened) == 0 && stat(m->path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

gsc_status metrics_sync(const metrics *m)
{
    if (fsync(m->descriptor) != 0)
        return io_error(m->path, "cannot be synced");
    if (is_named(m)) /* after the sync, which may take long */
        return GSC_OK;
    return gsc_fail(GSC_ERR_IO,
                    "%s: the file, or its folder, was removed or replaced while the run was writing it; leave them in "
                    "place until a run ends, and go on with --resume from where its last checkpoint is now",
                    m->path);
}
