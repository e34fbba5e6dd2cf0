/* SPDX-License-Identifier: Apache-2.0 */
/* report.h: the rows, as a table that is Markdown too, and as JSON. */
#ifndef GSC_BENCH_REPORT_H
#define GSC_BENCH_REPORT_H

#include <stdio.h>

#include "base/dtype_kind.h"
#include "bench.h"
#include "measure.h"

typedef enum bench_sense {
    BENCH_SPEED, /* ratio = reference / ours, of times: 1 is as fast as the reference; a bar is the least allowed */
    BENCH_COST,  /* ratio = ours / reference; a bar is the most allowed */
    BENCH_GAIN,  /* ratio = ours / reference, of what should be large; a bar is the least allowed */
} bench_sense;

typedef enum bench_unit { BENCH_SECONDS, BENCH_TIMES, BENCH_MIB } bench_unit;

typedef struct bench_row {
    const char *topic, *what;
    gsc__kind kind;
    size_t elements, tensors; /* elements of all tensors together */
    int threads;
    const char *beside; /* what the reference is */
    bench_sense sense;
    bench_unit unit;
    double bar; /* of docs/performance.md; 0: none */
    double ours, reference, ratio;
} bench_row;

/* Whether --only asks for it. */
bool bench_wanted(const bench *b, const bench_row *row);
/* Measures ours beside the reference where it is wanted, both with row.threads, and appends the row. */
void bench_compare(bench *b, bench_row row, bench_work ours, bench_work reference);
/* Prints and keeps a row whose numbers are known. Ends the program if one of them is not finite and positive. */
void bench_append(bench *b, bench_row row);

void bench_print_header(const bench *b);
/* How many bars were held and which were missed. */
void bench_print_summary(const bench *b);
/* The header and all rows, a row a line. */
void bench_write_json(const bench *b, FILE *file);

#endif
