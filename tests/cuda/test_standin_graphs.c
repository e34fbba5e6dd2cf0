/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's stream capture and graphs. */
#include "standin/rig.h"

static float *to, *from;
static CUstream first, second;
static CUevent event, back;

static int open_all(void **state)
{
    open_devices(state);
    to = filled(ELEMENTS, 0);
    from = filled(ELEMENTS, 1);
    first = new_stream(0);
    second = new_stream(0);
    event = new_event();
    back = new_event();
    return 0;
}

static int close_all(void **state)
{
    assert_cuda(cuStreamDestroy_v2(first));
    assert_cuda(cuStreamDestroy_v2(second));
    assert_cuda(cuEventDestroy_v2(event));
    assert_cuda(cuEventDestroy_v2(back));
    standin_free(to);
    standin_free(from);
    return close_devices(state);
}

static CUresult fill_with(float value, CUstream stream)
{
    return launch("fill", stream, (test_args){.to = to, .count = ELEMENTS, .value = value});
}

static CUresult add(CUstream stream)
{
    return launch("add", stream, (test_args){.to = to, .from = from, .count = ELEMENTS});
}

static void begin(int mode) { assert_cuda(cuStreamBeginCapture_v2(first, mode)); }

static CUgraphExec end(void)
{
    CUgraph graph;
    CUgraphExec exec;
    size_t execs = standin_live_now().graph_execs;
    assert_cuda(cuStreamEndCapture(first, &graph));
    assert_cuda(cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_int_equal(standin_live_now().graphs, 1);
    assert_int_equal(standin_live_now().graph_execs, execs + 1);
    assert_cuda(cuGraphDestroy(graph));
    return exec;
}

/* The capture is invalid: nothing more can be captured, and there is no graph. */
static void assert_invalid(void)
{
    CUgraph graph = (CUgraph)(void *)to;
    int status = 0;
    assert_cuda(cuStreamIsCapturing(first, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(fill_with(1, first), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    assert_cuda(cuStreamIsCapturing(first, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    assert_cuda(cuStreamSynchronize(first));
    assert_int_equal(standin_live_now().graphs, 0);
}

static void test_replay(void **state)
{
    (void)state;
    int status = 7;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_cuda(cuStreamIsCapturing(first, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_cuda(add(first));
    assert_cuda(cuMemcpyDtoDAsync_v2(address_of(from), address_of(to), 4, first));
    assert_int_equal(standin_pending(), 0);
    CUgraphExec exec = end();
    assert_cuda(cuStreamSynchronize(first));
    assert_exact(float_at(to, 0), 0); /* nothing has run */
    for (int i = 0; i < 3; i++)
        assert_cuda(cuGraphLaunch(exec, i == 1 ? second : first)); /* one after the other, on any stream */
    assert_exact(float_at(to, 0), 0);
    assert_cuda(cuCtxSynchronize());
    assert_exact(float_at(to, 1), 3);
    assert_exact(float_at(to, 0), 4); /* from[0] was replaced each time: 1, 1 + 1, 2 + 2 */
    assert_int_equal(standin_launches(), 1);
    assert_cuda(cuGraphLaunch(exec, first));
    assert_cuda(cuGraphExecDestroy(exec)); /* what was launched still runs */
    assert_cuda(cuCtxSynchronize());
    assert_exact(float_at(to, 1), 4);
}

/* Arguments as they were when captured; what they point to as it is. */
static void test_values(void **state)
{
    (void)state;
    test_args args = {.to = to, .count = ELEMENTS, .value = 5};
    void *parameters[] = {&args};
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_cuda(cuLaunchKernel(function_of(0, "fill"), 1, 1, 1, 32, 1, 1, 0, first, parameters, NULL));
    args.value = 6;
    CUgraphExec exec = end();
    args.value = 7;
    assert_cuda(cuGraphLaunch(exec, first));
    assert_cuda(cuStreamSynchronize(first));
    assert_exact(float_at(to, 0), 5);
    assert_cuda(cuGraphExecDestroy(exec));
}

/* Captured on two streams with a fork and a join, or without an order between the two kernels. */
static CUgraphExec two_streams(bool ordered)
{
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (ordered)
        assert_cuda(fill_with(1, first));
    assert_cuda(cuEventRecord(event, first));
    assert_cuda(cuStreamWaitEvent(second, event, 0));
    if (!ordered)
        assert_cuda(fill_with(1, first));
    assert_cuda(fill_with(2, second));
    assert_cuda(cuEventRecord(back, second));
    assert_cuda(cuStreamWaitEvent(first, back, 0));
    return end();
}

static CUgraphExec forked;

static bool second_is_last(void)
{
    assert_cuda(cuGraphLaunch(forked, first));
    assert_cuda(cuStreamSynchronize(first));
    return float_at(to, 0) == 2;
}

static void test_order_in_a_graph(void **state)
{
    (void)state;
    forked = two_streams(true);
    assert_int_equal(seeds_of(second_is_last, 40), 40);
    assert_cuda(cuGraphExecDestroy(forked));
    forked = two_streams(false);
    assert_in_range(seeds_of(second_is_last, 40), 4, 36);
    assert_cuda(cuGraphExecDestroy(forked));
}

static void test_graph_inside_a_graph(void **state)
{
    (void)state;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_cuda(add(first));
    CUgraphExec inner = end();
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_cuda(fill_with(10, first));
    assert_cuda(cuGraphLaunch(inner, first));
    assert_cuda(cuGraphLaunch(inner, first));
    CUgraphExec outer = end();
    assert_cuda(cuGraphExecDestroy(inner));
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        assert_cuda(cuGraphLaunch(outer, second));
        assert_cuda(cuStreamSynchronize(second));
        assert_exact(float_at(to, 3), 12);
    }
    assert_cuda(cuGraphExecDestroy(outer));
}

static void test_unjoined(void **state)
{
    (void)state;
    CUgraph graph;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_cuda(cuEventRecord(event, first));
    assert_cuda(cuStreamWaitEvent(second, event, 0));
    assert_cuda(fill_with(1, second));
    assert_int_equal(cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_cuda(cuStreamSynchronize(second)); /* neither captures any more */
    assert_int_equal(cuStreamEndCapture(first, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

enum illegal {
    WAIT_FOR_STREAM,
    QUERY_STREAM,
    WAIT_FOR_CONTEXT,
    WAIT_FOR_EVENT,
    QUERY_EVENT,
    QUERY_OTHER_EVENT,
    ALLOCATE,
    ALLOCATE_PINNED,
    FREE,
    COPY_AND_WAIT,
    LEGACY_STREAM,
    EVENT_FROM_OUTSIDE,
    END_ON_OTHER_STREAM,
    ILLEGALS
};

static CUresult do_illegal(int what, CUdeviceptr memory)
{
    float host = 0;
    CUdeviceptr address;
    void *pinned;
    CUgraph graph;
    switch (what) {
    case WAIT_FOR_STREAM: return cuStreamSynchronize(first);
    case QUERY_STREAM: return cuStreamQuery(first);
    case WAIT_FOR_CONTEXT: return cuCtxSynchronize();
    case WAIT_FOR_EVENT: return cuEventSynchronize(event);
    case QUERY_EVENT: return cuEventQuery(event);
    case QUERY_OTHER_EVENT: return cuEventQuery(back);
    case ALLOCATE: return cuMemAlloc_v2(&address, 4);
    case ALLOCATE_PINNED: return cuMemHostAlloc(&pinned, 4, 0);
    case FREE: return cuMemFree_v2(memory);
    case COPY_AND_WAIT: return cuMemcpyDtoH_v2(&host, address_of(to), 4);
    case LEGACY_STREAM: return fill_with(1, NULL);
    case EVENT_FROM_OUTSIDE: return cuStreamWaitEvent(first, back, 0);
    default: assert_cuda(cuStreamWaitEvent(second, event, 0)); return cuStreamEndCapture(second, &graph);
    }
}

static void test_what_is_illegal(void **state)
{
    (void)state;
    static const CUresult expected[ILLEGALS] = {
        [WAIT_FOR_STREAM] = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        [QUERY_STREAM] = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        [WAIT_FOR_CONTEXT] = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        [WAIT_FOR_EVENT] = CUDA_ERROR_CAPTURED_EVENT,
        [QUERY_EVENT] = CUDA_ERROR_CAPTURED_EVENT,
        [QUERY_OTHER_EVENT] = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        [ALLOCATE] = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        [ALLOCATE_PINNED] = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        [FREE] = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        [COPY_AND_WAIT] = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        [LEGACY_STREAM] = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        [EVENT_FROM_OUTSIDE] = CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
        [END_ON_OTHER_STREAM] = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
    };
    CUdeviceptr memory;
    assert_cuda(cuMemAlloc_v2(&memory, 4));
    assert_cuda(cuEventRecord(back, second));
    standin_run_all();
    for (int what = 0; what < ILLEGALS; what++) {
        begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
        assert_cuda(fill_with(1, first));
        assert_cuda(cuEventRecord(event, first));
        assert_int_equal(do_illegal(what, memory), expected[what]);
        assert_invalid();
    }
    assert_cuda(cuMemFree_v2(memory));
    assert_int_equal(cuStreamWaitEvent(first, event, 0),
                     CUDA_ERROR_CAPTURED_EVENT); /* recorded in a capture that ended */
}

static void test_modes(void **state)
{
    (void)state;
    CUdeviceptr memory;
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_cuda(cuMemAlloc_v2(&memory, 4));
    assert_cuda(fill_with(1, first));
    assert_cuda(cuMemFree_v2(memory));
    assert_cuda(cuGraphExecDestroy(end()));

    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_cuda(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_cuda(cuMemAlloc_v2(&memory, 4));
    assert_cuda(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_int_equal(cuMemFree_v2(memory), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_invalid();
    assert_cuda(cuMemFree_v2(memory));

    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    assert_int_equal(cuMemAlloc_v2(&memory, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_invalid();
}

static void test_beginning(void **state)
{
    (void)state;
    int status;
    assert_int_equal(cuStreamBeginCapture_v2(NULL, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamBeginCapture_v2(first, 3), CUDA_ERROR_INVALID_VALUE);
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(cuStreamBeginCapture_v2(first, 0), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_cuda(cuGraphExecDestroy(end())); /* that question has not spoilt it */
    CUstream third = new_stream(0);
    assert_cuda(cuStreamBeginCapture_v2(third, 0));
    assert_cuda(cuStreamDestroy_v2(third));
    assert_cuda(cuCtxSynchronize());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_replay, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_values, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_order_in_a_graph, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_graph_inside_a_graph, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_unjoined, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_what_is_illegal, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_modes, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_beginning, open_all, close_all),
    };
    return cmocka_run_group_tests_name("standin_graphs", tests, NULL, NULL);
}
