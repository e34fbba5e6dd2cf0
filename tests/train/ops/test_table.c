/* SPDX-License-Identifier: Apache-2.0 */
/* The harness of all ops: walks op_list.h and puts each op through its shapes in every dtype: the result against a
 * reference in double, gradients against finite differences of that reference, every combination of wanted gradients,
 * sentinels around everything written, and the same bits for every thread count. */
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "op_reference.h"
#include "op_shapes.h"
#include "train/ops/op_list.h"
#include "train/tape/tape.h"
#include "train/tensor/convert.h"

typedef struct op_test {
    const op_shapes *shapes;
    void (*reference)(const ref_tensor *in, ref_tensor *out);
    double tolerance;
} op_test;

#define OP_TEST(op, policy, required, inputs, error, ...) {shapes_##op, reference_##op, error},
static const op_test op_tests[GSC_OP_COUNT] = {GSC_OPS(OP_TEST)};

static const gsc__kind float_kinds[] = {GSC_F64, GSC_F32, GSC_BF16, GSC_F16};
static const double epsilons[] = {[GSC_F64] = 0x1p-52, [GSC_F32] = 0x1p-23, [GSC_BF16] = 0x1p-7, [GSC_F16] = 0x1p-10};

/* Elements between sentinels. */
enum { GUARD = 128, SENTINEL = 0xa5 };

typedef struct guarded {
    unsigned char *memory;
    size_t bytes;
} guarded;

static guarded new_guarded(size_t bytes)
{
    guarded block = {.memory = malloc(bytes + 2 * GUARD), .bytes = bytes};
    assert_non_null(block.memory);
    memset(block.memory, SENTINEL, bytes + 2 * GUARD);
    return block;
}

static void *inside(const guarded *block) { return block->memory + GUARD; }

static void check_and_free(guarded *block)
{
    for (size_t i = 0; i < GUARD; i++)
        if (block->memory[i] != SENTINEL || block->memory[GUARD + block->bytes + i] != SENTINEL)
            fail_msg("a byte outside of %zu was written", block->bytes);
    free(block->memory);
}

/* One op at one shape and dtype. */
typedef struct op_trial {
    const op_test *test;
    gsc_tape *tape;
    gsc__call call;
    gsc__node node;
    gsc_tensor in[GSC_OP_INPUTS], out;
    guarded in_memory[GSC_OP_INPUTS], out_memory, out_grad_memory, saved_memory;
    ref_tensor ref_in[GSC_OP_INPUTS], ref_out;
    double *weight; /* the result's gradient */
} op_trial;

static uint32_t random_state;

static double random_unit(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) / 8388608.0 - 1.0;
}

static int32_t parse_shape(const char *text, int64_t *shape)
{
    int32_t ndim = 0;
    while (*text != 's' && *text != '\0') {
        char *end;
        shape[ndim++] = strtoll(text, &end, 10);
        text = *end == 'x' ? end + 1 : end;
    }
    return ndim;
}

static void init_tensor(gsc_tensor *tensor, ref_tensor *ref, gsc__kind kind, const char *shape_text)
{
    int64_t shape[GSC_TENSOR_MAX_DIMS];
    int32_t ndim = parse_shape(shape_text, shape);
    size_t count;
    assert_ok(gsc__shape_count("test", kind, ndim, shape, &count));
    gsc__tensor_init(tensor, kind, ndim, shape, count);
    *ref = (ref_tensor){.ndim = ndim, .count = count, .v = calloc(count + 1, sizeof(double))};
    assert_non_null(ref->v);
    memcpy(ref->shape, tensor->shape, sizeof ref->shape);
}

/* Numbers of the dtype, not close to 0 where relu has its kink, or labels. */
static void fill_input(gsc_tensor *tensor, ref_tensor *ref, int64_t classes)
{
    for (size_t i = 0; i < ref->count; i++) {
        if (tensor->kind == GSC_I64) {
            int64_t label = (int64_t)i % classes;
            ((int64_t *)tensor->data.data)[i] = label;
            ref->v[i] = (double)label;
            continue;
        }
        double value = random_unit();
        value = fabs(value) < 0.01 ? 0.5 : value;
        void *element = gsc__at_mutable(tensor->kind, tensor->data.data, i);
        gsc__convert(GSC_F64, &value, tensor->kind, element, 1);
        gsc__convert(tensor->kind, element, GSC_F64, &ref->v[i], 1);
    }
}

static bool is_labels(const op_trial *trial, int i)
{
    return trial->call.op == &gsc__op_table[GSC_OP_cross_entropy_loss] && i == 1;
}

static void add_input(op_trial *trial, int i, gsc__kind kind, const char *shape)
{
    kind = is_labels(trial, i) ? GSC_I64 : kind;
    init_tensor(&trial->in[i], &trial->ref_in[i], kind, shape);
    trial->in_memory[i] = new_guarded(gsc__tensor_bytes(&trial->in[i]));
    trial->in[i].data.data = inside(&trial->in_memory[i]);
    fill_input(&trial->in[i], &trial->ref_in[i], trial->in[0].shape[1]);
    trial->call.in[i] = &trial->in[i];
    trial->call.in_kinds[i] = kind;
}

static void set_up(op_trial *trial, int op, const op_shapes *shapes, gsc__kind kind, gsc__kind cast_to)
{
    *trial = (op_trial){.test = &op_tests[op],
                        .call = {.op = &gsc__op_table[op], .out_kind = cast_to, .factor = REFERENCE_FACTOR}};
    assert_ok(gsc_tape_create(&trial->tape));
    for (int i = 0; i < GSC_OP_INPUTS && shapes->in[i]; i++)
        add_input(trial, i, kind, shapes->in[i]);
    if (op == GSC_OP_reshape)
        trial->call.ndim = parse_shape(shapes->out, trial->call.shape);
    assert_ok(trial->call.op->check(&trial->call));
    init_tensor(&trial->out, &trial->ref_out, trial->call.out_kind, shapes->out);
    assert_int_equal(trial->call.ndim, trial->out.data.ndim);
    assert_memory_equal(trial->call.shape, trial->out.shape, (size_t)trial->call.ndim * sizeof(int64_t));
    trial->out_memory = new_guarded(gsc__tensor_bytes(&trial->out));
    trial->out.data.data = inside(&trial->out_memory);
    trial->saved_memory = new_guarded(trial->call.saved_bytes);
    trial->node = (gsc__node){
        .op = trial->call.op, .out = &trial->out, .factor = REFERENCE_FACTOR, .saved = inside(&trial->saved_memory)};
    memcpy(trial->node.in, trial->call.in, sizeof trial->node.in);
    trial->out_grad_memory = new_guarded(gsc__tensor_bytes(&trial->out));
    trial->out.grad.data = inside(&trial->out_grad_memory);
    ref_tensor weight = {.count = trial->out.count, .v = calloc(trial->out.count + 1, sizeof(double))};
    assert_non_null(weight.v);
    gsc_tensor view = trial->out;
    view.data.data = trial->out.grad.data;
    fill_input(&view, &weight, 0);
    trial->weight = weight.v;
}

static void tear_down(op_trial *trial)
{
    for (int i = 0; i < GSC_OP_INPUTS; i++) {
        if (trial->in_memory[i].memory)
            check_and_free(&trial->in_memory[i]);
        free(trial->ref_in[i].v);
    }
    check_and_free(&trial->out_memory);
    check_and_free(&trial->out_grad_memory);
    check_and_free(&trial->saved_memory);
    free(trial->ref_out.v);
    free(trial->weight);
    gsc_tape_free(trial->tape);
}

static double error_allowed(const op_trial *trial, gsc__kind kind, double magnitude)
{
    double finite_difference = 1e-7; /* also float16's smallest number */
    return trial->test->tolerance * epsilons[kind] * fmax(1, magnitude) + finite_difference * fmax(1, magnitude);
}

static void assert_near(const op_trial *trial, const char *what, size_t i, double value, double expected,
                        double allowed)
{
    if (isnan(expected) ? isnan(value) : fabs(value - expected) <= allowed)
        return;
    fail_msg("%s, %s: element %zu of %s is %.17g instead of %.17g, %g apart, %g allowed", trial->call.op->name,
             gsc__kind_name(trial->in[0].kind), i, what, value, expected, fabs(value - expected), allowed);
}

static void check_forward(op_trial *trial)
{
    assert_ok(trial->call.op->forward(&trial->node, trial->tape));
    trial->test->reference(trial->ref_in, &trial->ref_out);
    double magnitude = 0;
    for (size_t i = 0; i < trial->out.count; i++)
        magnitude = fmax(magnitude, fabs(trial->ref_out.v[i]));
    for (size_t i = 0; i < trial->out.count; i++) {
        double value;
        gsc__convert(trial->out.kind, gsc__at(trial->out.kind, trial->out.data.data, i), GSC_F64, &value, 1);
        assert_near(trial, "the result", i, value, trial->ref_out.v[i],
                    error_allowed(trial, trial->out.kind, magnitude));
    }
}

/* The sum of the result's elements times their weights: a function whose gradient backward should give. */
static double weighted_result(op_trial *trial)
{
    double sum = 0;
    trial->test->reference(trial->ref_in, &trial->ref_out);
    for (size_t i = 0; i < trial->out.count; i++)
        sum += trial->ref_out.v[i] * trial->weight[i];
    return sum;
}

static double finite_difference(op_trial *trial, double *x)
{
    const double before = *x, h = 1e-5;
    *x = before + h;
    double above = weighted_result(trial);
    *x = before - h;
    double below = weighted_result(trial);
    *x = before;
    return (above - below) / (2 * h);
}

/* About 40 elements, the first and the last among them. */
static void check_gradient(op_trial *trial, int input, const void *grad)
{
    const gsc_tensor *x = &trial->in[input];
    size_t step = x->count / 40 + 1;
    for (size_t k = 0; k < x->count; k += step) {
        size_t i = k + step >= x->count ? x->count - 1 : k;
        double value, expected = finite_difference(trial, &trial->ref_in[input].v[i]);
        gsc__convert(x->kind, gsc__at(x->kind, grad, i), GSC_F64, &value, 1);
        double terms = (double)trial->out.count / (double)x->count; /* broadcast: so many products are summed */
        assert_near(trial, trial->call.op->operands[input], i, value, expected,
                    error_allowed(trial, x->kind, fmax(fabs(expected), terms)));
    }
}

/* Bit i of `wanted`: the gradient of input i is asked for. */
static void run_backward(op_trial *trial, unsigned wanted, guarded grads[GSC_OP_INPUTS])
{
    void *pointers[GSC_OP_INPUTS] = {NULL};
    for (int i = 0; i < GSC_OP_INPUTS; i++) {
        if (!(wanted >> i & 1u))
            continue;
        grads[i] = new_guarded(gsc__tensor_bytes(&trial->in[i]));
        pointers[i] = inside(&grads[i]);
    }
    assert_ok(trial->call.op->backward(&trial->node, trial->tape, pointers));
}

static unsigned differentiable(const op_trial *trial)
{
    unsigned mask = 0;
    for (int i = 0; i < GSC_OP_INPUTS; i++)
        if (trial->call.in[i] && gsc__kind_is_float(trial->in[i].kind))
            mask |= 1u << i;
    return mask;
}

static void check_backward(op_trial *trial)
{
    guarded full[GSC_OP_INPUTS] = {{NULL, 0}};
    unsigned every = differentiable(trial);
    run_backward(trial, every, full);
    for (int i = 0; i < GSC_OP_INPUTS; i++)
        if (every >> i & 1u)
            check_gradient(trial, i, inside(&full[i]));
    for (unsigned wanted = 1; wanted < every; wanted++) {
        guarded some[GSC_OP_INPUTS] = {{NULL, 0}};
        if (wanted & ~every)
            continue;
        run_backward(trial, wanted, some);
        for (int i = 0; i < GSC_OP_INPUTS; i++) {
            if (!some[i].memory)
                continue;
            assert_memory_equal(some[i].memory, full[i].memory, full[i].bytes + 2 * GUARD);
            check_and_free(&some[i]);
        }
    }
    for (int i = 0; i < GSC_OP_INPUTS; i++)
        if (full[i].memory)
            check_and_free(&full[i]);
}

static void check_thread_counts(op_trial *trial)
{
    guarded one[GSC_OP_INPUTS] = {{NULL, 0}}, three[GSC_OP_INPUTS] = {{NULL, 0}};
    gsc_set_num_threads(1);
    assert_ok(trial->call.op->forward(&trial->node, trial->tape));
    run_backward(trial, differentiable(trial), one);
    guarded result = new_guarded(trial->out_memory.bytes);
    memcpy(result.memory, trial->out_memory.memory, result.bytes + 2 * GUARD);
    gsc_set_num_threads(3);
    assert_ok(trial->call.op->forward(&trial->node, trial->tape));
    run_backward(trial, differentiable(trial), three);
    gsc_set_num_threads(0);
    assert_memory_equal(result.memory, trial->out_memory.memory, result.bytes + 2 * GUARD);
    for (int i = 0; i < GSC_OP_INPUTS; i++) {
        if (!one[i].memory)
            continue;
        assert_memory_equal(one[i].memory, three[i].memory, one[i].bytes + 2 * GUARD);
        check_and_free(&one[i]);
        check_and_free(&three[i]);
    }
    check_and_free(&result);
}

static void check_op(int op, const op_shapes *shapes, gsc__kind kind, gsc__kind cast_to)
{
    op_trial trial;
    set_up(&trial, op, shapes, kind, cast_to);
    check_forward(&trial);
    check_backward(&trial);
    check_thread_counts(&trial);
    tear_down(&trial);
}

static void every_op_is_right_at_every_shape_and_dtype(void **state)
{
    (void)state;
    for (int op = 0; op < GSC_OP_COUNT; op++)
        for (const op_shapes *shapes = op_tests[op].shapes; shapes->out; shapes++)
            for (size_t k = 0; k < sizeof float_kinds / sizeof float_kinds[0]; k++)
                check_op(op, shapes, float_kinds[k], float_kinds[k]);
}

static void cast_is_right_between_all_dtypes(void **state)
{
    (void)state;
    for (const op_shapes *shapes = shapes_cast; shapes->out; shapes++)
        for (size_t from = 0; from < 4; from++)
            for (size_t to = 0; to < 4; to++) {
                op_trial trial;
                set_up(&trial, GSC_OP_cast, shapes, float_kinds[from], float_kinds[to]);
                check_forward(&trial);
                check_backward(&trial);
                tear_down(&trial);
            }
}

static void tables_are_complete(void **state)
{
    (void)state;
    for (int op = 0; op < GSC_OP_COUNT; op++) {
        const gsc__op *entry = &gsc__op_table[op];
        assert_int_equal(strncmp(entry->name, "gsc_", 4), 0);
        assert_true(entry->required >= 1 && entry->required <= entry->inputs && entry->inputs <= GSC_OP_INPUTS);
        for (int i = 0; i < entry->inputs; i++)
            assert_non_null(entry->operands[i]);
        assert_non_null(op_tests[op].shapes->out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_complete),
        cmocka_unit_test(every_op_is_right_at_every_shape_and_dtype),
        cmocka_unit_test(cast_is_right_between_all_dtypes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
