/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 12: ranks decide together. Norms over ranks: test_ranks_norm.c. */
#define _POSIX_C_SOURCE 200809L

#include <time.h>

#include "fake_comm.h"

/* What one rank saw. Its body runs with the settings of `plan`. */
typedef struct seen {
    gsc_status step, update, again;
    gsc_outcome outcome;
    gsc_stage stage;
    bool found_inf;
    double scale_before_update, scale, grad, param;
    int64_t tracker, skipped, updates, stepped; /* of the statistics */
    int steps, collectives_after_step, collectives;
    size_t overflows;
    char message[200];
} seen;

typedef struct plan {
    float grad;
    double scale;
    bool absent, half, fused, unscale_first, record, failing;
} plan;

static fake_world world;
static plan plans[FAKE_MAX_RANKS];
static seen seens[FAKE_MAX_RANKS];

static void set_up(fake_rank *rank, rig *r)
{
    const plan *p = &plans[rank->index];
    gsc_scaler_options options = options_of(p->scale, 2);
    options.comm = &rank->comm;
    rank->failing = p->failing;
    memset(r, 0, sizeof *r);
    gsc_scaler_create(&options, &r->scaler);
    memset(&options, 0xff, sizeof options); /* the comm was copied */
    fake_init(&r->optimizer);
    fake_param *param = fake_add(&r->optimizer, GSC_FLOAT32, &r->param, &r->grad, 1, "weight");
    param->absent = p->absent;
    if (p->half)
        param->grad.dtype = GSC_FLOAT16;
    if (p->fused)
        r->optimizer.base.step_scaled = fake_step_scaled;
    r->grad = p->grad;
}

static void one_iteration(fake_rank *rank)
{
    const plan *p = &plans[rank->index];
    seen *s = &seens[rank->index];
    rig r;
    set_up(rank, &r);
    const gsc_optimizer *optimizer = &r.optimizer.base;
    gsc_step_result result = {.outcome = GSC_PENDING};
    if (p->unscale_first)
        s->step = gsc_scaler_unscale(r.scaler, optimizer);
    else if (p->record)
        s->step = gsc_scaler_record(r.scaler, optimizer, isinf(p->grad) != 0);
    if (s->step == GSC_OK)
        s->step = gsc_scaler_step(r.scaler, optimizer, NULL, &result);
    snprintf(s->message, sizeof s->message, "%s", s->step == GSC_OK ? "" : gsc_last_error());
    s->collectives_after_step = rank->max_calls + rank->sum_calls;
    s->stage = gsc_scaler_get_stage(r.scaler, optimizer);
    s->found_inf = gsc_scaler_found_inf(r.scaler, optimizer);
    s->grad = (double)r.grad;
    if (s->step != GSC_OK && s->stage == GSC_STAGE_UNSCALED) /* after another rank's failure, step skips */
        s->again = gsc_scaler_step(r.scaler, optimizer, NULL, &result);
    s->outcome = result.outcome;
    s->overflows = gsc_scaler_overflows(r.scaler, optimizer, NULL, 0);
    s->scale_before_update = gsc_scaler_get_scale(r.scaler);
    s->update = gsc_scaler_update(r.scaler);
    s->scale = gsc_scaler_get_scale(r.scaler);
    gsc_scaler_state state;
    gsc_scaler_state_dict(r.scaler, &state);
    s->tracker = state.growth_tracker;
    gsc_scaler_stats stats;
    gsc_scaler_get_stats(r.scaler, &stats);
    s->skipped = stats.skipped_steps;
    s->stepped = stats.steps;
    s->updates = stats.updates;
    s->param = (double)r.param;
    s->steps = r.optimizer.steps + r.optimizer.scaled_steps;
    s->collectives = rank->max_calls + rank->sum_calls;
    gsc_scaler_destroy(r.scaler);
}

static void run_with(int size, void (*body)(fake_rank *rank))
{
    memset(seens, 0, sizeof seens);
    fake_world_run(&world, size, false, body);
}

/* Three ranks, scale 8, gradient 16. */
static void plan_afresh(void)
{
    for (int i = 0; i < FAKE_MAX_RANKS; i++)
        plans[i] = (plan){.grad = 16, .scale = 8};
}

/* rule 12.1 */
static void test_all_clean(void **state)
{
    (void)state;
    plan_afresh();
    run_with(3, one_iteration);
    for (int i = 0; i < 3; i++) {
        assert_ok(seens[i].step);
        assert_int_equal(seens[i].outcome, GSC_STEPPED);
        assert_exact(seens[i].param, -2);
        assert_exact(seens[i].scale, 8);
        assert_int_equal(seens[i].tracker, 1);
        assert_int_equal(seens[i].collectives, 1); /* in step; none in update */
    }
}

/* Each way to check gradients: by step, unscale, the fused step, record. Which rank overflows makes no difference. */
/* rule 12.2, case 83, conformance N */
static void test_an_overflow_on_one_rank_skips_on_all(void **state)
{
    (void)state;
    for (int bad = 0; bad < 3; bad++) {
        for (int way = 0; way < 4; way++) {
            plan_afresh();
            for (int i = 0; i < 3; i++) {
                plans[i].unscale_first = way == 1;
                plans[i].fused = way == 2;
                plans[i].record = way == 3;
            }
            plans[bad].grad = INFINITY;
            run_with(3, one_iteration);
            for (int i = 0; i < 3; i++) {
                assert_ok(seens[i].step);
                assert_int_equal(seens[i].outcome, GSC_SKIPPED_OVERFLOW);
                assert_int_equal(seens[i].steps, 0);
                assert_exact(seens[i].param, 0);
                assert_true(seens[i].found_inf); /* on any rank */
                assert_ok(seens[i].update);
                assert_exact(seens[i].scale_before_update, 8);
                assert_exact(seens[i].scale, 4);
                assert_int_equal(seens[i].tracker, 0);
                assert_int_equal(seens[i].skipped, 1);
                assert_int_equal(seens[i].collectives, 1);
                assert_int_equal(seens[i].overflows, i == bad && way != 3); /* on this rank */
                if (i != bad && way < 2)
                    assert_exact(seens[i].grad, 2); /* unscaled all the same */
            }
        }
    }
}

/* rule 12.1, conformance N */
static void test_a_rank_without_gradients_takes_part(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        plan_afresh();
        plans[1].absent = true;
        for (int i = 0; i < 3; i++)
            plans[i].fused = fused != 0;
        run_with(3, one_iteration);
        for (int i = 0; i < 3; i++) {
            assert_ok(seens[i].step);
            assert_int_equal(seens[i].steps, 1);
            assert_int_equal(seens[i].collectives, 1);
            assert_ok(seens[i].update);
            assert_int_equal(seens[i].tracker, 1); /* some rank checked something: all count it */
        }
        plans[2].grad = INFINITY;
        run_with(3, one_iteration);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(seens[i].outcome, GSC_SKIPPED_OVERFLOW);
            assert_int_equal(seens[i].steps, 0);
            assert_exact(seens[i].scale, 4);
        }
    }
}

/* A scheduler that follows the outcome stays the same on every rank. */
/* rule 7.2, 7.8, trial T7 */
static void test_one_outcome_on_every_rank(void **state)
{
    (void)state;
    for (int way = 0; way < 6; way++) {
        plan_afresh();
        for (int i = 0; i < 3; i++) {
            plans[i].fused = way % 2 != 0;
            plans[i].unscale_first = way / 2 == 1;
            plans[i].absent = i != 1;
        }
        run_with(3, one_iteration);
        for (int i = 0; i < 3; i++) {
            assert_ok(seens[i].step);
            assert_int_equal(seens[i].outcome, GSC_STEPPED);
            assert_int_equal(seens[i].steps, 1);
            assert_int_equal(seens[i].stepped, 1);
        }
        plans[1].absent = true;
        run_with(3, one_iteration);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(seens[i].outcome, GSC_NO_GRADS);
            assert_int_equal(seens[i].stepped, 0);
        }
    }
}

/* rule 12.1 */
static void test_no_rank_has_gradients(void **state)
{
    (void)state;
    plan_afresh();
    for (int i = 0; i < 3; i++)
        plans[i].absent = true;
    run_with(3, one_iteration);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seens[i].outcome, GSC_NO_GRADS);
        assert_int_equal(seens[i].steps, 1);
        assert_int_equal(seens[i].collectives, 1);
        assert_int_equal(seens[i].tracker, 0);
        assert_exact(seens[i].scale, 8);
    }
}

/* rule 12.1, 12.3, 12.4 */
static void test_a_rank_that_refuses(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        for (int unscale_first = 0; unscale_first < 2; unscale_first++) {
            plan_afresh();
            for (int i = 0; i < 3; i++) {
                plans[i].fused = fused != 0;
                plans[i].unscale_first = unscale_first != 0;
            }
            plans[1].half = true;
            plans[2].grad = INFINITY; /* an overflow beside it does not matter any more */
            run_with(3, one_iteration);
            assert_status(seens[1].step, GSC_ERR_VALUE); /* its own error */
            assert_non_null(strstr(seens[1].message, "float16"));
            assert_exact(seens[1].grad, 16);
            assert_int_equal(seens[1].stage, GSC_STAGE_READY);
            for (int i = 0; i < 3; i++) {
                assert_int_equal(seens[i].collectives, 1); /* entered by the refusing rank too */
                assert_exact(seens[i].scale, 8);           /* nothing counts at update */
                assert_int_equal(seens[i].tracker, 0);
                assert_int_equal(seens[i].steps, 0);
                if (i != 1) {
                    assert_status(seens[i].step, GSC_ERR_COMM);
                    assert_true(strlen(seens[i].message) > 0);
                    assert_int_equal(seens[i].stage, GSC_STAGE_UNSCALED);
                    assert_ok(seens[i].again); /* step skips */
                }
            }
        }
    }
}

/* rule 12.3 */
static void test_unequal_scales(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        plan_afresh();
        plans[i].scale = 4;
        run_with(3, one_iteration);
        for (int j = 0; j < 3; j++) {
            assert_status(seens[j].step, GSC_ERR_COMM);
            assert_int_equal(seens[j].steps, 0);
            assert_exact(seens[j].scale, i == j ? 4 : 8);
            assert_int_equal(seens[j].tracker, 0);
            assert_int_equal(seens[j].collectives, 1);
            assert_non_null(strstr(seens[j].message, "scale"));
        }
    }
}

/* A last-bit difference is a difference. */
/* rule 12.3 */
static void test_nearly_equal_scales(void **state)
{
    (void)state;
    plan_afresh();
    plans[0].scale = (double)nextafterf(8, 9);
    run_with(2, one_iteration);
    assert_status(seens[0].step, GSC_ERR_COMM);
    assert_status(seens[1].step, GSC_ERR_COMM);
}

/* rule 12.3, 12.4 */
static void test_a_failing_collective(void **state)
{
    (void)state;
    plan_afresh();
    for (int i = 0; i < 2; i++)
        plans[i].failing = true;
    run_with(2, one_iteration);
    for (int i = 0; i < 2; i++) {
        assert_status(seens[i].step, GSC_ERR_COMM);
        assert_int_equal(seens[i].stage, GSC_STAGE_UNSCALED);
        assert_ok(seens[i].again);
        assert_int_equal(seens[i].steps, 0);
        assert_int_equal(seens[i].tracker, 0);
        assert_exact(seens[i].scale, 8);
    }
}

/* The first optimizer overflows (or not), the second one is refused on rank 1: neither counts. */
static void two_optimizers(fake_rank *rank)
{
    seen *s = &seens[rank->index];
    rig r;
    set_up(rank, &r);
    fake_optimizer second;
    uint16_t grad = 0;
    float fine = 8;
    fake_init(&second);
    fake_add(&second, rank->index == 1 ? GSC_FLOAT16 : GSC_FLOAT32, NULL, rank->index == 1 ? (void *)&grad : &fine, 1,
             "");
    s->step = gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL);
    s->again = gsc_scaler_step(r.scaler, &second.base, NULL, NULL);
    s->update = gsc_scaler_update(r.scaler);
    s->scale = gsc_scaler_get_scale(r.scaler);
    gsc_scaler_state state;
    gsc_scaler_state_dict(r.scaler, &state);
    s->tracker = state.growth_tracker;
    gsc_scaler_destroy(r.scaler);
}

/* rule 12.4 */
static void test_nothing_counts_beside_a_refusal(void **state)
{
    (void)state;
    for (int overflow = 0; overflow < 2; overflow++) {
        plan_afresh();
        plans[0].grad = overflow != 0 ? INFINITY : 16;
        run_with(2, two_optimizers);
        for (int i = 0; i < 2; i++) {
            assert_ok(seens[i].step);
            assert_int_equal(seens[i].again, i == 1 ? GSC_ERR_VALUE : GSC_ERR_COMM);
            assert_exact(seens[i].scale, 8);
            assert_int_equal(seens[i].tracker, 0);
        }
    }
}

/* After a failure on one rank, update_to on every rank; then a clean and an overflowing iteration. */
static void recover(fake_rank *rank)
{
    seen *s = &seens[rank->index];
    rig r;
    set_up(rank, &r);
    const gsc_optimizer *optimizer = &r.optimizer.base;
    s->step = gsc_scaler_step(r.scaler, optimizer, NULL, NULL);
    s->update = gsc_scaler_update_to(r.scaler, 4);
    r.optimizer.params[0].grad.dtype = GSC_FLOAT32;
    r.grad = 4;
    gsc_step_result result = {.outcome = GSC_PENDING};
    s->again = gsc_scaler_step(r.scaler, optimizer, NULL, &result);
    s->outcome = result.outcome;
    gsc_scaler_update(r.scaler);
    gsc_scaler_state state;
    gsc_scaler_state_dict(r.scaler, &state);
    s->tracker = state.growth_tracker;
    r.grad = rank->index == 0 ? NAN : 4;
    gsc_scaler_step(r.scaler, optimizer, NULL, NULL);
    gsc_scaler_update(r.scaler);
    s->scale = gsc_scaler_get_scale(r.scaler);
    s->param = (double)r.param;
    gsc_scaler_destroy(r.scaler);
}

/* rule 12.5 */
static void test_update_to_starts_afresh(void **state)
{
    (void)state;
    plan_afresh();
    plans[1].half = true;
    run_with(3, recover);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seens[i].step, i == 1 ? GSC_ERR_VALUE : GSC_ERR_COMM);
        assert_ok(seens[i].update);
        assert_ok(seens[i].again);
        assert_int_equal(seens[i].outcome, GSC_STEPPED);
        assert_int_equal(seens[i].tracker, 1);
        assert_exact(seens[i].scale, 2);
        assert_exact(seens[i].param, -1);
    }
}

/* A rank that is late: the flag is used only once the collective has returned. */
static void late(fake_rank *rank)
{
    if (rank->index == 1) {
        struct timespec pause = {.tv_nsec = 30000000};
        nanosleep(&pause, NULL);
    }
    one_iteration(rank);
}

/* rule 12.2, case 86 */
static void test_a_late_rank(void **state)
{
    (void)state;
    plan_afresh();
    plans[1].grad = NAN;
    run_with(2, late);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(seens[i].outcome, GSC_SKIPPED_OVERFLOW);
        assert_exact(seens[i].scale, 4);
    }
}

static int failing_alone(void *self, DLTensor *values, void *stream)
{
    (void)values, (void)stream;
    ++*(int *)self;
    return -1;
}

/* rule 12.1 */
static void test_calls_out_of_order_enter_no_collective(void **state)
{
    (void)state;
    int calls = 0;
    gsc_comm comm = {.self = &calls, .allreduce_max = failing_alone};
    gsc_scaler_options options = options_of(8, 2);
    options.comm = &comm;
    rig r;
    rig_start_with(&r, &options);
    r.grad = 8;
    assert_fails(GSC_ERR_COMM, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_int_equal(calls, 1);
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_int_equal(calls, 1);
    rig_stop(&r);
}

static void test_a_refusal_keeps_its_message_when_the_collective_fails_too(void **state)
{
    (void)state;
    int calls = 0;
    gsc_comm comm = {.self = &calls, .allreduce_max = failing_alone, .allreduce_sum = failing_alone};
    gsc_scaler_options options = options_of(8, 2);
    options.comm = &comm;
    rig r;
    rig_start_with(&r, &options);
    r.optimizer.params[0].grad.dtype = GSC_FLOAT16;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_message("float16");
    assert_int_equal(calls, 1);
    rig_stop(&r);
}

/* A rank that refused must not enter a collective that the other ranks do not enter. */
static int refusing_alone(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    ++*(int *)self;
    ((float *)values->data)[2] = 1; /* some rank failed */
    return 0;
}

static void test_a_rank_that_refused_does_not_wait_alone(void **state)
{
    (void)state;
    int calls = 0;
    gsc_comm comm = {.self = &calls, .allreduce_max = refusing_alone};
    gsc_scaler_options options = options_of(8, 2);
    options.comm = &comm;
    rig r;
    rig_start_with(&r, &options);
    const gsc_optimizer *optimizer = &r.optimizer.base;
    r.optimizer.params[0].grad.dtype = GSC_FLOAT16;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(r.scaler, optimizer));
    r.optimizer.params[0].grad.dtype = GSC_FLOAT32;
    assert_fails(GSC_ERR_COMM, gsc_scaler_unscale(r.scaler, optimizer));
    assert_message("this rank refused this optimizer's gradients");
    assert_message("gsc_scaler_update_to");
    assert_fails(GSC_ERR_COMM, gsc_scaler_step(r.scaler, optimizer, NULL, NULL));
    assert_fails(GSC_ERR_COMM, gsc_scaler_record(r.scaler, optimizer, false));
    assert_fails(GSC_ERR_COMM, gsc_scaler_clip_grad_norm(r.scaler, optimizer, 1, 2, NULL));
    assert_fails(GSC_ERR_COMM, gsc_scaler_skip(r.scaler, optimizer));
    assert_ok(gsc_scaler_rearm(r.scaler, optimizer));
    assert_fails(GSC_ERR_COMM, gsc_scaler_unscale(r.scaler, optimizer));
    assert_int_equal(calls, 1);
    assert_ok(gsc_scaler_update_to(r.scaler, 8));
    assert_fails(GSC_ERR_COMM, gsc_scaler_unscale(r.scaler, optimizer)); /* the other ranks' refusal this time */
    assert_int_equal(calls, 2);
    rig_stop(&r);
}

static int refused_elsewhere(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)stream;
    ((float *)values->data)[2] = 1; /* "failed", of another rank */
    return 0;
}

static int another_scale(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)stream;
    ((float *)values->data)[3] = 16;
    return 0;
}

static int fails(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)values, (void)stream;
    return 7;
}

static int fails_with_words(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)values, (void)stream;
    gsc_fail(GSC_ERR_IO, "the cable is out");
    return 7;
}

/* Later calls of the iteration give the reason that the first one had. */
/* rule 12.4, trial T12 */
static void test_the_reason_stays(void **state)
{
    (void)state;
    static const struct {
        int (*allreduce_max)(void *self, DLTensor *values, void *stream);
        const char *first, *later;
    } cases[] = {
        {refused_elsewhere, "another rank refused its gradients", "another rank refused its gradients"},
        {another_scale, "the ranks' scales differ", "the ranks' scales differ"},
        {fails, "a collective of comm failed and returned 7", "a collective for this optimizer's gradients failed"},
        {fails_with_words, "a collective of comm failed and returned 7: the cable is out", "a collective for this"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gsc_comm comm = {.allreduce_max = cases[i].allreduce_max};
        gsc_scaler_options options = options_of(8, 2);
        options.comm = &comm;
        rig r;
        rig_start_with(&r, &options);
        const gsc_optimizer *optimizer = &r.optimizer.base;
        assert_fails(GSC_ERR_COMM, gsc_scaler_step(r.scaler, optimizer, NULL, NULL), cases[i].first);
        assert_fails(GSC_ERR_COMM, gsc_scaler_clip_grad_norm(r.scaler, optimizer, 1, 2, NULL), cases[i].later);
        assert_ok(gsc_scaler_rearm(r.scaler, optimizer));
        assert_fails(GSC_ERR_COMM, gsc_scaler_step(r.scaler, optimizer, NULL, NULL), cases[i].later,
                     "gsc_scaler_update_to");
        assert_fails(GSC_ERR_COMM, gsc_scaler_unscale(r.scaler, optimizer), cases[i].later);
        assert_fails(GSC_ERR_COMM, gsc_scaler_record(r.scaler, optimizer, false), cases[i].later);
        assert_ok(gsc_scaler_update_to(r.scaler, 8));
        assert_fails(GSC_ERR_COMM, gsc_scaler_step(r.scaler, optimizer, NULL, NULL), cases[i].first);
        rig_stop(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_clean),
        cmocka_unit_test(test_an_overflow_on_one_rank_skips_on_all),
        cmocka_unit_test(test_a_rank_without_gradients_takes_part),
        cmocka_unit_test(test_one_outcome_on_every_rank),
        cmocka_unit_test(test_no_rank_has_gradients),
        cmocka_unit_test(test_a_rank_that_refuses),
        cmocka_unit_test(test_unequal_scales),
        cmocka_unit_test(test_nearly_equal_scales),
        cmocka_unit_test(test_a_failing_collective),
        cmocka_unit_test(test_nothing_counts_beside_a_refusal),
        cmocka_unit_test(test_update_to_starts_afresh),
        cmocka_unit_test(test_a_late_rank),
        cmocka_unit_test(test_calls_out_of_order_enter_no_collective),
        cmocka_unit_test(test_a_refusal_keeps_its_message_when_the_collective_fails_too),
        cmocka_unit_test(test_a_rank_that_refused_does_not_wait_alone),
        cmocka_unit_test(test_the_reason_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
