/* SPDX-License-Identifier: Apache-2.0 */
/* Rules 6 and 18: memory that two optimizers would divide, gradients that came or were replaced after the check; what
 * options.strict finds besides. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdlib.h>

#include "rig.h"

/* Two optimizers over parts of one array; scale 2. */
typedef struct pair {
    gsc_scaler *scaler;
    fake_optimizer a, b;
    float data[16], param;
} pair;

static void pair_start_with(pair *p, gsc_scaler_options options)
{
    p->scaler = new_scaler(&options);
    p->param = 0;
    fake_init(&p->a);
    fake_init(&p->b);
    for (int i = 0; i < 16; i++)
        p->data[i] = 8;
}

static void pair_start(pair *p, bool strict)
{
    gsc_scaler_options options = options_of(2, 100);
    options.strict = strict;
    pair_start_with(p, options);
}

static void add(fake_optimizer *fake, float *grad, int64_t count, const char *name)
{
    fake_add(fake, GSC_FLOAT32, NULL, grad, count, name);
}

static void assert_data(const pair *p, int first, int count, float value)
{
    for (int i = first; i < first + count; i++)
        assert_true(p->data[i] == value);
}

static DLTensor *grad_without_the_second(void *self, size_t index)
{
    return index == 1 ? GSC_GRAD_FAILED : fake_grad(self, index);
}

/* At the step, too, a gradient that cannot be had is named, and an older message is not taken for its reason. */
/* trial T11 */
static void test_gradient_that_cannot_be_had_at_the_step(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, true);
    add(&p.a, p.data, 2, "first");
    add(&p.a, p.data + 2, 2, "second");
    assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
    p.a.base.grad = grad_without_the_second;
    gsc_fail(GSC_ERR_IO, "an older message");
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL),
                 "gsc_scaler_step: gradient 1 (\"second\"): the optimizer's grad failed: it left no message");
    p.a.base.grad = fake_grad;
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    gsc_scaler_destroy(p.scaler);
}

/* trial T1, rule 18.1 */
static void test_memory_of_an_unscaled_optimizer(void **state)
{
    (void)state;
    const gsc_step_args clip = {.clip_norm = 1};
    for (int scaled = 0; scaled < 2; scaled++) {
        pair p;
        pair_start(&p, false);
        add(&p.a, p.data, 2, "first");
        add(&p.a, p.data + 2, 6, "w");
        add(&p.b, p.data + 12, 2, "other");
        add(&p.b, p.data + 7, 2, "v"); /* its first element is the last one of a's */
        p.b.base.step_scaled = scaled ? fake_step_scaled : NULL;
        assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
        char address[32];
        snprintf(address, sizeof address, "%p", (void *)&p.a.base);
        for (int again = 0; again < 2; again++) {
            assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(p.scaler, &p.b.base),
                         "gsc_scaler_unscale: gradient 1 (\"v\")", "gradient 1 of the optimizer at", address,
                         "which gsc_scaler_unscale has unscaled", "divided twice");
            assert_fails(GSC_ERR_STATE, gsc_scaler_step(p.scaler, &p.b.base, NULL, NULL),
                         "gsc_scaler_step: gradient 1");
            assert_fails(GSC_ERR_STATE, gsc_scaler_step(p.scaler, &p.b.base, &clip, NULL), "\"v\"");
            assert_fails(GSC_ERR_STATE, gsc_scaler_clip_grad_norm(p.scaler, &p.b.base, 1, 2, NULL), "\"v\"");
        }
        assert_data(&p, 0, 8, 4);
        assert_data(&p, 8, 8, 8);
        assert_int_equal(p.b.steps + p.b.scaled_steps, 0);
        assert_int_equal(gsc_scaler_get_stage(p.scaler, &p.b.base), GSC_STAGE_READY);
        /* Once a has stepped, its memory may be used again. */
        assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
        assert_ok(gsc_scaler_unscale(p.scaler, &p.b.base));
        assert_data(&p, 12, 2, 4);
        assert_data(&p, 7, 1, 2);
        gsc_scaler_destroy(p.scaler);
    }
}

/* trial T1, rule 18.1 */
static void test_one_array_by_two_names(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, false);
    add(&p.a, p.data, 4, "w");
    add(&p.b, p.data, 4, "w");
    for (int iteration = 0; iteration < 3; iteration++) {
        assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
        assert_fails(GSC_ERR_STATE, gsc_scaler_step(p.scaler, &p.b.base, NULL, NULL), "gradient 0 (\"w\")");
        assert_ok(gsc_scaler_skip(p.scaler, &p.a.base));
        assert_ok(gsc_scaler_update(p.scaler));
    }
    assert_data(&p, 0, 4, 1);
    gsc_scaler_destroy(p.scaler);
}

/* trial T1, rule 18.1 */
static void test_memory_of_a_key(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, false);
    int key = 0, other_key = 0;
    const gsc_buffer whole = {p.data, 8, GSC_FLOAT32, "w"}, part = {p.data + 3, 2, GSC_FLOAT32, NULL};
    gsc_step_result result;
    char address[32];
    snprintf(address, sizeof address, "%p", (void *)&key);
    assert_ok(gsc_scaler_unscale_buffers(p.scaler, &key, &whole, 1, NULL));
    assert_fails(GSC_ERR_STATE, gsc_scaler_step_buffers(p.scaler, &other_key, &part, 1, NULL, &result),
                 "gsc_scaler_step_buffers: gradient 0 shares memory with gradient 0 of the key", address,
                 "gsc_scaler_unscale_buffers");
    assert_data(&p, 0, 8, 4);
    add(&p.a, p.data + 7, 2, "v");
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(p.scaler, &p.a.base), "gradient 0 (\"v\")", address);
    assert_ok(gsc_scaler_step_buffers(p.scaler, &key, &whole, 1, NULL, &result));
    assert_ok(gsc_scaler_step_buffers(p.scaler, &other_key, &part, 1, NULL, &result));
    gsc_scaler_destroy(p.scaler);
}

/* Columns of one matrix belong to two optimizers. */
/* rule 18.1 */
static void test_interleaved_memory_is_not_shared(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, false);
    int64_t shape[2] = {4, 2}, strides[2] = {4, 1};
    add(&p.a, p.data, 1, "left");
    add(&p.b, p.data + 2, 1, "right");
    fake_optimizer *both[2] = {&p.a, &p.b};
    for (int i = 0; i < 2; i++) {
        both[i]->params[0].grad.ndim = 2;
        both[i]->params[0].grad.shape = shape;
        both[i]->params[0].grad.strides = strides;
    }
    for (int iteration = 0; iteration < 2; iteration++) {
        assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
        assert_ok(gsc_scaler_unscale(p.scaler, &p.b.base));
        assert_data(&p, 0, 16, iteration == 0 ? 4 : 2);
        assert_ok(gsc_scaler_update(p.scaler));
    }
    p.b.params[0].grad.data = p.data + 1; /* takes in a column of a's */
    assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(p.scaler, &p.b.base), "\"right\"", "shares memory");
    gsc_scaler_destroy(p.scaler);
}

/* A collective of one rank. */
static int count_collectives(void *self, DLTensor *values, void *stream)
{
    (void)values, (void)stream;
    ++*(int *)self;
    return 0;
}

/* rule 18.1 */
static void test_a_refusal_enters_the_collective(void **state)
{
    (void)state;
    int collectives = 0;
    const gsc_comm comm = {.self = &collectives, .allreduce_max = count_collectives};
    gsc_scaler_options options = options_of(2, 100);
    options.comm = &comm;
    pair p;
    pair_start_with(&p, options);
    add(&p.a, p.data, 4, "w");
    add(&p.b, p.data, 4, "w");
    assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
    assert_int_equal(collectives, 1);
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(p.scaler, &p.b.base), "shares memory");
    assert_int_equal(collectives, 2);
    gsc_scaler_destroy(p.scaler);
}

/* trial T4, rule 6.9 */
static void test_a_gradient_that_was_absent(void **state)
{
    (void)state;
    for (int grown = 0; grown < 2; grown++) {
        pair p;
        pair_start(&p, false);
        add(&p.a, p.data, 2, "w");
        if (!grown) {
            add(&p.a, p.data + 2, 2, "late");
            p.a.params[1].absent = true;
        }
        fake_add(&p.a, GSC_FLOAT32, NULL, p.data + 4, 0, "empty");
        p.a.params[0].param.data = &p.param;
        p.a.params[0].shape[0] = 1;
        assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
        if (grown)
            add(&p.a, p.data + 2, 2, "late");
        else
            p.a.params[1].absent = false;
        const gsc_step_args clip = {.clip_norm = 1};
        for (int clips = 0; clips < 2; clips++) {
            assert_fails(GSC_ERR_STATE, gsc_scaler_step(p.scaler, &p.a.base, clips ? &clip : NULL, NULL),
                         grown ? "gradient 2 (\"late\")" : "gradient 1 (\"late\")",
                         "was absent when gsc_scaler_unscale checked", "gsc_scaler_skip and gsc_scaler_update");
            assert_int_equal(p.a.steps, 0);
            assert_true(p.param == 0 && p.data[0] == 4 && p.data[2] == 8);
            assert_int_equal(gsc_scaler_get_stage(p.scaler, &p.a.base), GSC_STAGE_UNSCALED);
        }
        assert_ok(gsc_scaler_skip(p.scaler, &p.a.base));
        assert_ok(gsc_scaler_update(p.scaler));
        assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
        gsc_scaler_destroy(p.scaler);
    }
}

/* rule 6.9 */
static void test_gradients_may_go_and_be_replaced(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, false);
    add(&p.a, p.data, 2, "w");
    add(&p.a, p.data + 2, 2, "v");
    add(&p.a, p.data, 2, "w again"); /* listed twice */
    assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    assert_ok(gsc_scaler_update(p.scaler));
    assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
    p.a.params[0].grad.data = p.data + 8;
    p.a.params[1].absent = true;
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    assert_ok(gsc_scaler_update(p.scaler));
    /* Nothing is known of gradients that the caller has checked. */
    assert_ok(gsc_scaler_record(p.scaler, &p.a.base, false));
    p.a.params[1].absent = false;
    add(&p.a, p.data + 10, 2, "new");
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    gsc_scaler_destroy(p.scaler);
}

/* rule 6.10 */
static void test_buffers_between_unscale_and_step(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, false);
    const gsc_buffer first[2] = {{p.data, 4, GSC_FLOAT32, "w"}, {NULL, 2, GSC_FLOAT32, "v"}};
    const gsc_buffer moved[2] = {{p.data + 8, 4, GSC_FLOAT32, "w"}, {NULL, 2, GSC_FLOAT32, "v"}};
    const gsc_buffer added[2] = {{p.data, 4, GSC_FLOAT32, "w"}, {p.data + 4, 2, GSC_FLOAT32, "v"}};
    const gsc_buffer longer[2] = {{p.data, 5, GSC_FLOAT32, "w"}, {NULL, 2, GSC_FLOAT32, "v"}};
    const gsc_buffer other[2] = {{p.data, 8, GSC_BFLOAT16, "w"}, {NULL, 2, GSC_FLOAT32, "v"}};
    const gsc_buffer absent[2] = {{NULL, 4, GSC_FLOAT32, "w"}, {NULL, 2, GSC_FLOAT32, "v"}};
    gsc_step_result result;
    for (int round = 0; round < 2; round++) {
        assert_ok(gsc_scaler_unscale_buffers(p.scaler, &p, first, 2, NULL));
        assert_fails(GSC_ERR_STATE, gsc_scaler_step_buffers(p.scaler, &p, added, 2, NULL, &result),
                     "gradient 1 (\"v\") was absent when gsc_scaler_unscale_buffers");
        assert_fails(GSC_ERR_STATE, gsc_scaler_step_buffers(p.scaler, &p, longer, 2, NULL, &result),
                     "gradient 0 (\"w\")", "number of elements");
        assert_fails(GSC_ERR_STATE, gsc_scaler_step_buffers(p.scaler, &p, other, 2, NULL, &result), "dtype");
        assert_fails(GSC_ERR_STATE, gsc_scaler_step_buffers(p.scaler, &p, absent, 2, NULL, &result),
                     "gradient 0, which gsc_scaler_unscale_buffers has checked, is missing");
        assert_fails(GSC_ERR_STATE, gsc_scaler_step_buffers(p.scaler, &p, NULL, 0, NULL, &result), "gradient 0",
                     "is missing");
        assert_ok(gsc_scaler_step_buffers(p.scaler, &p, round ? moved : first, 2, NULL, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        assert_ok(gsc_scaler_update(p.scaler));
    }
    gsc_scaler_destroy(p.scaler);
}

/* trial T3, rule 6.11 */
static void test_gradients_made_anew_after_a_failed_step(void **state)
{
    (void)state;
    for (int unscales = 0; unscales < 2; unscales++) {
        pair p;
        pair_start(&p, false);
        add(&p.a, p.data, 4, "w");
        p.a.failing = true;
        if (unscales)
            assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
        assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL), "unscaled",
                     "gsc_scaler_skip and gsc_scaler_update", "gsc_scaler_rearm", "the fake step failed");
        p.a.failing = false;
        p.a.params[0].grad.data = p.data + 8; /* a new batch, the update is forgotten */
        assert_fails(GSC_ERR_STATE, gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL), "gradient 0 (\"w\")",
                     unscales ? "gsc_scaler_unscale" : "gsc_scaler_step", "before the step that failed",
                     "gsc_scaler_rearm", "gsc_scaler_skip and gsc_scaler_update");
        assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(p.scaler, &p.a.base), "gsc_scaler_rearm",
                     "gsc_scaler_skip and gsc_scaler_update");
        assert_int_equal(p.a.steps, 1);
        assert_data(&p, 8, 4, 8);
        if (unscales) { /* the same gradients: the step is repeated */
            p.a.params[0].grad.data = p.data;
        } else {
            assert_ok(gsc_scaler_rearm(p.scaler, &p.a.base));
        }
        assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
        assert_data(&p, unscales ? 0 : 8, 4, 4);
        gsc_scaler_destroy(p.scaler);
    }
}

/* rule 6.6 */
static void test_a_failed_scaled_step_says_how_to_go_on(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, false);
    add(&p.a, p.data, 4, "w");
    p.a.base.step_scaled = fake_step_scaled;
    p.a.failing = true;
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL), "still scaled",
                 "gsc_scaler_skip and gsc_scaler_update", "the fake step failed");
    p.a.failing = false;
    p.a.params[0].grad.data = p.data + 8; /* scaled as well */
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    gsc_scaler_destroy(p.scaler);
}

/* rule 18.2 */
static void test_strict_one_gradient_in_two_optimizers(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        pair p;
        pair_start(&p, strict != 0);
        add(&p.a, p.data, 4, "w");
        add(&p.b, p.data + 8, 4, "other");
        add(&p.b, p.data + 2, 4, "v");
        for (int iteration = 0; iteration < 2; iteration++) {
            assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
            if (strict)
                assert_fails(GSC_ERR_STATE, gsc_scaler_step(p.scaler, &p.b.base, NULL, NULL), "gradient 1 (\"v\")",
                             "gradient 0 of the optimizer at", "gsc_scaler_step has checked since the last update",
                             "strict", "gsc_scaler_update");
            else
                assert_ok(gsc_scaler_step(p.scaler, &p.b.base, NULL, NULL));
            assert_ok(gsc_scaler_update(p.scaler));
        }
        assert_ok(gsc_scaler_step(p.scaler, &p.b.base, NULL, NULL)); /* alone in this iteration */
        gsc_scaler_destroy(p.scaler);
    }
}

/* rule 18.3 */
static void test_strict_replaced_gradients(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, true);
    add(&p.a, p.data, 4, "w");
    add(&p.a, p.data + 4, 2, "v");
    assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
    assert_ok(gsc_scaler_clip_grad_norm(p.scaler, &p.a.base, 1000, 2, NULL));
    p.a.params[1].grad.data = p.data + 8;
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL), "gradient 1 (\"v\")",
                 "gsc_scaler_unscale has unscaled", "strict", "gsc_scaler_rearm");
    p.a.params[1].grad.data = p.data + 4;
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    /* The second pass of SAM: gradients made anew in the same memory. */
    assert_ok(gsc_scaler_rearm(p.scaler, &p.a.base));
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    gsc_scaler_destroy(p.scaler);
}

/* rule 18.2 */
static void test_strict_from_the_environment(void **state)
{
    (void)state;
    const char *const values[] = {NULL, "0", "", "1"};
    for (int i = 0; i < 4; i++) {
        if (values[i])
            setenv("GSC_STRICT", values[i], 1);
        else
            unsetenv("GSC_STRICT");
        pair p;
        pair_start(&p, false);
        unsetenv("GSC_STRICT"); /* read at creation */
        add(&p.a, p.data, 4, "w");
        add(&p.b, p.data, 4, "w");
        assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
        assert_status(gsc_scaler_step(p.scaler, &p.b.base, NULL, NULL), i == 3 ? GSC_ERR_STATE : GSC_OK);
        gsc_scaler_destroy(p.scaler);
    }
}

static gsc_overflow overflow_of(const pair *p, const fake_optimizer *fake, size_t position)
{
    gsc_overflow found[4];
    memset(found, 0xff, sizeof found);
    assert_true(gsc_scaler_overflows(p->scaler, &fake->base, found, 4) > position);
    return found[position];
}

/* trial T8, rule 18.4 */
static void test_repeats(void **state)
{
    (void)state;
    pair p;
    gsc_scaler_options options = options_of(65536, 100);
    options.max_consecutive_skips = 4;
    pair_start_with(&p, options);
    add(&p.a, p.data, 4, "steady");
    add(&p.a, p.data + 4, 4, "moving");
    add(&p.a, p.data + 8, 4, "late");
    p.data[1] = INFINITY;
    for (int i = 0; i < 8; i++) {
        p.data[4 + i % 2] = NAN;
        p.data[5 - i % 2] = 1;
        if (i == 2)
            p.data[8] = NAN;
        assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
        assert_true(overflow_of(&p, &p.a, 0).repeats == (uint64_t)i + 1);
        assert_true(overflow_of(&p, &p.a, 1).repeats == 1);
        if (i >= 2)
            assert_true(overflow_of(&p, &p.a, 2).repeats == (uint64_t)i - 1);
        gsc_status status = gsc_scaler_update(p.scaler);
        assert_status(status, i < 3 ? GSC_OK : GSC_ERR_DIVERGED);
        if (i >= 3)
            assert_true((strstr(gsc_last_error(), "are gradients zeroed?") != NULL) == (i >= 4));
        if (i == 6)
            assert_message("the same 7 times in a row");
        p.data[4] = p.data[5] = 1;
    }
    p.data[1] = p.data[4] = p.data[5] = p.data[8] = 1; /* a clean one ends the row */
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    assert_ok(gsc_scaler_update(p.scaler));
    p.data[1] = INFINITY;
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    assert_true(overflow_of(&p, &p.a, 0).repeats == 1);
    p.data[2] = INFINITY; /* another count */
    assert_ok(gsc_scaler_update(p.scaler));
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    assert_true(overflow_of(&p, &p.a, 0).repeats == 1);
    gsc_scaler_destroy(p.scaler);
}

/* rule 6.9: a clip, too, must not take a gradient that is still scaled. */
static void test_a_clip_compares_as_the_step_does(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, false);
    add(&p.a, p.data, 1, "w");
    add(&p.a, p.data + 1, 1, "late");
    p.a.params[1].absent = true;
    p.data[0] = 8;
    p.data[1] = 65536;
    assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
    const float unscaled = p.data[0];
    p.a.params[1].absent = false;
    assert_fails(GSC_ERR_STATE, gsc_scaler_clip_grad_norm(p.scaler, &p.a.base, 1, 2, NULL), "gradient 1 (\"late\")",
                 "gsc_scaler_clip_grad_norm");
    assert_exact((double)p.data[0], (double)unscaled);
    assert_exact((double)p.data[1], 65536);
    gsc_scaler_destroy(p.scaler);
}

static gsc_status fail_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                              bool *has_value)
{
    (void)self, (void)args, (void)scaling, (void)value, (void)has_value;
    return gsc_fail(GSC_ERR_VALUE, "not now");
}

/* rule 6.10: a failed scale-aware step leaves scaled gradients, which are checked anew: replacing those is allowed. */
static void test_a_new_check_forgets_a_failed_step(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, false);
    add(&p.a, p.data, 1, "w");
    p.a.base.step_scaled = fail_scaled;
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL), "not now");
    assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
    p.a.params[0].grad.data = p.data + 4;
    assert_ok(gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL));
    gsc_scaler_destroy(p.scaler);
}

/* Bad input that comes at the step only: its shape is not read. */
static void test_a_bad_tensor_at_the_step(void **state)
{
    (void)state;
    pair p;
    pair_start(&p, false);
    add(&p.a, p.data, 1, "w");
    add(&p.a, p.data + 1, 1, "late");
    p.a.params[1].absent = true;
    assert_ok(gsc_scaler_unscale(p.scaler, &p.a.base));
    p.a.params[1].absent = false;
    p.a.params[1].grad.shape = NULL;
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL), "late");
    p.a.params[1].grad.shape = p.a.params[1].shape;
    p.a.params[1].grad.ndim = INT32_MAX;
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(p.scaler, &p.a.base, NULL, NULL), "late");
    gsc_scaler_destroy(p.scaler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_that_cannot_be_had_at_the_step),
        cmocka_unit_test(test_memory_of_an_unscaled_optimizer),
        cmocka_unit_test(test_one_array_by_two_names),
        cmocka_unit_test(test_memory_of_a_key),
        cmocka_unit_test(test_interleaved_memory_is_not_shared),
        cmocka_unit_test(test_a_refusal_enters_the_collective),
        cmocka_unit_test(test_a_gradient_that_was_absent),
        cmocka_unit_test(test_gradients_may_go_and_be_replaced),
        cmocka_unit_test(test_buffers_between_unscale_and_step),
        cmocka_unit_test(test_gradients_made_anew_after_a_failed_step),
        cmocka_unit_test(test_a_failed_scaled_step_says_how_to_go_on),
        cmocka_unit_test(test_strict_one_gradient_in_two_optimizers),
        cmocka_unit_test(test_strict_replaced_gradients),
        cmocka_unit_test(test_strict_from_the_environment),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_a_clip_compares_as_the_step_does),
        cmocka_unit_test(test_a_new_check_forgets_a_failed_step),
        cmocka_unit_test(test_a_bad_tensor_at_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
