/* SPDX-License-Identifier: Apache-2.0 */
/* Whole steps of optimizers: skipped ones touch nothing, clipped ones equal the plain path, and threads change no bit.
 */
#include <float.h>
#include <stdlib.h>

#include "optim_rules.h"

/* Appends the bits of a parameter and of its state. */
static unsigned char *append_bits(gsc_optim *optim, gsc_tensor *param, size_t index, unsigned char *out)
{
    static const char *const states[] = {"momentum_buffer", "exp_avg", "exp_avg_sq"};
    const DLTensor *tensors[1 + 3] = {gsc_tensor_data(param)};
    for (size_t s = 0; s < 3; s++)
        tensors[1 + s] = gsc_optim_state(optim, index, states[s]);
    for (size_t k = 0; k < 1 + 3; k++) {
        size_t bytes = tensors[k] ? bytes_of(param, tensors[k]) : 0;
        if (bytes > 0)
            memcpy(out, tensors[k]->data, bytes);
        out += bytes;
    }
    return out;
}

/* --- Through a scaler --- */

/* Whatever the rule, and wherever the one bad gradient is: first, in the middle or last. */
static void skip_one(const rule_case *rule, size_t bad_param, size_t bad_element, double bad)
{
    enum { ROOM = 3 * 4 * (1 + 17 + LONGEST) };
    unsigned char before[ROOM] = {0}, after[ROOM] = {0}, *out;
    gsc_tensor *params[PARAMS];
    for (size_t k = 0; k < PARAMS; k++) {
        params[k] = new_param(GSC_FLOAT32, param_sizes[k], "w");
        add_grad(params[k]);
        for (size_t i = 0; i < param_sizes[k]; i++) {
            element_set(gsc_tensor_data(params[k]), i, sample(3, k, i));
            element_set(gsc_tensor_grad(params[k]), i, sample(4, k, i));
        }
    }
    gsc_param_group group = rule->group;
    group.params = params;
    group.count = PARAMS;
    gsc_optim *optim;
    assert_ok(rule->create(&group, 1, &optim));
    assert_ok(gsc_optim_step(optim)); /* so that the states are not zero */
    out = before;
    for (size_t k = 0; k < PARAMS; k++)
        out = append_bits(optim, params[k], k, out);
    element_set(gsc_tensor_grad(params[bad_param]), bad_element, bad);
    gsc_scaler *scaler;
    assert_ok(gsc_scaler_create(NULL, &scaler));
    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, gsc_optim_optimizer(optim), &(gsc_step_args){.clip_norm = 1}, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    out = after;
    for (size_t k = 0; k < PARAMS; k++) {
        out = append_bits(optim, params[k], k, out);
        assert_int_equal(gsc_optim_get_step_count(optim, k), 1);
        gsc_tensor_free(params[k]);
    }
    assert_memory_equal(before, after, ROOM);
    gsc_scaler_destroy(scaler);
    gsc_optim_free(optim);
}

/* rule 7.1 */
static void a_skipped_step_touches_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rule_cases / sizeof rule_cases[0]; i++) {
        skip_one(&rule_cases[i], 0, 0, (double)NAN);
        skip_one(&rule_cases[i], 1, 8, -(double)INFINITY);
        skip_one(&rule_cases[i], PARAMS - 1, LONGEST - 1, (double)INFINITY);
    }
}

/* Clipping folded into the step's one pass against unscale, clip in place, step. */
static void compare_clipped(double scale, double tolerance)
{
    enum { COUNT = 1037 };
    gsc_tensor *both[2];
    gsc_optim *optims[2];
    for (size_t k = 0; k < 2; k++) {
        both[k] = new_param(GSC_FLOAT32, COUNT, "w");
        add_grad(both[k]);
        for (size_t i = 0; i < COUNT; i++)
            element_set(gsc_tensor_grad(both[k]), i, sample(2, 0, i) * scale);
        gsc_param_group group = gsc_param_group_default_sgd(&both[k], 1, 1);
        assert_ok(gsc_optim_create_sgd(&group, 1, &optims[k]));
    }
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = scale;
    gsc_scaler *scaler;
    assert_ok(gsc_scaler_create(&options, &scaler));
    const gsc_step_args args = {.clip_norm = 0.7};
    gsc_step_result results[2];
    assert_ok(gsc_scaler_unscale(scaler, gsc_optim_optimizer(optims[0])));
    for (size_t k = 0; k < 2; k++) {
        assert_ok(gsc_scaler_step(scaler, gsc_optim_optimizer(optims[k]), &args, &results[k]));
        assert_int_equal(results[k].outcome, GSC_STEPPED);
    }
    assert_true(results[0].grad_norm == results[1].grad_norm);
    double squares = 0;
    for (size_t i = 0; i < COUNT; i++) {
        double plain = element_get(gsc_tensor_data(both[0]), i), fused = element_get(gsc_tensor_data(both[1]), i);
        if (!(fabs(plain - fused) <= tolerance * fabs(plain)))
            fail_msg("scale %g, element %zu: %a, fused %a", scale, i, plain, fused);
        squares += fused * fused;
    }
    assert_float_equal(sqrt(squares), args.clip_norm, 1e-6);
    gsc_scaler_destroy(scaler);
    for (size_t k = 0; k < 2; k++) {
        gsc_optim_free(optims[k]);
        gsc_tensor_free(both[k]);
    }
}

/* rule 7.7 */
static void clipping_on_the_way_equals_clipping_in_place(void **state)
{
    (void)state;
    compare_clipped(65536, 0); /* a power of two rounds nothing away */
    compare_clipped(3000, 2 * (double)FLT_EPSILON);
}

/* --- Threads --- */

typedef struct host_calls {
    int loops;
    size_t tasks;
} host_calls;

static void host_loop(void *host, size_t count, gsc_task *task, void *ctx)
{
    host_calls *calls = host;
    calls->loops++;
    calls->tasks += count;
    while (count-- > 0)
        task(ctx, count);
}

/* A step over one parameter or over many of 64 elements, through a host's loop: what would be handed to threads. */
static host_calls step_through_host(size_t elements, size_t count)
{
    gsc_tensor **params = malloc(count * sizeof *params);
    assert_non_null(params);
    for (size_t k = 0; k < count; k++) {
        params[k] = new_param(GSC_FLOAT32, elements / count, "w");
        add_grad(params[k]);
        for (size_t i = 0; i < elements / count; i++)
            element_set(gsc_tensor_grad(params[k]), i, 1);
    }
    gsc_param_group group = gsc_param_group_default_sgd(params, count, 1);
    gsc_optim *optim;
    assert_ok(gsc_optim_create_sgd(&group, 1, &optim));
    host_calls calls = {0};
    gsc_set_parallel_for(host_loop, &calls);
    gsc_status status = gsc_optim_step(optim);
    gsc_set_parallel_for(NULL, NULL);
    assert_ok(status);
    for (size_t k = 0; k < count; k++) {
        for (size_t i = 0; i < elements / count; i++)
            assert_true(element_get(gsc_tensor_data(params[k]), i) == -1);
        gsc_tensor_free(params[k]);
    }
    gsc_optim_free(optim);
    free(params);
    return calls;
}

/* rule 15.5 */
static void threads_are_asked_for_large_totals_only(void **state)
{
    (void)state;
    for (size_t many = 0; many < 2; many++) {
        assert_int_equal(step_through_host(65472, many ? 65472 / 64 : 1).loops, 0);
        for (size_t elements = 65536; elements <= 200000; elements += 64 * 700) {
            host_calls calls = step_through_host(elements, many ? elements / 64 : 1);
            assert_int_equal(calls.loops, 1);
            assert_int_equal(calls.tasks, elements / 32768);
        }
    }
}

enum { MANY = 40, FIRST = 240001, THIRD = 30000 };

/* A large, an unaligned, a float64 and many small parameters; the bits of all and of their states after three steps go
 * to `out`. Enough elements for eight threads. */
static void train_many(create_function *create, gsc_param_group group, int threads, unsigned char *out)
{
    gsc_tensor *params[MANY];
    for (size_t k = 0; k < MANY; k++) {
        params[k] = new_param(k == 2 ? GSC_FLOAT64 : GSC_FLOAT32, k == 0 ? FIRST : k == 2 ? THIRD : k, "w");
        add_grad(params[k]);
        for (size_t i = 0; i < gsc_tensor_count(params[k]); i++)
            element_set(gsc_tensor_data(params[k]), i, sample(7, k, i));
    }
    gsc_set_num_threads(threads);
    group.params = params;
    group.count = MANY;
    gsc_optim *optim;
    assert_ok(create(&group, 1, &optim));
    for (size_t step = 0; step < 3; step++) {
        for (size_t k = 0; k < MANY; k++)
            for (size_t i = 0; i < gsc_tensor_count(params[k]); i++)
                element_set(gsc_tensor_grad(params[k]), i, sample(step, k, i));
        assert_ok(gsc_optim_step(optim));
    }
    gsc_set_num_threads(0);
    for (size_t k = 0; k < MANY; k++) {
        out = append_bits(optim, params[k], k, out);
        gsc_tensor_free(params[k]);
    }
    gsc_optim_free(optim);
}

/* section 5.3 */
static void every_thread_count_gives_the_same_bits(void **state)
{
    (void)state;
    enum { BYTES = 3 * (4 * FIRST + 8 * THIRD + 4 * (MANY * (MANY - 1) / 2 - 2)) };
    static const int threads[] = {2, 3, 8};
    unsigned char *one = calloc(BYTES, 1), *other = calloc(BYTES, 1);
    assert_true(one && other);
    for (size_t i = 0; i < sizeof rule_cases / sizeof rule_cases[0]; i += 3) {
        train_many(rule_cases[i].create, rule_cases[i].group, 1, one);
        for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
            train_many(rule_cases[i].create, rule_cases[i].group, threads[t], other);
            assert_memory_equal(one, other, BYTES);
        }
    }
    free(one);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_skipped_step_touches_nothing),
        cmocka_unit_test(clipping_on_the_way_equals_clipping_in_place),
        cmocka_unit_test(threads_are_asked_for_large_totals_only),
        cmocka_unit_test(every_thread_count_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
