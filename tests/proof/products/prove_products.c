/* SPDX-License-Identifier: Apache-2.0 */
/* prove_products: matrix products of small and odd shapes, in each dtype and layout that ops use, on each instruction
 * set that oneDNN can be held to on this processor. Prints what was tried; 0: no fault, 1: faults, 2: it could not run.
 *
 *     prove_products            every k up to 130 and some larger ones, with m and n around multiples of 8: hours
 *     prove_products --sample   fewer of each
 *     prove_products --all      every m, n and k up to 130: days
 *
 * The operands are small integers, so that every sum is exact in float32: the result must be the exact one, rounded
 * once. Operands and results end where memory begins that cannot be read. A child process computes; if it dies by a
 * signal, that is a fault, and the next child goes on behind it. */
/* proof_products_sample shows: trial T32 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gradscaler/runtime.h"
#include "gradscaler/tape.h"
#include "train/ops/gemm.h"
#include "train/tensor/convert.h"

enum { SMALL = 130, LARGEST_K = 1055, LISTED = 10 };

typedef struct layout {
    const char *text;
    bool transpose_a, transpose_b, has_bias;
} layout;

/* Those of matmul and linear, forward and backward. */
static const layout layouts[] = {{"[m,k] x [k,n]", false, false, false},
                                 {"[m,k] x [n,k] + bias", false, true, true},
                                 {"[k,m] x [k,n]", true, false, false}};
static const gsc__kind kinds[] = {GSC_F32, GSC_BF16, GSC_F16};
/* Values of ONEDNN_MAX_CPU_ISA. A limit above what the processor has changes nothing. */
static const char *const isas[] = {"DEFAULT", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2", "SSE41"};

typedef struct sizes {
    int values[SMALL + 16], count;
} sizes;

typedef struct series {
    const char *isa;
    gsc__kind kind;
    const layout *layout;
    const sizes *m, *n, *k;
} series;

/* Shared by the parent and the child. */
typedef struct progress {
    int64_t next; /* the product that the child computes */
    int64_t faults;
} progress;

typedef struct shape {
    int m, n, k;
} shape;

/* What a child has: ends of memory, behind which is a page that cannot be read, and the exact product for one k. */
typedef struct operands {
    char *a_end, *b_end, *bias_end, *c_end;
    float exact[SMALL][SMALL];
    gsc_tape *tape;
} operands;

static void give_up(const char *what)
{
    perror(what);
    exit(2);
}

static char *map_guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (bytes + page - 1) / page * page;
    char *memory = mmap(NULL, used + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + used, page, PROT_NONE) != 0)
        give_up("prove_products: mmap");
    return memory + used;
}

enum { IN_A, IN_B, IN_BIAS };

/* -2 … 2. It depends on the place alone, so that a smaller operand is a part of a larger one. */
static float value(int operand, int row, int column)
{
    uint32_t bits = (uint32_t)row * 2654435761u ^ (uint32_t)column * 2246822519u ^ (uint32_t)operand * 374761393u;
    bits = (bits ^ (bits >> 15)) * 3266489917u;
    return (float)((int)((bits >> 13) % 5) - 2);
}

static void compute_exact(operands *o, int k)
{
    memset(o->exact, 0, sizeof o->exact);
    for (int p = 0; p < k; p++) {
        float row[SMALL];
        for (int j = 0; j < SMALL; j++)
            row[j] = value(IN_B, p, j);
        for (int i = 0; i < SMALL; i++) {
            float factor = value(IN_A, i, p);
            for (int j = 0; j < SMALL; j++)
                o->exact[i][j] += factor * row[j];
        }
    }
}

/* Stores an operand so that it ends at `end`. */
static void *store(gsc__kind kind, char *end, int operand, int rows, int columns, bool transposed)
{
    size_t size = gsc__kind_size(kind);
    int lines = transposed ? columns : rows, length = transposed ? rows : columns;
    char *start = end - (size_t)lines * (size_t)length * size;
    for (int r = 0; r < lines; r++) {
        float line[LARGEST_K];
        for (int c = 0; c < length; c++)
            line[c] = transposed ? value(operand, c, r) : value(operand, r, c);
        gsc__convert(GSC_F32, line, kind, start + (size_t)r * (size_t)length * size, (size_t)length);
    }
    return start;
}

static bool is_exact(const operands *o, const series *s, shape of, const char *c)
{
    size_t row_bytes = (size_t)of.n * gsc__kind_size(s->kind);
    for (int i = 0; i < of.m; i++) {
        float line[SMALL], rounded[SMALL];
        for (int j = 0; j < of.n; j++)
            line[j] = o->exact[i][j] + (s->layout->has_bias ? value(IN_BIAS, 0, j) : 0.0f);
        gsc__convert(GSC_F32, line, s->kind, rounded, (size_t)of.n);
        if (memcmp(c + (size_t)i * row_bytes, rounded, row_bytes) != 0)
            return false;
    }
    return true;
}

static bool product_is_exact(const operands *o, const series *s, shape of)
{
    const layout *l = s->layout;
    const void *a = store(s->kind, o->a_end, IN_A, of.m, of.k, l->transpose_a);
    const void *b = store(s->kind, o->b_end, IN_B, of.k, of.n, l->transpose_b);
    const void *bias = l->has_bias ? store(s->kind, o->bias_end, IN_BIAS, 1, of.n, false) : NULL;
    size_t bytes = (size_t)of.m * (size_t)of.n * gsc__kind_size(s->kind);
    char *c = memset(o->c_end - bytes, 0x55, bytes);
    gsc__gemm gemm = {
        .kind = s->kind, .transpose_a = l->transpose_a, .transpose_b = l->transpose_b, .m = of.m, .n = of.n, .k = of.k};
    return gsc__gemm_run(o->tape, gemm, a, b, bias, c) == GSC_OK && is_exact(o, s, of, c);
}

static shape shape_at(const series *s, int64_t index)
{
    return (shape){.m = s->m->values[index / s->n->count % s->m->count],
                   .n = s->n->values[index % s->n->count],
                   .k = s->k->values[index / s->n->count / s->m->count]};
}

static void report(progress *p, shape of, const char *what)
{
    if (p->faults++ < LISTED)
        printf("    m %d, n %d, k %d: %s\n", of.m, of.n, of.k, what);
}

static void run_child(const series *s, progress *p)
{
    static operands o;
    setenv("ONEDNN_MAX_CPU_ISA", s->isa, 1);
    setenv("DNNL_MAX_CPU_ISA", s->isa, 1); /* its name before oneDNN 2.3 */
    gsc_set_num_threads(1);
    o.a_end = map_guarded(sizeof(float[SMALL * LARGEST_K]));
    o.b_end = map_guarded(sizeof(float[SMALL * LARGEST_K]));
    o.bias_end = map_guarded(sizeof(float[SMALL]));
    o.c_end = map_guarded(sizeof(float[SMALL * SMALL]));
    if (gsc_tape_create(&o.tape) != GSC_OK)
        exit(2);
    int64_t total = (int64_t)s->m->count * s->n->count * s->k->count;
    for (int k = 0; p->next < total; p->next++) {
        shape of = shape_at(s, p->next);
        if (of.k != k)
            compute_exact(&o, k = of.k);
        if (!product_is_exact(&o, s, of))
            report(p, of, "the result is wrong");
    }
    gsc_tape_free(o.tape);
    exit(0);
}

static void run_series(const series *s, progress *p)
{
    *p = (progress){.faults = 0};
    printf("%s, %s, %s: %d products\n", s->isa, gsc__kind_name(s->kind), s->layout->text,
           s->m->count * s->n->count * s->k->count);
    for (;;) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            run_child(s, p);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child)
            give_up("prove_products: fork");
        if (!WIFSIGNALED(status)) {
            if (status != 0)
                exit(2);
            break;
        }
        report(p, shape_at(s, p->next++), strsignal(WTERMSIG(status)));
    }
    if (p->faults > 0)
        printf("    %" PRId64 " faults\n", p->faults);
}

static void add(sizes *list, const int *values, int count)
{
    for (int i = 0; i < count; i++)
        list->values[list->count++] = values[i];
}

static void add_all_small(sizes *list)
{
    for (int i = 1; i <= SMALL; i++)
        list->values[list->count++] = i;
}

#define ADD(list, ...) add(list, (int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

static void choose_sizes(const char *option, sizes *m, sizes *n, sizes *k)
{
    if (strcmp(option, "--sample") == 0) {
        ADD(m, 1, 33, 64, 72, 128);
        ADD(n, 1, 8, 65, 97);
        ADD(k, 1, 2, 31, 32, 33, 62, 63, 64, 65, 95, 127);
        return;
    }
    if (strcmp(option, "--all") == 0) {
        add_all_small(m);
        add_all_small(n);
    } else {
        ADD(m, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 72, 95, 97, 112, 127, 128);
        ADD(n, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 72, 95, 97, 112, 127, 128);
        ADD(k, 159, 191, 255, 257, 511, 784, 1023, 1024, LARGEST_K);
    }
    add_all_small(k);
}

int main(int argc, char **argv)
{
    const char *option = argc > 1 ? argv[1] : "";
    if (argc > 2 || (*option && strcmp(option, "--sample") != 0 && strcmp(option, "--all") != 0)) {
        fprintf(stderr, "usage: prove_products [--sample | --all]\n");
        return 2;
    }
    sizes m = {.count = 0}, n = m, k = m;
    choose_sizes(option, &m, &n, &k);
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        give_up("prove_products: mmap");
    int64_t faults = 0;
    for (size_t isa = 0; isa < sizeof isas / sizeof *isas; isa++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
                run_series(&(series){isas[isa], kinds[kind], &layouts[i], &m, &n, &k}, p);
                faults += p->faults;
            }
    printf("%" PRId64 " faults\n", faults);
    return faults != 0;
}
