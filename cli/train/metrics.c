/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c: appends to metrics.jsonl. */
#define _DEFAULT_SOURCE /* flock, ftruncate, pread */
#include "train/metrics.h"
#include "base/try.h"
#include "common/message.h"
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

static gsc_status io_error(const char *path, const char *what)
{
    return fail_with(GSC_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

gsc_status metrics_open(const char *dir, metrics *out)
{
    GSC_TRY(path_join(out->path, dir, METRICS_FILE));
    out->size = 0;
    out->change = (metrics_change){0};
    out->descriptor = open(out->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (out->descriptor < 0)
        return io_error(out->path, "cannot be opened for writing");
    struct stat about;
    gsc_status status = GSC_OK;
    if (fstat(out->descriptor, &about) != 0 || !S_ISREG(about.st_mode))
        status = fail_with(GSC_ERR_IO, "%s: is not a regular file", out->path);
    else if (flock(out->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        status = fail_with(GSC_ERR_IO, "%s: another run is writing into this folder; wait for its end or stop it", dir);
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

/* The descriptor appends, wherever another program has put the end meanwhile. */
gsc_status metrics_write(metrics *m, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(m->descriptor, text, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return io_error(m->path, "cannot be written");
        text += written;
        size -= (size_t)written;
        m->size += written;
    }
    return GSC_OK;
}

/* If another program has cut the file or added to it: goes on at its end, on a new line. */
static gsc_status find_end(metrics *m)
{
    const int64_t size = metrics_size(m);
    char last = '\n';
    if (size == m->size)
        return GSC_OK;
    m->change = (metrics_change){.before = m->size, .after = size};
    m->size = size;
    if (size > 0 && pread(m->descriptor, &last, 1, (off_t)size - 1) != 1)
        return io_error(m->path, "cannot be read");
    return last == '\n' ? GSC_OK : metrics_write(m, "\n", 1);
}

bool metrics_take_change(metrics *m, metrics_change *out)
{
    *out = m->change;
    m->change = (metrics_change){0};
    return out->before != out->after;
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

/* The end of a skipped step's line: the gradients that overflowed. *out is to be freed with free(). */
static gsc_status print_overflow(const overflow_report *overflow, char **out)
{
    json_t *gradients = overflow_gradients_to_json(overflow);
    *out = gradients ? json_dumps(gradients, JSON_ENSURE_ASCII) : NULL;
    json_decref(gradients);
    return *out ? GSC_OK : fail_with(GSC_ERR_MEMORY, "no memory for a line of " METRICS_FILE);
}

/* Appends to the line in `text`. */
static gsc_status add_overflow(const overflow_report *overflow, char *text, size_t size)
{
    char *gradients;
    GSC_TRY(print_overflow(overflow, &gradients));
    const size_t used = strlen(text);
    snprintf(text + used, size - used, ", \"overflows\": %s, \"more_overflows\": %" PRId64, gradients, overflow->more);
    free(gradients);
    return GSC_OK;
}

gsc_status metrics_add(metrics *m, const metric *line)
{
    static const char *const outcomes[] = {
        [GSC_STEPPED] = "stepped", [GSC_SKIPPED_OVERFLOW] = "skipped", [GSC_NO_GRADS] = "no_grads"};
    char text[512 + 2 * OVERFLOW_TEXT_SIZE];
    snprintf(text, sizeof text,
             "{\"step\": %" PRId64 ", \"loss\": %s, \"scale\": %s, \"outcome\": \"%s\", "
             "\"grad_norm\": %s, \"lr\": %s, \"seconds\": %.6f",
             line->step, print_real(line->loss).text, print_real(line->scale).text, outcomes[line->outcome],
             print_real(line->grad_norm).text, print_real(line->lr).text, line->seconds);
    if (line->overflow)
        GSC_TRY(add_overflow(line->overflow, text, sizeof text));
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "}\n");
    GSC_TRY(find_end(m));
    const int64_t before = m->size;
    const gsc_status status = metrics_write(m, text, strlen(text));
    if (status != GSC_OK && ftruncate(m->descriptor, (off_t)before) == 0) /* no part of the line is left */
        m->size = before;
    return status;
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
    return fail_with(GSC_ERR_IO,
                     "%s: the file, or its folder, was removed or replaced while the run was writing it; leave them in "
                     "place until a run ends, and go on with --resume from where its last checkpoint is now",
                     m->path);
}
