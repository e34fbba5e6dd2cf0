/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that decide on their devices: two scalers whose collectives are work on their streams. */
#include "scaler_rig.h"
#include "standin/abi.h"

#define assert_cuda(call) assert_int_equal((call), CUDA_SUCCESS)

typedef struct rank {
    rig r;
    gsc_comm comm;
    standin_world *world;
    CUcontext context;
    CUstream stream;
    int index, calls, failing; /* failing: the number of the call that fails, after it took place */
} rank;

typedef struct ranks {
    standin_world *world;
    rank all[2];
} ranks;

static int allreduce(rank *own, int operation, DLTensor *values, void *stream)
{
    assert_int_equal(values->device.device_type, kDLCUDA);
    assert_int_equal(values->device.device_id, own->index);
    assert_int_equal(values->ndim, 1);
    assert_ptr_equal(stream, own->stream);
    assert_cuda(cuCtxPushCurrent_v2(own->context));
    int result = standin_allreduce(own->world, own->index, operation, values->data, (size_t)values->shape[0],
                                   values->dtype.bits, stream);
    assert_cuda(cuCtxPopCurrent_v2(&own->context));
    return ++own->calls == own->failing ? 77 : result;
}

static int allreduce_max(void *self, DLTensor *values, void *stream)
{
    assert_int_equal(values->dtype.bits, 32);
    return allreduce(self, STANDIN_MAX, values, stream);
}

static int allreduce_max64(void *self, DLTensor *values, void *stream)
{
    assert_int_equal(values->dtype.bits, 64);
    return allreduce(self, STANDIN_MAX, values, stream);
}

static int allreduce_sum(void *self, DLTensor *values, void *stream)
{
    assert_int_equal(values->dtype.bits, 64);
    return allreduce(self, STANDIN_SUM, values, stream);
}

static void start_with(ranks *all, bool sharded, bool max64, double second_scale)
{
    all->world = standin_world_create(2);
    for (int i = 0; i < 2; i++) {
        rank *own = &all->all[i];
        gsc_scaler_options options = device_options();
        *own = (rank){.world = all->world, .index = i};
        own->comm = (gsc_comm){.self = own,
                               .allreduce_max = allreduce_max,
                               .allreduce_sum = sharded ? allreduce_sum : NULL,
                               .allreduce_max64 = max64 ? allreduce_max64 : NULL};
        options.device.device_id = i;
        options.comm = &own->comm;
        options.init_scale = i == 0 ? 8 : second_scale;
        options.max_consecutive_skips = 3;
        rig_start(&own->r, &options);
        assert_cuda(cuDevicePrimaryCtxRetain(&own->context, i));
        assert_cuda(cuCtxPushCurrent_v2(own->context));
        assert_cuda(cuStreamCreate(&own->stream, CU_STREAM_NON_BLOCKING));
        assert_cuda(cuCtxPopCurrent_v2(&own->context));
        assert_ok(gsc_scaler_set_stream(own->r.scaler, options.device, own->stream));
        add_grad(&own->r.optimizer, i, GSC_FLOAT32, 1, "w");
    }
}

static void start(ranks *all) { start_with(all, false, false, 8); }

static void stop(ranks *all)
{
    for (int i = 0; i < 2; i++) {
        rig_stop(&all->all[i].r);
        assert_cuda(cuCtxPushCurrent_v2(all->all[i].context));
        assert_cuda(cuStreamDestroy_v2(all->all[i].stream));
        assert_cuda(cuCtxPopCurrent_v2(&all->all[i].context));
        assert_cuda(cuDevicePrimaryCtxRelease_v2(i));
    }
    standin_world_free(all->world);
}

#define FOR_EACH(own, of) for (rank *own = (of)->all; own < (of)->all + 2; own++)

static void fill(ranks *all, double first, double second)
{
    fill_grad(&all->all[0].r.optimizer, 0, first);
    fill_grad(&all->all[1].r.optimizer, 0, second);
}

static void all_skip_together(void **state)
{
    (void)state;
    ranks all;
    start(&all);
    for (int i = 0; i < 2; i++) {
        const bool overflows = i == 1;
        fill(&all, 8, overflows ? (double)INFINITY : 8);
        FOR_EACH(own, &all)
        assert_waits(0, gsc_scaler_unscale(own->r.scaler, &own->r.optimizer.base));
        FOR_EACH(own, &all)
        {
            gsc_step_result result;
            assert_ok(gsc_scaler_step(own->r.scaler, &own->r.optimizer.base, NULL, &result));
            assert_int_equal(result.outcome, overflows ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED);
            assert_int_equal(gsc_scaler_overflows(own->r.scaler, &own->r.optimizer.base, NULL, 0),
                             overflows && own->index == 1);
            assert_int_equal(gsc_scaler_found_inf(own->r.scaler, &own->r.optimizer.base), overflows);
            assert_ok(gsc_scaler_update(own->r.scaler));
            assert_exact(scale_of(own->r.scaler), overflows ? 4 : 8);
            assert_int_equal(own->calls, i + 1);
        }
    }
    stop(&all);
}

static void scale_aware_steps_and_their_norms_wait_for_nothing(void **state)
{
    (void)state;
    static const double types[] = {1, 2, INFINITY, 3};
    for (int max64 = 0; max64 < 2; max64++)
        for (size_t i = 0; i < 4; i++) {
            ranks all;
            start_with(&all, true, max64, 8);
            fill(&all, 24, 32);
            const gsc_step_args args = {.clip_norm = 1, .clip_norm_type = types[i]};
            FOR_EACH(own, &all)
            {
                own->r.optimizer.base.step_scaled = optimizer_step_scaled;
                assert_waits(0, gsc_scaler_step(own->r.scaler, &own->r.optimizer.base, &args, NULL));
                assert_waits(0, gsc_scaler_update(own->r.scaler));
            }
            FOR_EACH(own, &all)
            {
                const double norms[] = {7, 5, 4, pow(27 + 64, 1 / 3.0)};
                gsc_step_result result;
                assert_ok(gsc_scaler_result(own->r.scaler, &own->r.optimizer.base, &result));
                assert_int_equal(result.outcome, GSC_STEPPED);
                assert_true(fabs(result.grad_norm - norms[i]) < 1e-12);
                assert_exact(result.max_abs, own->index == 0 ? 3 : 4);
            }
            stop(&all);
        }
}

static void a_rank_without_gradients_follows(void **state)
{
    (void)state;
    ranks all;
    start(&all);
    all.all[1].r.optimizer.grads[0].absent = true;
    for (int i = 0; i < 2; i++) {
        gsc_step_result result;
        fill(&all, i == 0 ? 8 : (double)NAN, 8);
        FOR_EACH(own, &all)
        own->r.optimizer.base.step_scaled = optimizer_step_scaled;
        assert_ok(gsc_scaler_step(all.all[0].r.scaler, &all.all[0].r.optimizer.base, NULL, NULL)); /* enqueued */
        assert_ok(gsc_scaler_step(all.all[1].r.scaler, &all.all[1].r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, i == 0 ? GSC_STEPPED : GSC_SKIPPED_OVERFLOW);
        FOR_EACH(own, &all)
        {
            assert_ok(gsc_scaler_update(own->r.scaler));
            assert_exact(scale_of(own->r.scaler), i == 0 ? 8 : 4);
        }
    }
    assert_int_equal(all.all[1].r.optimizer.steps, 1);
    stop(&all);
}

static void begin_afresh(ranks *all)
{
    FOR_EACH(own, all)
    assert_ok(gsc_scaler_update_to(own->r.scaler, 8));
    fill(all, 8, 8);
    FOR_EACH(own, all)
    assert_ok(gsc_scaler_unscale(own->r.scaler, &own->r.optimizer.base));
    FOR_EACH(own, all)
    {
        gsc_step_result result;
        assert_ok(gsc_scaler_step(own->r.scaler, &own->r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        assert_ok(gsc_scaler_update(own->r.scaler));
        assert_int_equal(state_of(own->r.scaler).growth_tracker, 1);
    }
}

static void a_refusal_reaches_the_other_rank(void **state)
{
    (void)state;
    ranks all;
    start(&all);
    rank *refuses = &all.all[0], *other = &all.all[1];
    fill(&all, 8, 8);
    const DLTensor good = refuses->r.optimizer.grads[0].tensor;
    refuses->r.optimizer.grads[0].tensor.dtype = GSC_FLOAT16;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(refuses->r.scaler, &refuses->r.optimizer.base), "float16");
    refuses->r.optimizer.grads[0].tensor = good;
    assert_ok(gsc_scaler_unscale(other->r.scaler, &other->r.optimizer.base)); /* it does not know yet */
    assert_fails(GSC_ERR_COMM, gsc_scaler_step(other->r.scaler, &other->r.optimizer.base, NULL, NULL),
                 "another rank refused");
    assert_int_equal(gsc_scaler_get_stage(other->r.scaler, &other->r.optimizer.base), GSC_STAGE_UNSCALED);
    assert_fails(GSC_ERR_COMM, gsc_scaler_step(refuses->r.scaler, &refuses->r.optimizer.base, NULL, NULL),
                 "this rank refused");
    gsc_step_result result;
    assert_ok(gsc_scaler_step(other->r.scaler, &other->r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_int_equal(other->r.optimizer.steps, 0);
    assert_ok(gsc_scaler_update(other->r.scaler));
    assert_int_equal(state_of(other->r.scaler).growth_tracker, 0); /* nothing counts */
    begin_afresh(&all);
    stop(&all);
}

static void scales_that_differ_are_told(void **state)
{
    (void)state;
    ranks all;
    start_with(&all, false, false, 4);
    fill(&all, 8, 8);
    FOR_EACH(own, &all)
    assert_ok(gsc_scaler_unscale(own->r.scaler, &own->r.optimizer.base));
    FOR_EACH(own, &all)
    {
        gsc_step_result result;
        assert_fails(GSC_ERR_COMM, gsc_scaler_step(own->r.scaler, &own->r.optimizer.base, NULL, NULL), "scales differ",
                     own->index == 0 ? "here 8" : "here 4", "from 4 to 8");
        assert_ok(gsc_scaler_step(own->r.scaler, &own->r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    }
    begin_afresh(&all);
    stop(&all);
}

/* rule 17.4 */
static void a_halt_by_the_ranks_is_told_by_result(void **state)
{
    (void)state;
    ranks all;
    start_with(&all, false, false, 4);
    fill(&all, 8, 8);
    FOR_EACH(own, &all)
    {
        own->r.optimizer.base.step_scaled = optimizer_step_scaled;
        assert_ok(gsc_scaler_step(own->r.scaler, &own->r.optimizer.base, NULL, NULL));
    }
    FOR_EACH(own, &all)
    {
        gsc_step_result result;
        assert_exact((double)device_float(own->r.optimizer.last_scaling.found_inf_dev), 1);
        assert_fails(GSC_ERR_COMM, gsc_scaler_result(own->r.scaler, &own->r.optimizer.base, &result), "scales differ");
        assert_ok(gsc_scaler_result(own->r.scaler, &own->r.optimizer.base, &result));
        assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
        own->r.optimizer.base.step_scaled = NULL;
        assert_ok(gsc_scaler_update(own->r.scaler));
    }
    begin_afresh(&all);
    stop(&all);
}

static void a_failing_collective_is_told_at_once(void **state)
{
    (void)state;
    ranks all;
    start(&all);
    fill(&all, 8, 8);
    all.all[0].failing = 1;
    FOR_EACH(own, &all)
    {
        if (own->index == 0)
            assert_fails(GSC_ERR_COMM, gsc_scaler_unscale(own->r.scaler, &own->r.optimizer.base), "77");
        else
            assert_ok(gsc_scaler_unscale(own->r.scaler, &own->r.optimizer.base));
        assert_int_equal(gsc_scaler_get_stage(own->r.scaler, &own->r.optimizer.base), GSC_STAGE_UNSCALED);
    }
    gsc_step_result result;
    assert_ok(gsc_scaler_step(all.all[0].r.scaler, &all.all[0].r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    begin_afresh(&all);
    stop(&all);
}

static void a_refusal_at_the_norm_of_shards_reaches_the_other_rank(void **state)
{
    (void)state;
    static const double types[] = {2, INFINITY, 3};
    for (size_t i = 0; i < 3; i++) {
        ranks all;
        start_with(&all, true, true, 8);
        rank *refuses = &all.all[0], *other = &all.all[1];
        const gsc_step_args args = {.clip_norm = 1, .clip_norm_type = types[i]};
        fill(&all, 8, 8);
        FOR_EACH(own, &all)
        assert_ok(gsc_scaler_unscale(own->r.scaler, &own->r.optimizer.base));
        const DLTensor good = refuses->r.optimizer.grads[0].tensor;
        refuses->r.optimizer.grads[0].tensor.dtype = GSC_FLOAT16;
        other->r.optimizer.base.step_scaled = optimizer_step_scaled;
        assert_ok(gsc_scaler_step(other->r.scaler, &other->r.optimizer.base, &args, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_step(refuses->r.scaler, &refuses->r.optimizer.base, &args, NULL),
                     "float16");
        refuses->r.optimizer.grads[0].tensor = good;
        gsc_step_result result;
        assert_exact((double)device_float(other->r.optimizer.last_scaling.found_inf_dev), 1);
        assert_fails(GSC_ERR_COMM, gsc_scaler_result(other->r.scaler, &other->r.optimizer.base, &result),
                     "another rank refused");
        assert_ok(gsc_scaler_result(other->r.scaler, &other->r.optimizer.base, &result));
        assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
        other->r.optimizer.base.step_scaled = NULL;
        begin_afresh(&all);
        stop(&all);
    }
}

static void a_callers_word_is_agreed_on(void **state)
{
    (void)state;
    ranks all;
    start(&all);
    FOR_EACH(own, &all)
    assert_waits(0, gsc_scaler_record(own->r.scaler, &own->r.optimizer.base, own->index == 1));
    FOR_EACH(own, &all)
    {
        gsc_step_result result;
        assert_ok(gsc_scaler_step(own->r.scaler, &own->r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    }
    stop(&all);
}

static void shards_with_gradients_on_the_cpu_are_refused_at_a_clip(void **state)
{
    (void)state;
    ranks all;
    start_with(&all, true, true, 8);
    fill(&all, 8, 8);
    rank *refuses = &all.all[0], *other = &all.all[1];
    add_grad(&refuses->r.optimizer, ON_CPU, GSC_FLOAT32, 1, "host");
    fill_grad(&refuses->r.optimizer, 1, 8);
    const gsc_step_args args = {.clip_norm = 1};
    assert_fails(GSC_ERR_UNSUPPORTED, gsc_scaler_step(refuses->r.scaler, &refuses->r.optimizer.base, &args, NULL),
                 "in shards", "on the CPU");
    assert_exact(grad_at(&refuses->r.optimizer, 1, 0), 8);
    assert_exact(grad_at(&refuses->r.optimizer, 0, 0), 8);
    assert_ok(gsc_scaler_unscale(other->r.scaler, &other->r.optimizer.base));
    assert_fails(GSC_ERR_COMM, gsc_scaler_step(other->r.scaler, &other->r.optimizer.base, NULL, NULL), "refused");
    stop(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_skip_together),
        cmocka_unit_test(scale_aware_steps_and_their_norms_wait_for_nothing),
        cmocka_unit_test(a_rank_without_gradients_follows),
        cmocka_unit_test(a_refusal_reaches_the_other_rank),
        cmocka_unit_test(scales_that_differ_are_told),
        cmocka_unit_test(a_halt_by_the_ranks_is_told_by_result),
        cmocka_unit_test(a_failing_collective_is_told_at_once),
        cmocka_unit_test(a_refusal_at_the_norm_of_shards_reaches_the_other_rank),
        cmocka_unit_test(a_callers_word_is_agreed_on),
        cmocka_unit_test(shards_with_gradients_on_the_cpu_are_refused_at_a_clip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
