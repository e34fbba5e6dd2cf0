/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: the rows, printed as a Markdown table and written as JSON. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "machine.h"
#include "must.h"

typedef struct text {
    char chars[192];
} text;

static text size_text(const bench_row *row)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    text out;
    size_t bytes = row->elements * gsc__kind_size(row->kind), unit = 0;
    bool is_round = bytes >= 1024 && (bytes & (bytes - 1)) == 0;
    if (row->tensors > 1) {
        snprintf(out.chars, sizeof out.chars, "%zu × %zu", row->tensors, row->elements / row->tensors);
        return out;
    }
    if (!is_round) {
        snprintf(out.chars, sizeof out.chars, "%zu", row->elements);
        return out;
    }
    for (; unit < 3 && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    snprintf(out.chars, sizeof out.chars, "%zu %s", bytes, units[unit]);
    return out;
}

static text value_text(bench_unit unit, double value)
{
    static const struct {
        double factor;
        const char *name;
    } times[] = {{1e9, "ns"}, {1e6, "µs"}, {1e3, "ms"}, {1, "s"}};
    text out;
    if (unit != BENCH_SECONDS) {
        snprintf(out.chars, sizeof out.chars, unit == BENCH_MIB ? "%.1f MiB" : "%.2f ×", value);
        return out;
    }
    size_t i = 0;
    while (i < 3 && value * times[i].factor >= 1000)
        i++;
    double shown = value * times[i].factor;
    snprintf(out.chars, sizeof out.chars, "%.*f %s", shown < 10 ? 2 : shown < 100 ? 1 : 0, shown, times[i].name);
    return out;
}

static bool is_held(const bench_row *row)
{
    return row->sense == BENCH_COST ? row->ratio <= row->bar : row->ratio >= row->bar;
}

static text bar_text(const bench_row *row)
{
    text out = {""};
    if (row->bar > 0)
        snprintf(out.chars, sizeof out.chars, "%s %g %s", row->sense == BENCH_COST ? "≤" : "≥", row->bar,
                 is_held(row) ? "held" : "missed");
    return out;
}

/* The name of a row, which --only searches: topic/what/dtype/size/threads. */
static text name_text(const bench_row *row)
{
    text out;
    snprintf(out.chars, sizeof out.chars, "%s/%s/%s/%.64s/%d", row->topic, row->what, bench_kind_name(row->kind),
             size_text(row).chars, row->threads);
    return out;
}

bool bench_wanted(const bench *b, const bench_row *row) { return !b->only || strstr(name_text(row).chars, b->only); }

void bench_compare(bench *b, bench_row row, bench_work ours, bench_work reference)
{
    if (!bench_wanted(b, &row))
        return;
    bench_work works[] = {ours, reference};
    works[0].threads = works[1].threads = row.threads;
    bench_samples samples;
    bench_measure(b, works, 2, row.bar > 0, &samples);
    row.ours = bench_median(samples.seconds[0], samples.rounds);
    row.reference = bench_median(samples.seconds[1], samples.rounds);
    row.ratio =
        row.sense == BENCH_SPEED ? bench_median_quotient(&samples, 1, 0) : bench_median_quotient(&samples, 0, 1);
    bench_append(b, row);
}

/* Pads by hand: printf counts bytes, and ×, µ and ≥ have more than one. */
static void print_cell(const char *cell, int width)
{
    int shown = 0;
    for (const char *c = cell; *c; c++)
        shown += (*c & 0xc0) != 0x80;
    printf(" %s%*s |", cell, width > shown ? width - shown : 0, "");
}

static void print_row(const char *const cells[], size_t n)
{
    static const int widths[] = {30, 8, 12, 7, 8, 20, 9, 6, 13};
    printf("|");
    for (size_t i = 0; i < n; i++)
        print_cell(cells[i], widths[i]);
    printf("\n");
    fflush(stdout);
}

#define CELLS(...) ((const char *const[]){__VA_ARGS__}), sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static void print_topic(const char *topic)
{
    printf("\n### %s\n\n", topic);
    print_row(CELLS("what", "dtype", "size", "threads", "ours", "beside", "takes", "ratio", "bar"));
    print_row(CELLS("---", "---", "---", "---", "---", "---", "---", "---", "---"));
}

static bool is_number(double x) { return isfinite(x) && x > 0; }

static void store_row(bench *b, const bench_row *row)
{
    if (b->count == b->capacity) {
        b->capacity = 2 * b->capacity + 64;
        b->rows = realloc(b->rows, b->capacity * sizeof *b->rows);
        if (!b->rows)
            bench_die("no memory for %zu rows", b->capacity);
    }
    b->rows[b->count++] = *row;
}

void bench_append(bench *b, bench_row row)
{
    if (!is_number(row.ours) || !is_number(row.reference) || !is_number(row.ratio))
        bench_die("%s: ours %g, reference %g, ratio %g: all must be finite and positive", name_text(&row).chars,
                  row.ours, row.reference, row.ratio);
    if (b->quick)
        row.bar = 0; /* bars apply to full sizes */
    if (b->count == 0 || strcmp(b->rows[b->count - 1].topic, row.topic) != 0)
        print_topic(row.topic);
    store_row(b, &row);

    text threads, ratio;
    snprintf(threads.chars, sizeof threads.chars, "%d", row.threads);
    snprintf(ratio.chars, sizeof ratio.chars, "%.3f", row.ratio);
    print_row(CELLS(row.what, bench_kind_name(row.kind), size_text(&row).chars, threads.chars,
                    value_text(row.unit, row.ours).chars, row.beside, value_text(row.unit, row.reference).chars,
                    ratio.chars, bar_text(&row).chars));
}

void bench_print_header(const bench *b)
{
    printf("gradscaler %s, %s, %s (%s), %s, %d of %d cores\n", gsc_version(), gsc_isa(), bench_compiler(),
           bench_build_type(), bench_cpu_model(), b->threads, bench_cores());
}

void bench_print_summary(const bench *b)
{
    size_t bars = 0, held = 0;
    for (size_t i = 0; i < b->count; i++) {
        bars += b->rows[i].bar > 0;
        held += b->rows[i].bar > 0 && is_held(&b->rows[i]);
    }
    printf("\n%zu rows; %zu of %zu bars held\n", b->count, held, bars);
    for (size_t i = 0; i < b->count; i++)
        if (b->rows[i].bar > 0 && !is_held(&b->rows[i]))
            printf("* missed: %s: %.3f, %s\n", name_text(&b->rows[i]).chars, b->rows[i].ratio,
                   bar_text(&b->rows[i]).chars);
}

static void write_row(const bench_row *row, FILE *file)
{
    static const char *const senses[] = {"speed", "cost", "gain"}, *const units[] = {"s", "times", "MiB"};
    fprintf(file,
            "  {\"topic\": \"%s\", \"what\": \"%s\", \"dtype\": \"%s\", \"elements\": %zu, \"tensors\": %zu, "
            "\"threads\": %d, \"unit\": \"%s\", \"ours\": %.9g, \"beside\": \"%s\", \"reference\": %.9g, "
            "\"sense\": \"%s\", \"ratio\": %.6g",
            row->topic, row->what, bench_kind_name(row->kind), row->elements, row->tensors, row->threads,
            units[row->unit], row->ours, row->beside, row->reference, senses[row->sense], row->ratio);
    if (row->bar > 0)
        fprintf(file, ", \"bar\": %g, \"held\": %s", row->bar, is_held(row) ? "true" : "false");
    fprintf(file, "}");
}

void bench_write_json(const bench *b, FILE *file)
{
    fprintf(file,
            "{\"version\": \"%s\", \"isa\": \"%s\", \"compiler\": \"%s\", \"build\": \"%s\", \"cpu\": \"%s\", "
            "\"cores\": %d, \"threads\": %d, \"rows\": [\n",
            gsc_version(), gsc_isa(), bench_compiler(), bench_build_type(), bench_cpu_model(), bench_cores(),
            b->threads);
    for (size_t i = 0; i < b->count; i++) {
        write_row(&b->rows[i], file);
        fprintf(file, i + 1 < b->count ? ",\n" : "\n");
    }
    fprintf(file, "]}\n");
}
