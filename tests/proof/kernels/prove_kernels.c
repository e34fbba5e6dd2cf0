/* SPDX-License-Identifier: Apache-2.0 */
/* prove_kernels.c: proves by exhaustion that the kernels give what docs/numbers.md says: see docs/verification.md. */
/* proof_kernels_sample shows: section 5.5 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, isatty, sysconf */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gradscaler/status.h"
#include "prove.h"

static const char usage[] =
    "usage: prove_kernels [--sample] [--threads N]\n"
    "Runs every input through every kernel of every instruction set that this processor has and compares each result\n"
    "with integer arithmetic, bit by bit. Exits 0 when all are the same, 1 at the first difference, 2 on wrong usage.\n"
    "  --sample     some of the inputs and scales: seconds instead of minutes\n"
    "  --threads N  1 to 256; by default as many as there are processors\n";

typedef struct options {
    bool sample;
    int threads;
} options;

static _Noreturn void refuse(const char *what, const char *argument)
{
    fprintf(stderr, "prove_kernels: %s%s\n%s", what, argument, usage);
    exit(2);
}

static int parse_threads(const char *text)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 1 || n > 256)
        refuse("--threads takes a number from 1 to 256, not ", text);
    return (int)n;
}

static options parse(int argc, char **argv)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    options asked = {.sample = false, .threads = processors < 1 ? 1 : processors > 256 ? 256 : (int)processors};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--sample") == 0) {
            asked.sample = true;
        } else if (strcmp(argv[i], "--threads") == 0) {
            if (i + 1 == argc)
                refuse("--threads takes a number", "");
            asked.threads = parse_threads(argv[++i]);
        } else if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        } else {
            refuse("unknown option ", argv[i]);
        }
    }
    return asked;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static struct {
    const char *what;
    _Atomic uint64_t done;
    uint64_t count;
} progress;

static void begin_progress(const char *what, uint64_t count)
{
    progress.what = what;
    progress.done = 0;
    progress.count = count;
}

/* The thread that completes another per cent prints it. */
static void advance(uint64_t steps)
{
    uint64_t done = atomic_fetch_add(&progress.done, steps) + steps, percent = 100 * done / progress.count;
    if (percent != 100 * (done - steps) / progress.count && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%-16s %3" PRIu64 " %%", progress.what, percent);
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

typedef struct enumeration {
    const selection *what;
    _Atomic uint64_t sums[GSC_OPERATIONS][GSC_KINDS];
} enumeration;

static void prove_one(void *ctx, uint64_t index)
{
    enumeration *all = ctx;
    digests sums = {{{0}}};
    block_room *room = prove_room_create();
    prove_block(room, all->what, index, &sums);
    prove_room_free(room);
    for (gsc__operation op = 0; op < GSC_OPERATIONS; op++)
        for (gsc__kind kind = 0; kind < GSC_KINDS; kind++)
            all->sums[op][kind] += sums.sums[op][kind];
    advance(1);
}

static void print_instruction_sets(void)
{
    fputs("instruction sets:", stdout);
    for (size_t isa = 0; prove_tables[isa]; isa++)
        printf("%s %s", isa > 0 ? "," : "", prove_tables[isa]->isa);
    fputs("\n\n", stdout);
}

static size_t selected(size_t n, size_t stride) { return (n + stride - 1) / stride; }

static void print_line(const char *through, const selection *what, size_t n_scales, double start)
{
    uint64_t elements = what->blocks * PROVE_BLOCK;
    end_progress();
    printf("%-28s %-16s %11" PRIu64 " x %3zu scales = %12" PRIu64 "  %6.1f s\n", through, what->from->name, elements,
           n_scales, elements * n_scales, now() - start);
}

static size_t few_scales(const selection *what) { return selected(what->from->n_few_scales, what->scale_stride); }

static void prove_domain_kernels(const selection *what, int threads, digests *sums)
{
    double start = now();
    enumeration all = {.what = what};
    begin_progress(what->from->name, what->blocks);
    prove_run(threads, what->blocks, prove_one, &all);
    for (gsc__operation op = 0; op < GSC_OPERATIONS; op++)
        for (gsc__kind kind = 0; kind < GSC_KINDS; kind++)
            sums->sums[op][kind] += all.sums[op][kind];
    char through[64];
    snprintf(through, sizeof through, "kernels (norms: %zu scales)", few_scales(what));
    print_line(through, what, selected(what->from->n_scales, what->scale_stride), start);
}

static void prove_domain_calls(const selection *what, int threads)
{
    double start = now();
    begin_progress(what->from->name, what->blocks * few_scales(what));
    prove_calls(what, threads, advance);
    print_line("public functions", what, few_scales(what), start);
}

static void print_digests(const digests *sums)
{
    puts("\nDigests of the results, the same on every processor:");
    for (gsc__operation op = 0; op < GSC_OPERATIONS; op++)
        for (gsc__kind kind = 0; kind < GSC_KINDS; kind++)
            printf("digest %-9s %-9s %016" PRIx64 "\n", gsc__operation_describe(op).name, gsc__kind_name(kind),
                   sums->sums[op][kind]);
}

int main(int argc, char **argv)
{
    const options asked = parse(argc, argv);
    digests sums = {{{0}}};
    double start = now();
    prove_find_tables();
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    printf("prove_kernels%s: %d threads\n", asked.sample ? " --sample" : "", asked.threads);
    print_instruction_sets();
    for (size_t i = 0; i < DOMAINS; i++) {
        const domain *d = &prove_domains[i];
        uint64_t stride = asked.sample ? d->sample_block_stride : 1;
        const selection what = {.from = d,
                                .blocks = (d->blocks + stride - 1) / stride,
                                .block_stride = stride,
                                .scale_stride = asked.sample ? d->sample_scale_stride : 1};
        prove_domain_kernels(&what, asked.threads, &sums);
        prove_domain_calls(&what, asked.threads);
    }
    print_digests(&sums);
    printf("\nAll results are those of the reference: %.1f s\n", now() - start);
    return 0;
}
