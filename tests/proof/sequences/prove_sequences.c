/* SPDX-License-Identifier: Apache-2.0 */
/* prove_sequences: compares the scaler with the model after every call of every sequence of up to 7 calls on two
 * optimizers (shorter ones in the variants of alphabet.c), and of random long ones. Prints what was tried; 0: no
 * difference, 1: the first difference, 2: wrong usage. */
/* proof_sequences_sample shows: section 5.6 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "enumerate.h"

enum { WALK_LENGTH = 200 };

typedef struct settings {
    bool sample, each;
    int length;
    uint64_t walks, seed;
    int threads;
} settings;

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: prove_sequences [--sample] [--each] [--length N] [--random N] [--seed S] [--threads N]\n"
            "  --sample     shorter sequences: seconds instead of minutes\n"
            "  --each       sequences that lead to the same state go on each by itself: hours instead of minutes\n"
            "  --length N   no sequence longer than N calls, 1 to 12\n"
            "  --random N   that many random sequences of 200 calls\n"
            "  --seed S     of the random sequences\n"
            "  --threads N  1 to 64; as many as there are processors\n");
    return 2;
}

static bool read_number(const char *text, uint64_t least, uint64_t greatest, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < least || value > greatest)
        return false;
    *out = value;
    return true;
}

static bool read_arguments(int argc, char **argv, settings *out)
{
    uint64_t length = MAX_LENGTH, threads = (uint64_t)out->threads;
    bool has_walks = false, good = true;
    for (int i = 1; i < argc && good; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--sample") == 0 || strcmp(argv[i], "--each") == 0) {
            *(argv[i][2] == 's' ? &out->sample : &out->each) = true;
            continue;
        }
        if (strcmp(argv[i], "--length") == 0)
            good = read_number(value, 1, MAX_LENGTH, &length);
        else if (strcmp(argv[i], "--random") == 0)
            has_walks = good = read_number(value, 0, UINT64_MAX, &out->walks);
        else if (strcmp(argv[i], "--seed") == 0)
            good = read_number(value, 0, UINT64_MAX, &out->seed);
        else if (strcmp(argv[i], "--threads") == 0)
            good = read_number(value, 1, MAX_THREADS, &threads);
        else
            good = false;
        if (!good)
            fprintf(stderr, "prove_sequences: %s %s: unknown or out of range\n", argv[i], value);
        i++;
    }
    if (!has_walks)
        out->walks = out->sample ? 2000 : 100000;
    out->length = (int)length;
    out->threads = (int)threads;
    return good;
}

/* Short sequences first, which costs little more: then the first difference has the fewest calls. */
static uint64_t prove_variant(const settings *set, const variant *v)
{
    int length = set->sample ? v->sample : v->whole;
    length = length < set->length ? length : set->length;
    double start = now();
    enumeration all = {0, 0};
    for (int n = 1; n <= length; n++)
        all = enumerate(v, n, set->each, set->threads);
    printf("%6d %14llu %14llu %8.1f  %s\n", length, (unsigned long long)all.sequences, (unsigned long long)all.calls,
           now() - start, v->name);
    fflush(stdout);
    return all.sequences;
}

static void prove(const settings *set)
{
    variant variants[MAX_VARIANTS];
    int n = list_variants(variants);
    uint64_t sequences = 0;
    double start = now();
    printf("Every sequence of 1 to `length` calls on two optimizers, compared with the model after each call:\n");
    printf("%6s %14s %14s %8s  %s\n", "length", "sequences", "calls made", "seconds", "options and optimizers");
    for (int i = 0; i < n; i++)
        sequences += prove_variant(set, &variants[i]);
    double before = now();
    walk_at_random(set->seed, set->walks, WALK_LENGTH, set->threads, false);
    printf("%6d %14llu %14llu %8.1f  random, seed %llu: all of these mixed, 1 to 4 optimizers\n", WALK_LENGTH,
           (unsigned long long)set->walks, (unsigned long long)set->walks * WALK_LENGTH, now() - before,
           (unsigned long long)set->seed);
    printf("No difference in %llu sequences and %llu random ones: %.1f s, %d threads, %s\n",
           (unsigned long long)sequences, (unsigned long long)set->walks, now() - start, set->threads, gsc_isa());
}

int main(int argc, char **argv)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    settings set = {.seed = 1,
                    .threads = processors < 1             ? 1
                               : processors > MAX_THREADS ? MAX_THREADS
                                                          : (int)processors};
    if (!read_arguments(argc, argv, &set))
        return usage();
    gsc_set_num_threads(1); /* the sequences keep the processors busy */
    prove(&set);
    return 0;
}
