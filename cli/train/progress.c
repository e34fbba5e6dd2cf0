/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: one line on a terminal: a bar and the fields that fit beside it. */
#define _DEFAULT_SOURCE /* struct winsize */
#include "train/progress.h"
#include "common/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.1
#define DEFAULT_WIDTH 80
#define MAX_WIDTH 512
#define MIN_BAR 10
#define MAX_BAR 40
#define FIELDS 7
#define GAP "  "
#define ERASE_TO_END "\033[K"

void progress_begin(progress *p, int64_t step)
{
    const double now = clock_seconds();
    *p = (progress){.shown = isatty(STDERR_FILENO) == 1, .first = step, .begin = now, .last = now};
}

static int terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return DEFAULT_WIDTH;
    return size.ws_col < MAX_WIDTH ? size.ws_col : MAX_WIDTH;
}

static void write_time(char *out, size_t size, double seconds)
{
    const int64_t s = (int64_t)(seconds + 0.5);
    if (s < 3600)
        snprintf(out, size, "%" PRId64 ":%02d left", s / 60, (int)(s % 60));
    else
        snprintf(out, size, "%" PRId64 ":%02d:%02d left", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
}

/* A scale is usually a power of two, and written as one. */
static void write_scale(char *out, size_t size, double scale)
{
    int exponent;
    if (frexp(scale, &exponent) == 0.5)
        snprintf(out, size, "scale 2^%d", exponent - 1);
    else
        snprintf(out, size, "scale %.3g", scale);
}

/* Joins the first fields that fit into the width. */
static int write_text(char *out, int width, const progress_state *s, int64_t first, double elapsed)
{
    const double left = elapsed * (double)(s->steps - s->step) / (double)(s->step - first);
    char fields[FIELDS][48], *field = fields[0];
    snprintf(field, sizeof *fields, "epoch %" PRId64, s->epoch);
    snprintf(field += sizeof *fields, sizeof *fields, "%" PRId64 "/%" PRId64, s->step, s->steps);
    snprintf(field += sizeof *fields, sizeof *fields, "loss %.3g", s->loss);
    write_scale(field += sizeof *fields, sizeof *fields, s->scale);
    snprintf(field += sizeof *fields, sizeof *fields, "skipped %" PRId64, s->skipped);
    write_time(field += sizeof *fields, sizeof *fields, left);
    snprintf(field + sizeof *fields, sizeof *fields, "%.0f %s", (double)s->examples / elapsed, s->rate_unit);
    int length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < FIELDS; i++) {
        const char *gap = i > 0 ? GAP : "";
        if (length + (int)(strlen(gap) + strlen(fields[i])) > width)
            break;
        length += snprintf(out + length, (size_t)(width - length) + 1, "%s%s", gap, fields[i]);
    }
    return length;
}

/* A bar for the beginning of the line; empty if there is no room. */
static void write_bar(char *out, int room, double done)
{
    const int width = room < MAX_BAR ? room : MAX_BAR;
    out[0] = '\0';
    if (width < MIN_BAR)
        return;
    const int full = (int)(done * width);
    out[0] = '[';
    memset(out + 1, '#', (size_t)full);
    memset(out + 1 + full, '.', (size_t)(width - full));
    memcpy(out + 1 + width, "] ", sizeof "] ");
}

static void draw(const progress *p, const progress_state *s, double now)
{
    char text[MAX_WIDTH], bar[MAX_BAR + sizeof "[] "];
    /* One column is left free, since some terminals wrap a full line. */
    const int width = terminal_width() - 1;
    const int length = write_text(text, width, s, p->first, now - p->begin);
    write_bar(bar, width - length - (int)strlen("[] "), (double)s->step / (double)s->steps);
    fprintf(stderr, "\r%s%s" ERASE_TO_END, bar, text);
    fflush(stderr);
}

void progress_update(progress *p, const progress_state *state)
{
    const double now = p->shown ? clock_seconds() : 0;
    if (!p->shown || now - p->last < REDRAW_SECONDS)
        return;
    p->last = now;
    p->drawn = true;
    draw(p, state, now);
}

void progress_clear(progress *p)
{
    if (!p->drawn)
        return;
    fputs("\r" ERASE_TO_END, stderr);
    fflush(stderr);
    p->drawn = false;
}
