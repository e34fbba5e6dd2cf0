/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 12: norms over ranks. Sharded gradients (allreduce_sum given) add up, others are the same on every rank. */
#define _POSIX_C_SOURCE 200809L

#include "fake_comm.h"

typedef struct shard {
    double grads[2]; /* what this rank holds, unscaled */
    size_t count;    /* 0: this rank has no gradient */
    gsc_status status;
    double norm, after[2], multiplier;
    int max_calls, sum_calls, max64_calls, steps;
    gsc_outcome outcome;
    gsc_status second_status; /* of a clip after a refused one */
    int64_t tracker;
} shard;

typedef enum clip_way { CLIP, UNSCALE_THEN_CLIP, STEP, FUSED_STEP, WAYS } clip_way;

static fake_world world;
static shard shards[FAKE_MAX_RANKS];
static struct {
    DLDataType dtype;
    double p, max_norm, scale;
    clip_way way;
    bool max64;     /* comm has allreduce_max64 */
    int turns_half; /* this rank's gradient is float16 by the time of the clip, or -1 */
} plan;

static void clip(fake_rank *rank)
{
    shard *s = &shards[rank->index];
    gsc_scaler_options options = options_of(plan.scale, 2);
    options.comm = &rank->comm;
    if (plan.max64)
        rank->comm.allreduce_max64 = fake_allreduce_max64;
    gsc_scaler *scaler = NULL;
    gsc_scaler_create(&options, &scaler);
    double data[2] = {0};
    fake_optimizer optimizer;
    fake_init(&optimizer);
    DLTensor *grad = &fake_add(&optimizer, plan.dtype, NULL, data, (int64_t)s->count, "shard")->grad;
    for (size_t i = 0; i < s->count; i++)
        element_set(grad, i, s->grads[i] * plan.scale);
    optimizer.params[0].absent = s->count == 0;
    optimizer.base.step_scaled = plan.way == FUSED_STEP ? fake_step_scaled : NULL;
    if (plan.way == UNSCALE_THEN_CLIP)
        gsc_scaler_unscale(scaler, &optimizer.base);
    if (plan.turns_half == rank->index)
        grad->dtype = GSC_FLOAT16;
    if (plan.way == CLIP || plan.way == UNSCALE_THEN_CLIP) {
        s->status = gsc_scaler_clip_grad_norm(scaler, &optimizer.base, plan.max_norm, plan.p, &s->norm);
    } else {
        gsc_step_args args = {.clip_norm = plan.max_norm, .clip_norm_type = plan.p};
        gsc_step_result result = {.outcome = GSC_PENDING};
        s->status = gsc_scaler_step(scaler, &optimizer.base, &args, &result);
        s->norm = result.grad_norm;
        s->outcome = result.outcome;
        s->multiplier = optimizer.last_scaling.multiplier;
    }
    grad->dtype = plan.dtype;
    if (plan.turns_half >= 0) { /* what comes after the refusal, without a collective */
        gsc_step_result result = {.outcome = GSC_PENDING};
        const gsc_step_args args = {.clip_norm = plan.max_norm, .clip_norm_type = plan.p};
        s->second_status = gsc_scaler_clip_grad_norm(scaler, &optimizer.base, plan.max_norm, plan.p, NULL);
        gsc_scaler_step(scaler, &optimizer.base, &args, &result);
        s->outcome = result.outcome;
        gsc_scaler_update(scaler);
        s->tracker = state_of(scaler).growth_tracker;
    }
    s->steps = optimizer.steps + optimizer.scaled_steps;
    s->max_calls = rank->max_calls;
    s->sum_calls = rank->sum_calls;
    s->max64_calls = rank->max64_calls;
    for (size_t i = 0; i < s->count; i++)
        s->after[i] = element_get(grad, i);
    gsc_scaler_destroy(scaler);
}

static void set_shards(size_t count0, double a0, double b0, size_t count1, double a1, double b1)
{
    memset(shards, 0, sizeof shards);
    shards[0] = (shard){.grads = {a0, b0}, .count = count0};
    shards[1] = (shard){.grads = {a1, b1}, .count = count1};
}

static void plan_afresh(void)
{
    plan.dtype = GSC_FLOAT32;
    plan.p = 2;
    plan.max_norm = 1;
    plan.scale = 8;
    plan.way = CLIP;
    plan.max64 = false;
    plan.turns_half = -1;
}

static void assert_near(double actual, double expected)
{
    if (!(fabs(actual - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%.17g instead of %.17g", actual, expected);
}

/* rule 12.6 */
static void test_sharded_norms_add_up(void **state)
{
    (void)state;
    static const double ps[] = {1, 2, 3, 0.5, (double)INFINITY};
    for (int way = CLIP; way < WAYS; way++) {
        for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
            plan_afresh();
            plan.p = ps[i];
            plan.way = (clip_way)way;
            set_shards(2, 3, -1, 1, 4, 0);
            fake_world_run(&world, 2, true, clip);
            double expected = isinf(plan.p) ? 4 : pow(pow(3, plan.p) + 1 + pow(4, plan.p), 1 / plan.p);
            for (int r = 0; r < 2; r++) {
                assert_ok(shards[r].status);
                assert_near(shards[r].norm, expected);
                double coefficient = (double)(float)(1 / (expected + 1e-6));
                for (size_t j = 0; j < shards[r].count; j++) {
                    double wanted = shards[r].grads[j] * (way == FUSED_STEP ? 8 : coefficient);
                    assert_true(fabs(shards[r].after[j] - wanted) <= 2e-7 * fabs(wanted));
                }
                if (way == FUSED_STEP)
                    assert_true(fabs(shards[r].multiplier - coefficient / 8) <= 2e-7 * coefficient / 8);
            }
            assert_exact(shards[0].norm, shards[1].norm);
        }
    }
}

/* rule 12.6 */
static void test_replicated_norms_do_not(void **state)
{
    (void)state;
    for (int way = CLIP; way < WAYS; way++) {
        plan_afresh();
        plan.way = (clip_way)way;
        set_shards(2, 3, 4, 2, 3, 4);
        fake_world_run(&world, 2, false, clip);
        for (int r = 0; r < 2; r++) {
            assert_near(shards[r].norm, 5);
            assert_int_equal(shards[r].max_calls, 1); /* the check's alone */
            assert_int_equal(shards[r].sum_calls, 0);
        }
    }
}

/* rule 12.6 */
static void test_number_of_collectives(void **state)
{
    (void)state;
    const struct {
        double p;
        int max_calls, sum_calls;
    } cases[] = {{1, 1, 1}, {2, 1, 1}, {(double)INFINITY, 2, 0}};
    for (int way = CLIP; way < WAYS; way++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            plan_afresh();
            plan.p = cases[i].p;
            plan.way = (clip_way)way;
            set_shards(1, 3, 0, 1, 4, 0);
            fake_world_run(&world, 2, true, clip);
            for (int r = 0; r < 2; r++) {
                assert_int_equal(shards[r].max_calls, cases[i].max_calls);
                assert_int_equal(shards[r].sum_calls, cases[i].sum_calls);
            }
        }
    }
}

/* float64 gradients whose maximum float32 cannot hold: beyond its range, or between two of its values. */
/* rule 12.6, 14.1, trial T31 */
static void test_the_largest_of_sharded_doubles(void **state)
{
    (void)state;
    const double between = 1 + 0x1p-40;
    static const double beyond = 1e200;
    for (int way = CLIP; way < WAYS; way++) {
        for (int max64 = 0; max64 < 2; max64++) {
            plan_afresh();
            plan.dtype = GSC_FLOAT64;
            plan.p = (double)INFINITY;
            plan.way = (clip_way)way;
            plan.max64 = max64 != 0;
            set_shards(1, between, 0, 1, 0.5, 0);
            fake_world_run(&world, 2, true, clip);
            for (int r = 0; r < 2; r++) {
                assert_ok(shards[r].status);
                assert_exact(shards[r].norm, max64 != 0 ? between : 1);
                assert_int_equal(shards[r].max64_calls, max64);
                assert_int_equal(shards[r].max_calls, 2 - max64);
            }
            set_shards(1, beyond, 0, 1, 1, 0);
            fake_world_run(&world, 2, true, clip);
            assert_exact(shards[0].norm, max64 != 0 ? beyond : (double)INFINITY);
            assert_exact(shards[1].norm, shards[0].norm);
        }
    }
}

/* rule 12.6 */
static void test_a_rank_without_gradients_adds_nothing(void **state)
{
    (void)state;
    static const double ps[] = {1, 2, 3, (double)INFINITY};
    for (int way = CLIP; way < WAYS; way++) {
        for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
            plan_afresh();
            plan.p = ps[i];
            plan.way = (clip_way)way;
            set_shards(0, 0, 0, 1, -7, 0);
            fake_world_run(&world, 2, true, clip);
            assert_near(shards[0].norm, 7);
            assert_near(shards[1].norm, 7);
        }
    }
}

/* Squares that over- or underflow a double, on both ranks or on one. */
/* rule 12.6 */
static void test_extreme_shards(void **state)
{
    (void)state;
    const struct {
        double a, b, p, norm;
    } cases[] = {
        {3e200, 4e200, 2, 5e200},
        {3e-200, 4e-200, 2, 5e-200},
        {3e200, 4e-200, 2, 3e200},
        {3e-200, 4, 2, 4},
        {3e200, 4e200, 1, 7e200},
        {2e150, 2e150, 3, 2e150 * 1.2599210498948732},
        {2e-150, 2e-150, 3, 2e-150 * 1.2599210498948732},
        {1e300, 1e-300, 3, 1e300},
        {0, 0, 2, 0},
        {0, 0, 3, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan_afresh();
        plan.dtype = GSC_FLOAT64;
        plan.scale = 1;
        plan.p = cases[i].p;
        set_shards(1, cases[i].a, 0, 1, cases[i].b, 0);
        fake_world_run(&world, 2, true, clip);
        assert_near(shards[0].norm, cases[i].norm);
        assert_near(shards[1].norm, cases[i].norm);
    }
}

/* rule 12.6 */
static void test_an_overflow_on_one_rank_clips_nothing(void **state)
{
    (void)state;
    for (int way = CLIP; way < WAYS; way++) {
        plan_afresh();
        plan.way = (clip_way)way;
        set_shards(1, (double)INFINITY, 0, 1, 40, 0);
        fake_world_run(&world, 2, true, clip);
        for (int r = 0; r < 2; r++) {
            assert_ok(shards[r].status);
            assert_true(isnan(shards[r].norm) || isinf(shards[r].norm) != 0);
            assert_int_equal(shards[r].steps, 0);
            if (way >= STEP)
                assert_int_equal(shards[r].outcome, GSC_SKIPPED_OVERFLOW);
        }
        assert_exact(shards[1].after[0], way == FUSED_STEP ? 320 : 40);
    }
}

/* A rank that refuses at the clip enters the sum with NaN: the other does not wait, clips nothing, and skips as it
 * does.
 */
/* rule 12.6 */
static void test_a_rank_that_refuses_at_the_clip(void **state)
{
    (void)state;
    static const double ps[] = {1, 2, 3, (double)INFINITY};
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
        plan_afresh();
        plan.p = ps[i];
        plan.way = UNSCALE_THEN_CLIP;
        plan.max64 = i % 2 != 0;
        plan.turns_half = 0;
        set_shards(1, 30, 0, 1, 40, 0);
        fake_world_run(&world, 2, true, clip);
        assert_status(shards[0].status, GSC_ERR_VALUE);
        assert_exact(shards[0].after[0], 30);
        assert_exact(shards[1].after[0], 40);
        assert_status(shards[1].status, GSC_ERR_COMM);
        for (int r = 0; r < 2; r++) {
            assert_status(shards[r].second_status, GSC_ERR_COMM);
            assert_int_equal(shards[r].outcome, GSC_SKIPPED_OVERFLOW);
            assert_int_equal(shards[r].steps, 0);
            assert_int_equal(shards[r].tracker, 0);
        }
        assert_int_equal(shards[0].sum_calls, shards[1].sum_calls);
        assert_int_equal(shards[0].max_calls, shards[1].max_calls);
        assert_int_equal(shards[0].max64_calls, shards[1].max64_calls);
    }
}

static int agreeing_max(void *self, DLTensor *values, void *stream)
{
    (void)values, (void)stream; /* alone, the values are the result */
    ++*(int *)self;
    return 0;
}

static int failing_sum(void *self, DLTensor *values, void *stream)
{
    (void)values, (void)stream;
    ++*(int *)self;
    return 7;
}

/* All ranks know of the overflow, but the norm failed on one: no rank steps, and none enters a collective alone. */
static void test_a_norm_that_fails(void **state)
{
    (void)state;
    for (int way = CLIP; way < WAYS; way++) {
        int calls = 0;
        gsc_comm comm = {.self = &calls, .allreduce_max = agreeing_max, .allreduce_sum = failing_sum};
        gsc_scaler_options options = options_of(8, 2);
        options.comm = &comm;
        rig r;
        rig_start_with(&r, &options);
        const gsc_optimizer *optimizer = &r.optimizer.base;
        r.optimizer.base.step_scaled = way == FUSED_STEP ? fake_step_scaled : NULL;
        r.grad = 80;
        const gsc_step_args args = {.clip_norm = 1};
        if (way == UNSCALE_THEN_CLIP)
            assert_ok(gsc_scaler_unscale(r.scaler, optimizer));
        if (way == CLIP || way == UNSCALE_THEN_CLIP)
            assert_fails(GSC_ERR_COMM, gsc_scaler_clip_grad_norm(r.scaler, optimizer, 1, 2, NULL));
        else
            assert_fails(GSC_ERR_COMM, gsc_scaler_step(r.scaler, optimizer, &args, NULL));
        assert_message("7");
        assert_int_equal(calls, 2);
        assert_int_equal(gsc_scaler_get_stage(r.scaler, optimizer), GSC_STAGE_UNSCALED);
        assert_exact(r.grad, way == FUSED_STEP ? 80 : 10);
        assert_fails(GSC_ERR_COMM, gsc_scaler_clip_grad_norm(r.scaler, optimizer, 1, 2, NULL));
        gsc_step_result result;
        assert_ok(gsc_scaler_step(r.scaler, optimizer, &args, &result));
        assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
        assert_int_equal(r.optimizer.steps + r.optimizer.scaled_steps, 0);
        assert_int_equal(calls, 2);
        assert_ok(gsc_scaler_update(r.scaler));
        assert_exact(gsc_scaler_get_scale(r.scaler), 8);
        assert_int_equal(state_of(r.scaler).growth_tracker, 0);
        rig_stop(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharded_norms_add_up),
        cmocka_unit_test(test_replicated_norms_do_not),
        cmocka_unit_test(test_number_of_collectives),
        cmocka_unit_test(test_the_largest_of_sharded_doubles),
        cmocka_unit_test(test_a_rank_without_gradients_adds_nothing),
        cmocka_unit_test(test_extreme_shards),
        cmocka_unit_test(test_an_overflow_on_one_rank_clips_nothing),
        cmocka_unit_test(test_a_rank_that_refuses_at_the_clip),
        cmocka_unit_test(test_a_norm_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
