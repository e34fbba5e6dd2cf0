/* SPDX-License-Identifier: Apache-2.0 */
/* report.h: the rows, printed as a Markdown table and written as JSON. */
#ifndef GSC_BENCH_REPORT_H
#define GSC_BENCH_REPORT_H

#include <stdio.h>

#include "base/dtype_kind.h"
#include "bench.h"
#include "measure.h"

typedef enum bench_sense {
    BENCH_SPEED, /* ratio = reference time / our time; 1: as fast as the reference; the bar is a minimum */
    BENCH_COST,  /* ratio = ours / reference; the bar is a maximum */
    BENCH_GAIN,  /* ratio = ours / reference, where more is better; the bar is a minimum */
} bench_sense;

typedef enum bench_unit { BENCH_SECONDS, BENCH_TIMES, BENCH_MIB } bench_unit;

typedef struct bench_row {
    const char *topic, *what;
    gsc__kind kind;
    size_t elements, tensors; /* elements: in all tensors together */
    int threads;
    const char *beside; /* the reference in words */
    bench_sense sense;
    bench_unit unit;
    double bar; /* docs/performance.md; 0: none */
    double ours, reference, ratio;
} bench_row;

/* Returns whether --only selects the row. */
bool bench_wanted(const bench *b, const bench_row *row);
/* If the row is wanted: measures both works in turn with row.threads threads and appends the row. */
void bench_compare(bench *b, bench_row row, bench_work ours, bench_work reference);
/* Prints and stores a row whose numbers are set. Ends the program if one of them is not finite and positive. */
void bench_append(bench *b, bench_row row);

void bench_print_header(const bench *b);
/* Prints how many bars were held and which were missed. */
void bench_print_summary(const bench *b);
/* Writes what the header says and all rows, one per line. */
void bench_write_json(const bench *b, FILE *file);

#endif
