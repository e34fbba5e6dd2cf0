/* SPDX-License-Identifier: Apache-2.0 */
/* Whole iterations in captured graphs: replayed, they do what the calls would do, whatever else happens in between. */
#include "module_rig.h"

#include "standin/abi.h"

#define assert_cuda(call) assert_int_equal((call), CUDA_SUCCESS)

static const DLDevice home = {kDLCUDA, 0}, other = {kDLCUDA, 1};

static CUcontext contexts[2];

static CUstream new_stream(int device)
{
    CUstream stream;
    assert_cuda(cuInit(0));
    assert_cuda(cuDevicePrimaryCtxRetain(&contexts[device], device));
    assert_cuda(cuCtxSetCurrent(contexts[device]));
    assert_cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_cuda(cuCtxSetCurrent(contexts[0]));
    return stream;
}

static void free_stream(int device, CUstream stream)
{
    assert_cuda(cuCtxSetCurrent(contexts[device]));
    assert_cuda(cuStreamDestroy_v2(stream));
    assert_cuda(cuCtxSetCurrent(NULL));
    assert_cuda(cuDevicePrimaryCtxRelease_v2(device));
}

typedef struct rig {
    twins both;
    gsc_scaler *scaler;
    CUstream stream;
    CUgraphExec graph;
} rig;

enum { LENGTH = 4200 };

static void start(rig *r, int grads)
{
    memset(r, 0, sizeof *r);
    r->stream = new_stream(0);
    twins_init(&r->both);
    r->both.optimizer.step_scaled = twins_step_scaled;
    for (int i = 0; i < grads; i++)
        twins_add(&r->both, GSC_FLOAT32, 0, 1, (int64_t[]){LENGTH}, NULL, 0);
    twins_upload(&r->both);
    r->scaler = device_scaler(64);
    assert_ok(gsc_scaler_set_stream(r->scaler, home, r->stream));
}

static void set_all(rig *r, float value)
{
    standin_run_all();
    for (size_t i = 0; i < r->both.count; i++) {
        float *x = (void *)r->both.list[i].host;
        for (int k = 0; k < LENGTH; k++)
            x[k] = value + (float)k;
        standin_upload(r->both.list[i].device, x, LENGTH * sizeof *x);
    }
}

static void stop(rig *r)
{
    if (r->graph)
        assert_cuda(cuGraphExecDestroy(r->graph));
    gsc_scaler_destroy(r->scaler);
    twins_free(&r->both);
    free_stream(0, r->stream);
}

static void begin(rig *r) { assert_cuda(cuStreamBeginCapture_v2(r->stream, CU_STREAM_CAPTURE_MODE_GLOBAL)); }

static void end(rig *r)
{
    CUgraph graph;
    assert_cuda(cuStreamEndCapture(r->stream, &graph));
    assert_cuda(cuGraphInstantiateWithFlags(&r->graph, graph, 0));
    assert_cuda(cuGraphDestroy(graph));
}

static void replay(rig *r) { assert_cuda(cuGraphLaunch(r->graph, r->stream)); }

static void iterate(rig *r, const gsc_step_args *args)
{
    assert_ok(gsc_scaler_step(r->scaler, &r->both.optimizer, args, NULL));
    assert_ok(gsc_scaler_update(r->scaler));
}

static gsc_scaler_stats stats_of(rig *r)
{
    gsc_scaler_state state;
    gsc_scaler_stats stats;
    assert_ok(gsc_scaler_state_dict(r->scaler, &state)); /* settles */
    gsc_scaler_get_stats(r->scaler, &stats);
    return stats;
}

/* The scale, the counts, the multiplier and the events follow each replay. */
/* rule 17.2 */
static void an_iteration_is_replayed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        rig r;
        double multiplier;
        const gsc_step_args args = {.clip_norm = 1};
        standin_seed(seed);
        start(&r, 3);
        set_all(&r, 1);
        iterate(&r, &args);
        begin(&r);
        standin_reset_counts();
        iterate(&r, &args);
        assert_int_equal(standin_synchronisations() + standin_allocations(), 0);
        end(&r);
        assert_int_equal(stats_of(&r).updates, 1); /* captured, not made */
        for (int i = 0; i < 4; i++) {
            set_all(&r, i == 1 ? INFINITY : (float)i);
            replay(&r);
        }
        gsc_scaler_stats stats = stats_of(&r);
        assert_int_equal(stats.updates, 5);
        assert_int_equal(stats.steps, 4);
        assert_int_equal(stats.skipped_steps, 1);
        assert_int_equal(stats.backoffs, 1);
        assert_exact(gsc_scaler_get_scale(r.scaler), 32);
        gsc_step_result result;
        assert_ok(gsc_scaler_result(r.scaler, &r.both.optimizer, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        assert_exact(result.scale, 32);
        assert_ok(gsc_unscale_grads(r.both.cpu, r.both.count, 32, NULL));
        double norm;
        assert_ok(gsc_grad_norm(r.both.cpu, r.both.count, 2, &norm));
        assert_exact(result.grad_norm, norm);
        standin_download(&multiplier, r.both.scaling.multiplier64_dev->data, sizeof multiplier);
        assert_exact(multiplier, 1.0 / 32 * (1 / (norm + 1e-6)));
        stop(&r);
    }
}

/* Lists tensor a where tensor b was, and the other way round. */
static void swap(rig *r, int a, int b)
{
    const DLTensor kept = r->both.list[a].gpu;
    r->both.list[a].gpu = r->both.list[b].gpu;
    r->both.list[b].gpu = kept;
}

/* A graph sends its own list: other lists before a replay, and after one, are whole. */
/* rule 17.2 */
static void lists_of_graphs_and_calls(void **state)
{
    (void)state;
    rig r;
    start(&r, 3);
    r.both.optimizer.step_scaled = NULL;
    set_all(&r, 1);
    assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
    assert_ok(gsc_scaler_update(r.scaler));
    begin(&r);
    assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
    assert_ok(gsc_scaler_update(r.scaler));
    end(&r);
    for (int i = 0; i < 3; i++) {
        set_all(&r, 5);
        swap(&r, 0, 2);
        r.both.count = 2; /* the third gradient, which was the first, is not listed */
        assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
        assert_ok(gsc_scaler_update(r.scaler));
        replay(&r); /* all three, again */
        assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
        assert_ok(gsc_scaler_update(r.scaler));
        standin_run_all();
        for (int pass = 0; pass < 3; pass++)
            assert_ok(gsc_unscale_grads(&r.both.cpu[1], 2, 64, NULL));
        r.both.count = 3;
        swap(&r, 0, 2);
        assert_ok(gsc_unscale_grads(&r.both.cpu[0], 1, 64, NULL));
        twins_assert_equal(&r.both);
    }
    stop(&r);
}

/* What would wait or allocate is refused while the stream is captured, and the capture goes on. */
/* rule 17.2 */
static void refused_while_captured(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    start(&r, 2);
    set_all(&r, 1);
    begin(&r);
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, &r.both.optimizer, NULL, NULL), "captured",
                 "before the capture");
    end(&r);
    assert_cuda(cuGraphExecDestroy(r.graph));
    r.both.count = 1;
    iterate(&r, NULL);
    r.both.count = 2;
    begin(&r);
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, &r.both.optimizer, NULL, NULL), "captured", "list");
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(r.scaler, &r.both.optimizer), "captured", "list"); /* untouched */
    end(&r);
    assert_cuda(cuGraphExecDestroy(r.graph));
    iterate(&r, NULL);
    begin(&r);
    iterate(&r, NULL);
    assert_fails(GSC_ERR_STATE, gsc_scaler_result(r.scaler, &r.both.optimizer, &result), "captured");
    end(&r);
    replay(&r);
    assert_int_equal(stats_of(&r).updates, 3);
    CUstream another = new_stream(0);
    assert_cuda(cuStreamBeginCapture_v2(another, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_fails(GSC_ERR_STATE, gsc_scaler_set_stream(r.scaler, home, another), "new stream is being captured");
    CUgraph graph;
    assert_cuda(cuStreamEndCapture(another, &graph));
    assert_cuda(cuGraphDestroy(graph));
    free_stream(0, another);
    iterate(&r, NULL);
    assert_int_equal(stats_of(&r).updates, 4);
    stop(&r);
}

/* Whatever the calls before and after the capture asked for. */
static void a_result_is_that_of_the_replayed_step(void **state)
{
    (void)state;
    const gsc_step_args clipping = {.clip_norm = 1};
    for (int graph_clips = 0; graph_clips < 2; graph_clips++) {
        rig r;
        gsc_step_result result;
        start(&r, 1);
        set_all(&r, 1);
        iterate(&r, &clipping);
        begin(&r);
        iterate(&r, graph_clips ? &clipping : NULL);
        end(&r);
        iterate(&r, graph_clips ? NULL : &clipping);
        assert_ok(gsc_scaler_result(r.scaler, &r.both.optimizer, &result));
        assert_int_equal(isnan(result.grad_norm), graph_clips);
        replay(&r);
        assert_ok(gsc_scaler_result(r.scaler, &r.both.optimizer, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        assert_int_equal(isnan(result.grad_norm), !graph_clips);
        assert_true(!graph_clips || result.grad_norm > 1);
        set_all(&r, INFINITY);
        replay(&r);
        assert_ok(gsc_scaler_result(r.scaler, &r.both.optimizer, &result));
        assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
        assert_true(graph_clips ? isinf(result.grad_norm) : isnan(result.grad_norm));
        stop(&r);
    }
}

static void a_step_without_gradients_is_captured(void **state)
{
    (void)state;
    rig r;
    start(&r, 1);
    set_all(&r, 1);
    iterate(&r, NULL);
    begin(&r);
    r.both.count = 0;
    iterate(&r, &(gsc_step_args){.clip_norm = 1});
    r.both.count = 1;
    end(&r);
    assert_int_equal(r.both.steps, 1);
    replay(&r);
    gsc_scaler_stats stats = stats_of(&r);
    assert_true(stats.updates == 2 && stats.steps == 1);
    iterate(&r, NULL);
    stats = stats_of(&r);
    assert_true(stats.updates == 3 && stats.steps == 2);
    stop(&r);
}

/* Neither the capture nor the stream changes. */
static void a_stream_is_not_changed_while_captured(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        rig r;
        start(&r, 1);
        set_all(&r, 1);
        iterate(&r, NULL);
        CUstream another = new_stream(0);
        assert_cuda(cuStreamBeginCapture_v2(r.stream, mode == 0 ? CU_STREAM_CAPTURE_MODE_GLOBAL
                                                                : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        iterate(&r, NULL);
        assert_fails(GSC_ERR_STATE, gsc_scaler_set_stream(r.scaler, home, another), "gsc_scaler_set_stream",
                     "present stream is being captured", "before the capture begins");
        assert_fails(GSC_ERR_STATE, gsc_scaler_set_stream(r.scaler, home, NULL), "present stream is being captured");
        assert_ok(gsc_scaler_set_stream(r.scaler, home, r.stream)); /* it is there already */
        end(&r);
        replay(&r);
        assert_int_equal(stats_of(&r).updates, 2);
        assert_ok(gsc_scaler_set_stream(r.scaler, home, another));
        iterate(&r, NULL);
        assert_int_equal(stats_of(&r).updates, 3);
        assert_ok(gsc_scaler_set_stream(r.scaler, home, r.stream));
        free_stream(0, another);
        stop(&r);
    }
}

/* The legacy default stream waits for the others, but for those that are non-blocking. */
static void the_default_stream_beside_a_capture(void **state)
{
    (void)state;
    rig r;
    CUstream blocking;
    CUgraph graph;
    start(&r, 1);
    set_all(&r, 1);
    iterate(&r, NULL);
    assert_cuda(cuStreamCreate(&blocking, 0));
    assert_cuda(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_fails(GSC_ERR_STATE, gsc_scaler_set_stream(r.scaler, home, NULL), "new stream is being captured");
    assert_cuda(cuStreamEndCapture(blocking, &graph));
    assert_cuda(cuGraphDestroy(graph));
    assert_ok(gsc_scaler_set_stream(r.scaler, home, NULL));
    iterate(&r, NULL);
    assert_int_equal(stats_of(&r).updates, 2);
    assert_cuda(cuStreamDestroy_v2(blocking));
    stop(&r);
}

/* A capture on the scaler's stream takes in the other device's. */
/* rule 17.2 */
static void two_devices_in_one_graph(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        rig r;
        standin_seed(seed);
        start(&r, 1);
        r.both.optimizer.step_scaled = NULL;
        CUstream elsewhere = new_stream(1);
        for (int i = 0; i < 2; i++)
            twins_add(&r.both, GSC_FLOAT32, 1, 1, (int64_t[]){LENGTH}, NULL, 0);
        twins_upload(&r.both);
        assert_ok(gsc_scaler_set_stream(r.scaler, other, elsewhere));
        set_all(&r, 1);
        r.both.count = 2;
        assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
        assert_ok(gsc_scaler_update(r.scaler));
        begin(&r);
        assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
        assert_ok(gsc_scaler_update(r.scaler));
        end(&r);
        swap(&r, 1, 2);
        assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
        assert_ok(gsc_scaler_update(r.scaler));
        swap(&r, 1, 2);
        r.both.count = 3;
        set_all(&r, 2);
        r.both.count = 2;
        replay(&r);
        standin_run_all();
        assert_ok(gsc_unscale_grads(r.both.cpu, 2, 64, NULL));
        r.both.count = 3;
        twins_assert_equal(&r.both);
        ((float *)(void *)r.both.list[1].host)[3] = NAN;
        standin_upload(r.both.list[1].device + 12, &(float){NAN}, sizeof(float));
        replay(&r);
        gsc_scaler_stats stats = stats_of(&r);
        assert_int_equal(stats.updates, 4);
        assert_int_equal(stats.backoffs, 1);
        stop(&r);
        free_stream(1, elsewhere);
    }
}

/* The capture goes on; what was enqueued before it runs, and so may the graph: their memory is still there. */
static void destroyed_while_captured(void **state)
{
    (void)state;
    rig r;
    start(&r, 1);
    set_all(&r, 1);
    iterate(&r, NULL);
    iterate(&r, NULL);
    const size_t allocated = standin_live_now().device_allocations + standin_live_now().host_allocations;
    assert_cuda(cuStreamBeginCapture_v2(r.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    iterate(&r, NULL);
    gsc_scaler_destroy(r.scaler);
    end(&r);
    replay(&r);
    standin_run_all();
    assert_int_equal(standin_live_now().device_allocations + standin_live_now().host_allocations, allocated);
    assert_string_equal(standin_last_error(), "");
    assert_cuda(cuGraphExecDestroy(r.graph));
    twins_free(&r.both);
    free_stream(0, r.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_iteration_is_replayed, assert_clean),
        cmocka_unit_test_teardown(lists_of_graphs_and_calls, assert_clean),
        cmocka_unit_test_teardown(refused_while_captured, assert_clean),
        cmocka_unit_test_teardown(a_result_is_that_of_the_replayed_step, assert_clean),
        cmocka_unit_test_teardown(a_step_without_gradients_is_captured, assert_clean),
        cmocka_unit_test_teardown(a_stream_is_not_changed_while_captured, assert_clean),
        cmocka_unit_test_teardown(the_default_stream_beside_a_capture, assert_clean),
        cmocka_unit_test_teardown(two_devices_in_one_graph, assert_clean),
        cmocka_unit_test(destroyed_while_captured), /* the last: it leaves memory */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
