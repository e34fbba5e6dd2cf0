/* SPDX-License-Identifier: Apache-2.0 */
/* The same bits whatever the instruction set, where an element lies and how many threads there are: every kernel at
 * every length and start, and whole calls over lists of every length. test_loops.c checks which bits those are. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "asserts.h"
#include "gradients/tasks.h"
#include "gradscaler/gradients.h"
#include "gradscaler/scaler.h"
#include "kernels/kernels.h"
#include "layouts.h"

enum { LONGEST = 130, LINE = 64, BYTES = LONGEST * 8 + 3 * LINE };

static const int32_t thread_counts[] = {1, 2, 3, 8};
enum { THREAD_COUNTS = sizeof thread_counts / sizeof thread_counts[0] };

/* All that a kernel changes and says. */
typedef struct answer {
    unsigned char bytes[BYTES];
    uint64_t max;
    gsc__partial partial;
} answer;

static void run(const gsc__kernel_table *table, gsc__operation op, gsc__kind kind, const unsigned char *data, size_t n,
                size_t start, double factor, answer *out)
{
    _Alignas(LINE) unsigned char memory[BYTES];
    const gsc__partials partials = gsc__operation_describe(op).partials;
    const size_t size = gsc__kind_size(kind);
    const gsc__run elements = {memory + LINE + start, n};
    memset(memory, 0x5a, sizeof memory);
    memcpy(elements.data, data, n * size);
    memset(out, 0, sizeof *out);
    out->max = table->kernels[op][kind](&elements, 1, factor, partials == GSC_NO_PARTIALS ? NULL : &out->partial);
    /* Moved to the place of start 0: what was written outside shows as a difference. */
    memset(out->bytes, 0x5a, sizeof out->bytes);
    memcpy(out->bytes, memory + start, sizeof memory - start);
    for (int bin = 0; bin < 3 && partials == GSC_SUMS; bin++)
        if (isnan(out->partial.sums[bin])) /* which NaN depends on the order of the terms */
            out->partial.sums[bin] = (double)NAN;
}

static void compare_starts(gsc__operation op, gsc__kind kind, const unsigned char *data, size_t n, double factor)
{
    answer expected, found;
    run(&gsc__kernels_baseline, op, kind, data, n, 0, factor, &expected);
    const gsc__kernel_table *table;
    for (size_t isa = 0; (table = gsc__kernels_present(isa)) != NULL; isa++)
        for (size_t start = 0; start < LINE; start += gsc__kind_size(kind)) {
            run(table, op, kind, data, n, start, factor, &found);
            if (memcmp(&found, &expected, sizeof found) != 0)
                fail_msg("%s of %s on %s differs from %s: %zu elements, %zu bytes after a line, factor %a",
                         gsc__operation_describe(op).name, gsc__kind_name(kind), table->isa, gsc__kernels_baseline.isa,
                         n, start, factor);
        }
}

/* Ordinary magnitudes, so that norms are finite; tiny float64 are so small that their squares need rescaling. */
static uint64_t ordinary(gsc__kind kind, uint64_t random, bool tiny)
{
    const int mantissa_bits[] = {23, 52, 7, 10}, bias[] = {127, 1023, 127, 15};
    uint64_t exponent = (uint64_t)bias[kind] - 8 + (random >> 52) % 16 - (kind == GSC_F64 && tiny ? 900 : 0);
    uint64_t mantissa = random & ((UINT64_C(1) << mantissa_bits[kind]) - 1);
    return random >> 63 << (8 * gsc__kind_size(kind) - 1) | exponent << mantissa_bits[kind] | mantissa;
}

typedef enum filling { ANY_BITS, ORDINARY, TINY } filling;

static void fill_elements(gsc__kind kind, unsigned char *data, size_t n, filling with, uint64_t *seed)
{
    size_t size = gsc__kind_size(kind);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = next_random(seed);
        bits = with == ANY_BITS ? bits >> (64 - 8 * size) : ordinary(kind, bits, with == TINY);
        memcpy(data + i * size, &bits, size);
    }
}

/* section 5.1 */
static void test_kernels_at_every_length_and_start(void **state)
{
    (void)state;
    static const double factors[] = {1.0 / 3.0, 0x1p-16, 0x1.8p+3};
    uint64_t seed = 1;
    unsigned char data[LONGEST * 8];
    for (size_t k = 0; k < (size_t)GSC_OPERATIONS * GSC_KINDS; k++) {
        const gsc__operation op = (gsc__operation)(k / GSC_KINDS);
        const gsc__kind kind = (gsc__kind)(k % GSC_KINDS);
        for (size_t n = 0; n <= LONGEST; n++)
            for (int with = ANY_BITS; with <= TINY; with++) {
                fill_elements(kind, data, n, (filling)with, &seed);
                compare_starts(op, kind, data, n, factors[(n + k) % 3]);
            }
    }
}

/* Tensors of every length and dtype, each somewhere else in a cache line, and of each dtype a large one, compact, and a
 * transposed one, in one piece of memory with gaps. */
enum { LARGE = 2 * GSC_TASK_MIN + 77, COLUMNS = 67, ROWS = 531, TENSORS = GSC_KINDS * (LONGEST + 3), LEAST_TASKS = 8 };

typedef struct corpus {
    size_t bytes, count;
    unsigned char *memory, *initial;
    int64_t shapes[TENSORS][2], strides[TENSORS][2];
    DLTensor tensors[TENSORS];
    DLTensor *list[TENSORS];
} corpus;

static void add_tensor(corpus *c, gsc__kind kind, int64_t rows, int64_t columns)
{
    const DLDataType dtypes[GSC_KINDS] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    size_t index = c->count++, size = gsc__kind_size(kind);
    c->bytes = (c->bytes + 2 * LINE - 1) / LINE * LINE + index * size % LINE;
    c->shapes[index][0] = rows;
    c->shapes[index][1] = columns;
    c->strides[index][0] = 1; /* columns are neighbours, with a gap after each: no tensor in one piece */
    c->strides[index][1] = rows + (columns > 1 ? 1 : 0);
    c->tensors[index] = tensor_over(NULL, dtypes[kind], 2, c->shapes[index], c->strides[index]);
    c->tensors[index].byte_offset = c->bytes;
    c->list[index] = &c->tensors[index];
    c->bytes += (size_t)((rows + 1) * columns) * size;
}

static void fill_corpus(corpus *c, bool finite)
{
    uint64_t seed = 42;
    for (size_t t = 0; t < c->count; t++) {
        gsc__kind kind = gsc__kind_of(c->tensors[t].dtype);
        assert_true(gsc__kind_is_float(kind));
        size_t n = (size_t)((c->shapes[t][0] + 1) * c->shapes[t][1]);
        filling with = !finite ? ANY_BITS : t % 16 == 0 ? TINY : ORDINARY;
        fill_elements(kind, c->initial + c->tensors[t].byte_offset, n, with, &seed);
    }
}

static corpus *corpus_create(bool finite)
{
    corpus *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (int kind = 0; kind < GSC_KINDS; kind++) {
        for (int64_t n = 0; n <= LONGEST; n++)
            add_tensor(c, (gsc__kind)kind, n, 1);
        add_tensor(c, (gsc__kind)kind, LARGE, 1);
        add_tensor(c, (gsc__kind)kind, ROWS, COLUMNS);
    }
    c->bytes = (c->bytes + 2 * LINE) / LINE * LINE;
    c->memory = aligned_alloc(LINE, c->bytes);
    c->initial = calloc(1, c->bytes);
    assert_non_null(c->memory);
    assert_non_null(c->initial);
    fill_corpus(c, finite);
    for (size_t t = 0; t < c->count; t++)
        c->tensors[t].data = c->memory;
    return c;
}

static void corpus_free(corpus *c)
{
    free(c->memory);
    free(c->initial);
    free(c);
}

/* What a call says besides what it does to the elements. */
typedef struct said {
    bool found_inf;
    double numbers[8];
    gsc_grad_stats stats;
} said;

static void do_unscale(corpus *c, said *out) { assert_ok(gsc_unscale_grads(c->list, c->count, 3.0, &out->found_inf)); }

static void do_check(corpus *c, said *out) { assert_ok(gsc_check_grads(c->list, c->count, &out->found_inf)); }

static void do_norms(corpus *c, said *out)
{
    const double types[] = {1.0, 2.0, (double)INFINITY, 3.0};
    for (size_t i = 0; i < 4; i++)
        assert_ok(gsc_grad_norm(c->list, c->count, types[i], &out->numbers[i]));
}

static void do_clip_norm_1(corpus *c, said *out)
{
    assert_ok(gsc_clip_grad_norm(c->list, c->count, 1.0, 1.0, &out->numbers[0]));
}

static void do_clip_norm_2(corpus *c, said *out)
{
    assert_ok(gsc_clip_grad_norm(c->list, c->count, 1.0, 2.0, &out->numbers[0]));
}

static void do_clip_norm_infinity(corpus *c, said *out)
{
    assert_ok(gsc_clip_grad_norm(c->list, c->count, 1.0, (double)INFINITY, &out->numbers[0]));
}

static void do_clip_value(corpus *c, said *out)
{
    (void)out;
    assert_ok(gsc_clip_grad_value(c->list, c->count, 0.75));
}

static void do_statistics(corpus *c, said *out)
{
    for (size_t t = 0; t < c->count; t++) {
        gsc_grad_stats stats;
        assert_ok(gsc_grad_statistics(c->list[t], &stats));
        out->numbers[t % 8] += stats.min_abs + stats.max_abs;
        out->stats = stats;
    }
}

static void do_scale(corpus *c, said *out)
{
    (void)out;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = 3.0;
    gsc_scaler *scaler = NULL;
    assert_ok(gsc_scaler_create(&options, &scaler));
    for (size_t t = 0; t < c->count; t++)
        assert_ok(gsc_scaler_scale(scaler, c->list[t], c->list[t]));
    gsc_scaler_destroy(scaler);
}

static size_t corpus_count(void *self) { return ((corpus *)self)->count; }
static DLTensor *corpus_grad(void *self, size_t index) { return ((corpus *)self)->list[index]; }

static gsc_status step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)self, (void)args, (void)value, (void)has_value;
    return gsc_fail(GSC_ERR_STATE, "a scale-aware step was expected");
}

static gsc_status step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                              bool *has_value)
{
    (void)self, (void)args;
    *value = scaling->multiplier;
    *has_value = true;
    return GSC_OK;
}

/* The norm of what the gradients would be, without storing that. */
static void do_step_scaled(corpus *c, said *out)
{
    const double types[] = {1.0, 2.0, (double)INFINITY};
    const gsc_optimizer optimizer = {
        .self = c, .grad_count = corpus_count, .grad = corpus_grad, .step = step, .step_scaled = step_scaled};
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = 3.0;
    options.allow_fp16_grads = true;
    gsc_scaler *scaler = NULL;
    assert_ok(gsc_scaler_create(&options, &scaler));
    for (size_t i = 0; i < 3; i++) {
        const gsc_step_args args = {.clip_norm = 1.0, .clip_norm_type = types[i]};
        gsc_step_result result;
        assert_ok(gsc_scaler_step(scaler, &optimizer, &args, &result));
        assert_ok(gsc_scaler_update(scaler));
        out->numbers[2 * i] = result.grad_norm;
        out->numbers[2 * i + 1] = result.value;
    }
    gsc_scaler_destroy(scaler);
}

typedef struct operation {
    const char *name;
    void (*run)(corpus *c, said *out);
    bool any_bits;   /* not only finite elements */
    bool one_tensor; /* of a list at a time: its loops are of the large tensor */
    bool serial;
} operation;

static const operation operations[] = {
    {.name = "gsc_unscale_grads", .run = do_unscale, .any_bits = true},
    {.name = "gsc_check_grads", .run = do_check, .any_bits = true},
    {.name = "gsc_grad_norm", .run = do_norms},
    {.name = "gsc_clip_grad_norm, p = 1", .run = do_clip_norm_1},
    {.name = "gsc_clip_grad_norm, p = 2", .run = do_clip_norm_2},
    {.name = "gsc_clip_grad_norm, p infinite", .run = do_clip_norm_infinity},
    {.name = "gsc_clip_grad_value", .run = do_clip_value, .any_bits = true},
    {.name = "gsc_grad_statistics", .run = do_statistics, .serial = true},
    {.name = "gsc_scaler_scale", .run = do_scale, .any_bits = true, .one_tensor = true},
    {.name = "gsc_scaler_step, scale-aware", .run = do_step_scaled},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static void perform(corpus *c, const operation *o, said *out)
{
    memcpy(c->memory, c->initial, c->bytes);
    memset(out, 0, sizeof *out);
    o->run(c, out);
}

static void compare_everywhere(corpus *c, const operation *o, unsigned char *expected)
{
    said first, found;
    assert_true(gsc__kernels_select(gsc__kernels_baseline.isa));
    gsc_set_num_threads(1);
    perform(c, o, &first);
    memcpy(expected, c->memory, c->bytes);
    const gsc__kernel_table *table;
    for (size_t isa = 0; (table = gsc__kernels_present(isa)) != NULL; isa++)
        for (size_t i = 0; i < THREAD_COUNTS; i++) {
            assert_true(gsc__kernels_select(table->isa));
            gsc_set_num_threads(thread_counts[i]);
            perform(c, o, &found);
            if (memcmp(c->memory, expected, c->bytes) != 0)
                fail_msg("%s leaves other elements on %s with %d threads", o->name, table->isa, (int)thread_counts[i]);
            if (memcmp(&found, &first, sizeof found) != 0)
                fail_msg("%s says something else on %s with %d threads: found_inf %d and %d, %a and %a", o->name,
                         table->isa, (int)thread_counts[i], found.found_inf, first.found_inf, found.numbers[0],
                         first.numbers[0]);
        }
}

static void compare_operations(bool finite)
{
    corpus *c = corpus_create(finite);
    unsigned char *expected = malloc(c->bytes);
    assert_non_null(expected);
    for (size_t i = 0; i < OPERATIONS; i++)
        if (finite || operations[i].any_bits)
            compare_everywhere(c, &operations[i], expected);
    free(expected);
    corpus_free(c);
    gsc_set_num_threads(0);
    assert_true(gsc__kernels_select(gsc__kernels_present(0)->isa));
}

/* section 5.2 */
static void test_calls_on_ordinary_elements(void **state)
{
    (void)state;
    compare_operations(true);
}

/* section 5.2 */
static void test_calls_on_any_bits(void **state)
{
    (void)state;
    compare_operations(false);
}

/* The above means something only if the calls split their work, and if so many threads then take part in it. */
static void note_tasks(void *host, size_t count, gsc_task *task, void *ctx)
{
    size_t *most = host;
    *most = count > *most ? count : *most;
    for (size_t i = count; i-- > 0;)
        task(ctx, i);
}

/* rule 15.5 */
static void test_calls_split_their_work(void **state)
{
    (void)state;
    corpus *c = corpus_create(true);
    for (size_t i = 0; i < OPERATIONS; i++) {
        size_t most = 0;
        said words;
        gsc_set_parallel_for(note_tasks, &most);
        perform(c, &operations[i], &words);
        gsc_set_parallel_for(NULL, NULL);
        if (!operations[i].serial && most < (operations[i].one_tensor ? 2 : LEAST_TASKS))
            fail_msg("%s has no more than %zu tasks", operations[i].name, most);
    }
    corpus_free(c);
}

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t complete;
    int wanted, present;
    bool in_vain;
} meeting;

/* No thread leaves before all have come, so that none can run two. */
static void meet(void *ctx, size_t index)
{
    (void)index;
    meeting *m = ctx;
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 60;
    pthread_mutex_lock(&m->lock);
    m->present++;
    pthread_cond_broadcast(&m->complete);
    while (m->present < m->wanted && !m->in_vain)
        m->in_vain = pthread_cond_timedwait(&m->complete, &m->lock, &deadline) != 0;
    pthread_mutex_unlock(&m->lock);
}

/* rule 15.5 */
static void test_so_many_threads_take_part(void **state)
{
    (void)state;
    for (size_t i = 0; i < THREAD_COUNTS; i++) {
        meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER, .complete = PTHREAD_COND_INITIALIZER};
        m.wanted = thread_counts[i];
        gsc_set_num_threads(thread_counts[i]);
        gsc_parallel_run((size_t)m.wanted, meet, &m);
        if (m.in_vain)
            fail_msg("fewer than %d threads took part", m.wanted);
    }
    gsc_set_num_threads(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_at_every_length_and_start),
        cmocka_unit_test(test_calls_on_ordinary_elements),
        cmocka_unit_test(test_calls_on_any_bits),
        cmocka_unit_test(test_calls_split_their_work),
        cmocka_unit_test(test_so_many_threads_take_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
