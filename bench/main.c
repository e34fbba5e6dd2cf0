/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: measures the library beside what the machine can do, both in this run. docs/performance.md explains the
 * table. */
#define _GNU_SOURCE /* getopt_long */
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine.h"
#include "measure.h"
#include "must.h"
#include "report.h"
#include "topics.h"

static bench_topic *const topics[] = {bench_kernels, bench_functions, bench_layouts, bench_tensors, bench_overflow,
                                      bench_calls,   bench_threads,   bench_adamw,   bench_cost};

static const char usage[] =
    "usage: bench [--quick | --full] [--only PATTERN] [--json FILE] [--threads N] [--rounds N]\n"
    "  --quick         small sizes and few rounds: a smoke run\n"
    "  --full          also 1 GiB and 10^9 elements\n"
    "  --only PATTERN  rows whose name topic/what/dtype/size/threads contains PATTERN\n"
    "  --json FILE     also write the rows to FILE\n"
    "  --threads N     how many \"all threads\" are (all cores)\n"
    "  --rounds N      samples of each row, at most 101 (as many as fit)\n";

_Noreturn static void refuse(const char *problem, const char *value)
{
    fprintf(stderr, "bench: %s%s\n%s", problem, value, usage);
    exit(2);
}

static int parse_number(const char *option, const char *text, long max)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < 1 || value > max) {
        fprintf(stderr, "bench: %s is \"%s\", allowed are 1 to %ld\n", option, text, max);
        exit(2);
    }
    return (int)value;
}

/* Returns the file for --json, NULL without --json. */
static const char *parse_options(bench *b, int argc, char **argv)
{
    enum { QUICK = 1, FULL, ONLY, JSON, THREADS, ROUNDS, HELP };
    static const struct option options[] = {
        {"quick", no_argument, NULL, QUICK},
        {"full", no_argument, NULL, FULL},
        {"only", required_argument, NULL, ONLY},
        {"json", required_argument, NULL, JSON},
        {"threads", required_argument, NULL, THREADS},
        {"rounds", required_argument, NULL, ROUNDS},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    const char *json = NULL;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case QUICK: b->quick = true; break;
        case FULL: b->full = true; break;
        case ONLY: b->only = optarg; break;
        case JSON: json = optarg; break;
        case THREADS: b->threads = parse_number("--threads", optarg, 1024); break;
        case ROUNDS: b->rounds = parse_number("--rounds", optarg, BENCH_ROUNDS); break;
        case HELP: fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind < argc)
        refuse("unexpected argument: ", argv[optind]);
    if (b->quick && b->full)
        refuse("--quick and --full exclude each other", "");
    return json;
}

static void write_json(const bench *b, FILE *file, const char *name)
{
    bench_write_json(b, file);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        bench_die("%s could not be written", name);
}

int main(int argc, char **argv)
{
    bench b = {.threads = bench_cores()};
    const char *json = parse_options(&b, argc, argv);
    /* Opened first: a wrong path is reported before minutes of work. */
    FILE *file = json ? fopen(json, "w") : NULL;
    if (json && !file)
        bench_die("%s cannot be opened for writing", json);
    bench_print_header(&b);
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        topics[i](&b);
    if (b.count == 0)
        bench_die("--only \"%s\" is part of no row's name", b.only);
    bench_print_summary(&b);
    if (file)
        write_json(&b, file, json);
    free(b.rows);
    return 0;
}
