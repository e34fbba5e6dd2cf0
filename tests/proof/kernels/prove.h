/* SPDX-License-Identifier: Apache-2.0 */
/* prove.h: the parts of prove_kernels.
 *
 *     domains.c   what is enumerated: elements in blocks, and the scales that each block meets
 *     blocks.c    one block through every kernel of every instruction set
 *     calls.c     many blocks as one tensor through the public functions
 *     threads.c   this program's own threads: those of the library are under test */
#ifndef GSC_PROVE_PROVE_H
#define GSC_PROVE_PROVE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "reference.h"

enum { PROVE_BLOCK = 4096, PROVE_BYTES = PROVE_BLOCK * 8 };

typedef struct domain {
    const char *name, *dtype;
    gsc__kind kind;
    uint64_t blocks; /* of PROVE_BLOCK elements */
    void (*fill)(uint64_t block, void *x);
    size_t n_scales;                                   /* for the kernels on whole blocks */
    size_t n_few_scales;                               /* the first of them: for norms, short runs, public functions */
    bool each_alone;                                   /* check on each element alone, too */
    unsigned sample_block_stride, sample_scale_stride; /* a sample takes every n-th block and scale */
} domain;

enum { DOMAINS = 5 };
extern const domain prove_domains[DOMAINS];

/* The blocks of a domain that are proven: all of them, or a sample. */
typedef struct selection {
    const domain *from;
    uint64_t blocks, block_stride; /* how many, and the distance from one to the next */
    size_t scale_stride;
} selection;

/* The reference's dtypes are the library's. */
static inline ref_type prove_type(const domain *d) { return (ref_type)d->kind; }

/* The index-th scale: 3, 1 and six more; then, where a domain has more than these eight, the powers of two from 2^-126.
 */
double prove_scale(size_t index);
/* The bits of the clamping limit for a domain's index-th scale: 0, infinity, and numbers between them. */
uint64_t prove_limit(ref_type type, size_t index);

/* The tables that this processor can run, NULL after the last. Found once, because finding them takes longer than
 * proving a block. */
enum { PROVE_TABLES = 8 };
extern const gsc__kernel_table *prove_tables[PROVE_TABLES];
void prove_find_tables(void);

/* For each kernel, the sum over blocks of a hash of its expected results. The order of blocks does not matter. */
typedef struct digests {
    uint64_t sums[GSC_OPERATIONS][GSC_KINDS];
} digests;

/* Fills the index-th block, runs it through all kernels with all selected scales; a difference ends the program with a
 * message. */
typedef struct block_room block_room; /* one thread's memory */
block_room *prove_room_create(void);
void prove_block(block_room *room, const selection *what, uint64_t index, digests *sums);
void prove_room_free(block_room *room);

/* The selected blocks through the public functions with 1 and 2 threads. threads: for the reference. progress gets the
 * number of blocks done, once per scale. */
void prove_calls(const selection *what, int threads, void (*progress)(uint64_t blocks));

/* Calls task(ctx, index) for each index below count, on this many threads. */
typedef void prove_task(void *ctx, uint64_t index);
void prove_run(int threads, uint64_t count, prove_task *task, void *ctx);

/* Prints what is different to stderr and ends the program with status 1. */
_Noreturn void prove_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
