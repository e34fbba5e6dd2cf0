/* SPDX-License-Identifier: Apache-2.0 */
/* Each call of the driver fails in turn: the scaler answers GSC_ERR_DEVICE with the driver's text, and nothing is half
 * done: gradients are whole or refused, and the next iteration is right. */
#include "scaler_rig.h"
#include "standin/abi.h"

typedef struct run {
    rig r;
    device_optimizer scaled;
    DLTensor loss;
    int calls, most;   /* calls of the scaler, and how many are to be made */
    gsc_status status; /* of the first call that failed */
    const char *call;  /* which */
} run;

static bool good(run *u, gsc_status status, const char *call)
{
    u->status = status;
    u->call = call;
    return status == GSC_OK;
}

#define DO(name, ...)                                                                                                  \
    do {                                                                                                               \
        if (u->calls == u->most || !good(u, gsc_scaler_##name(__VA_ARGS__), #name))                                    \
            return;                                                                                                    \
        u->calls++;                                                                                                    \
    } while (0)

/* Everything that a scaler has a device do. */
static void call_all(run *u)
{
    const gsc_step_args clips = {.clip_norm = 1}, powers = {.clip_norm = 1, .clip_norm_type = 3};
    gsc_scaler_state saved;
    gsc_step_result result;
    gsc_overflow overflow;
    DLTensor view;
    gsc_scaler *scaler = u->r.scaler;
    const gsc_optimizer *plain = &u->r.optimizer.base, *scaled = &u->scaled.base;
    DO(set_stream, scaler, DEVICE, CU_STREAM_PER_THREAD);
    DO(scale_view, scaler, DEVICE, &view);
    DO(scale, scaler, &u->loss, &u->loss);
    DO(unscale, scaler, plain);
    DO(step, scaler, plain, &clips, NULL);
    DO(step, scaler, scaled, &powers, NULL);
    DO(update, scaler);
    DO(result, scaler, scaled, &result);
    DO(step, scaler, plain, NULL, NULL);
    DO(clip_grad_norm, scaler, scaled, 0.5, 3, NULL);
    DO(step, scaler, scaled, &clips, NULL);
    DO(update_to, scaler, 8);
    DO(record, scaler, plain, true);
    DO(step, scaler, plain, NULL, NULL);
    (void)gsc_scaler_found_inf(scaler, plain);
    (void)gsc_scaler_overflows(scaler, plain, &overflow, 1);
    DO(update_to_tensor, scaler, &u->loss);
    DO(state_dict, scaler, &saved);
    DO(load_state_dict, scaler, &saved);
    DO(set_growth_factor, scaler, 2);
}

static void start(run *u, int most)
{
    memset(u, 0, sizeof *u);
    u->most = most;
    optimizer_init(&u->r.optimizer);
    optimizer_init(&u->scaled);
    u->scaled.base.step_scaled = optimizer_step_scaled;
    add_grad(&u->r.optimizer, 0, GSC_FLOAT32, 5, "plain");
    add_grad(&u->r.optimizer, 1, GSC_FLOAT32, 5, "elsewhere"); /* written by another launch */
    add_grad(&u->scaled, 0, GSC_FLOAT32, 5, "scaled");
    fill_grad(&u->r.optimizer, 0, 16);
    fill_grad(&u->r.optimizer, 1, 16);
    fill_grad(&u->scaled, 0, 16);
    u->loss = (DLTensor){.data = standin_alloc(0, sizeof(float)), .device = DEVICE, .dtype = GSC_FLOAT32};
    standin_upload(u->loss.data, &(float){1}, sizeof(float));
}

static void stop(run *u)
{
    gsc_scaler_destroy(u->r.scaler);
    optimizer_free_grads(&u->r.optimizer);
    optimizer_free_grads(&u->scaled);
    standin_free(u->loss.data);
    assert_string_equal(standin_last_error(), "");
}

/* Whatever a failed call has left, an iteration without a failure is right. */
static void iterate(gsc_scaler *scaler, device_optimizer *optimizer)
{
    gsc_step_result result;
    if (gsc_scaler_get_stage(scaler, &optimizer->base) != GSC_STAGE_STEPPED)
        assert_ok(gsc_scaler_skip(scaler, &optimizer->base));
    assert_ok(gsc_scaler_update_to(scaler, 4));
    for (size_t i = 0; i < optimizer->count; i++)
        fill_grad(optimizer, i, 20);
    assert_ok(gsc_scaler_step(scaler, &optimizer->base, NULL, NULL));
    assert_ok(gsc_scaler_update(scaler));
    assert_ok(gsc_scaler_result(scaler, &optimizer->base, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_exact(result.max_abs, 5);
    assert_exact(result.scale, 4);
}

/* All elements of all gradients have the same value, or the step is refused. */
static void assert_whole(gsc_scaler *scaler, device_optimizer *optimizer)
{
    bool whole = true;
    for (size_t i = 0; i < 5 * optimizer->count; i++)
        whole = whole && grad_at(optimizer, i / 5, i % 5) == grad_at(optimizer, 0, 0);
    gsc_stage stage = gsc_scaler_get_stage(scaler, &optimizer->base);
    const int before = optimizer->steps + optimizer->scaled_steps;
    if (whole || stage == GSC_STAGE_STEPPED)
        return;
    assert_int_equal(gsc_scaler_step(scaler, &optimizer->base, NULL, NULL), GSC_ERR_STATE);
    assert_int_equal(optimizer->steps + optimizer->scaled_steps, before);
}

/* What the calls before the one that failed leave. */
typedef struct seen {
    gsc_stage stages[2];
    double grads[3];
    gsc_scaler_state state;
    gsc_scaler_stats stats;
} seen;

static seen look_at(run *u)
{
    seen out = {.stages = {gsc_scaler_get_stage(u->r.scaler, &u->r.optimizer.base),
                           gsc_scaler_get_stage(u->r.scaler, &u->scaled.base)},
                .grads = {grad_at(&u->r.optimizer, 0, 0), grad_at(&u->scaled, 0, 0), grad_at(&u->r.optimizer, 1, 0)}};
    out.state = state_of(u->r.scaler);
    out.stats = stats_of(u->r.scaler);
    return out;
}

/* A call that has failed has changed nothing, or the stage tells what. */
static void assert_unchanged(run *u)
{
    run before;
    start(&before, u->calls);
    const gsc_scaler_options options = device_options();
    before.r.scaler = new_scaler(&options);
    call_all(&before);
    const seen expected = look_at(&before), actual = look_at(u);
    for (int i = 0; i < 3; i++) {
        const gsc_stage stage = actual.stages[i % 2], stage_before = expected.stages[i % 2];
        if (stage == stage_before && stage != GSC_STAGE_UNSCALED)
            assert_exact(actual.grads[i], expected.grads[i]);
        if (stage != stage_before)
            assert_true(stage_before != GSC_STAGE_STEPPED && stage != GSC_STAGE_READY);
    }
    assert_memory_equal(&actual.state, &expected.state, sizeof actual.state);
    assert_int_equal(actual.stats.updates, expected.stats.updates);
    assert_int_equal(actual.stats.skipped_steps, expected.stats.skipped_steps);
    assert_int_equal(actual.stats.steps, expected.stats.steps);
    stop(&before);
}

/* Returns whether the k-th call of the driver was made. */
static bool fails_at(uint64_t k, int error)
{
    run u;
    start(&u, -1);
    const gsc_scaler_options options = device_options();
    standin_fail(NULL, k, error);
    bool created = good(&u, gsc_scaler_create(&options, &u.r.scaler), "create");
    if (created)
        call_all(&u);
    bool fired = standin_fail_fired();
    standin_fail(NULL, 0, 0);
    if (fired && u.status != GSC_OK) {
        if (u.status != (error == CUDA_ERROR_OUT_OF_MEMORY ? GSC_ERR_MEMORY : GSC_ERR_DEVICE) ||
            !strstr(gsc_last_error(), "CUDA_ERROR_"))
            print_error("call %d: gsc_scaler_%s: %s\n", (int)k, u.call, gsc_last_error());
        assert_int_equal(u.status, error == CUDA_ERROR_OUT_OF_MEMORY ? GSC_ERR_MEMORY : GSC_ERR_DEVICE);
        assert_message("CUDA_ERROR_");
        assert_message(u.call);
    }
    if (!fired)
        assert_status(u.status, GSC_OK);
    if (created) {
        if (u.status != GSC_OK)
            assert_unchanged(&u);
        assert_whole(u.r.scaler, &u.r.optimizer);
        assert_whole(u.r.scaler, &u.scaled);
        iterate(u.r.scaler, &u.r.optimizer);
        iterate(u.r.scaler, &u.scaled);
    }
    stop(&u);
    return fired;
}

/* rule 17.7 */
static void each_call_of_the_driver_may_fail(void **state)
{
    (void)state;
    assert_false(fails_at(1000000, CUDA_ERROR_LAUNCH_FAILED)); /* what is allocated once is there now */
    const standin_live before = standin_live_now();
    uint64_t k = 1;
    while (fails_at(k, CUDA_ERROR_LAUNCH_FAILED)) {
        const standin_live after = standin_live_now();
        if (memcmp(&before, &after, sizeof before) != 0)
            print_error("after the failure of call %d something is left\n", (int)k);
        assert_memory_equal(&before, &after, sizeof before);
        k++;
    }
    assert_true(k > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_of_the_driver_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
