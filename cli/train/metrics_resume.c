/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_resume.c: sorts the lines of metrics.jsonl into those of the run, later ones, and foreign ones. */
#define _DEFAULT_SOURCE /* getline, ftruncate */
#include "train/metrics_resume.h"
#include "base/try.h"
#include "common/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum line_kind {
    LINE_KEPT,   /* of the run, up to the checkpoint's step */
    LINE_LATER,  /* of the run, after that step */
    LINE_FOREIGN /* incomplete, out of order, or of something else */
} line_kind;

/* What is done with each line: `context` is the caller's. */
typedef gsc_status visit_line(void *context, line_kind kind, const char *line, size_t length);

static gsc_status io_error(const char *path, const char *what)
{
    return fail_with(GSC_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* The step of a line that metrics_add has written; 0: it has not. */
static int64_t line_step(const char *line, size_t length)
{
    if (line[length - 1] != '\n')
        return 0;
    json_t *object = json_loadb(line, length, 0, NULL);
    const json_t *step = json_object_get(object, "step");
    const bool is_own = json_is_integer(step) && json_is_string(json_object_get(object, "outcome"));
    const int64_t found = is_own ? json_integer_value(step) : 0;
    json_decref(object);
    return found;
}

/* *last: the step of the last line that is kept. */
static line_kind sort_line(const char *line, size_t length, int64_t step, int64_t *last)
{
    const int64_t found = line_step(line, length);
    if (found > step)
        return LINE_LATER;
    if (found <= *last)
        return LINE_FOREIGN;
    *last = found;
    return LINE_KEPT;
}

static gsc_status visit_stream(const char *path, FILE *in, int64_t step, visit_line *visit, void *context)
{
    gsc_status status = GSC_OK;
    char *line = NULL;
    size_t capacity = 0;
    int64_t last = 0;
    ssize_t length = 0;
    while (status == GSC_OK && (length = getline(&line, &capacity, in)) > 0)
        status = visit(context, sort_line(line, (size_t)length, step, &last), line, (size_t)length);
    if (status == GSC_OK && !feof(in)) /* also without memory for a line */
        status = io_error(path, "cannot be read");
    free(line);
    return status;
}

static gsc_status visit_file(const char *dir, int64_t step, visit_line *visit, void *context)
{
    char path[PATH_SIZE];
    GSC_TRY(path_join(path, dir, METRICS_FILE));
    FILE *in = fopen(path, "re");
    if (!in)
        return errno == ENOENT ? GSC_OK : io_error(path, "cannot be read");
    gsc_status status = visit_stream(path, in, step, visit, context);
    fclose(in);
    return status;
}

typedef struct inspection {
    metrics_content *content;
    int64_t line; /* its number */
} inspection;

static gsc_status count_line(void *context, line_kind kind, const char *line, size_t length)
{
    inspection *i = context;
    metrics_content *c = i->content;
    (void)line;
    i->line++;
    if (kind == LINE_KEPT) {
        c->prefix += c->lines == i->line - 1 ? (int64_t)length : 0;
        c->kept += (int64_t)length;
        c->lines++;
    } else if (kind == LINE_FOREIGN && c->foreign++ == 0) {
        c->first_foreign = i->line;
    }
    return GSC_OK;
}

gsc_status metrics_inspect(const char *from, int64_t step, metrics_content *out)
{
    *out = (metrics_content){0};
    inspection i = {.content = out};
    return visit_file(from, step, count_line, &i);
}

static gsc_status write_foreign(void *context, line_kind kind, const char *line, size_t length)
{
    FILE *aside = context;
    if (kind != LINE_FOREIGN)
        return GSC_OK;
    const bool written = fwrite(line, 1, length, aside) == length;
    if (written && (line[length - 1] == '\n' || fputc('\n', aside) != EOF))
        return GSC_OK;
    return io_error(METRICS_ASIDE, "cannot be written");
}

static gsc_status move_aside(const char *dir, int64_t step)
{
    char path[PATH_SIZE];
    GSC_TRY(path_join(path, dir, METRICS_ASIDE));
    FILE *aside = fopen(path, "ae");
    if (!aside)
        return io_error(path, "cannot be opened for writing");
    gsc_status status = visit_file(dir, step, write_foreign, aside);
    if (status == GSC_OK && (fflush(aside) != 0 || fsync(fileno(aside)) != 0))
        status = io_error(path, "cannot be written");
    fclose(aside);
    return status;
}

/* In the file's own folder this writes over what has been read already: a line moves towards the beginning. So a
 * process that is killed here loses none. */
static gsc_status write_kept(void *context, line_kind kind, const char *line, size_t length)
{
    return kind == LINE_KEPT ? metrics_write(context, line, length) : GSC_OK;
}

static bool is_own_folder(const metrics *m, const char *from)
{
    char path[PATH_SIZE];
    return path_join(path, from, METRICS_FILE) == GSC_OK && strcmp(path, m->path) == 0;
}

/* Between these calls metrics_write writes from the beginning of the file on; otherwise it appends. */
static gsc_status begin_rewriting(metrics *m)
{
    m->size = 0;
    const int flags = fcntl(m->descriptor, F_GETFL);
    if (flags < 0 || fcntl(m->descriptor, F_SETFL, flags & ~O_APPEND) != 0 || lseek(m->descriptor, 0, SEEK_SET) != 0)
        return io_error(m->path, "cannot be written");
    return GSC_OK;
}

static gsc_status end_rewriting(const metrics *m)
{
    const int flags = fcntl(m->descriptor, F_GETFL);
    return flags >= 0 && fcntl(m->descriptor, F_SETFL, flags | O_APPEND) == 0 ? GSC_OK
                                                                              : io_error(m->path, "cannot be written");
}

gsc_status metrics_resume(metrics *m, const char *from, int64_t step, const metrics_content *content)
{
    const bool in_place = is_own_folder(m, from);
    m->size = content->prefix;
    if (in_place && content->foreign > 0)
        GSC_TRY(move_aside(from, step));
    if (!in_place || content->kept > content->prefix) {
        GSC_TRY(begin_rewriting(m));
        GSC_TRY(visit_file(from, step, write_kept, m));
        GSC_TRY(end_rewriting(m));
    }
    if (ftruncate(m->descriptor, (off_t)m->size) != 0)
        return io_error(m->path, "cannot be cut off");
    return GSC_OK;
}
