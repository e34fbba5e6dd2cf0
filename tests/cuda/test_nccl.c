/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks over NCCL: the collectives on the device's streams, on stand-ins for driver and NCCL. */
#include <dlfcn.h>

#include "asserts.h"
#include "gradscaler/cuda.h"
#include "gradscaler/gradscaler.h"
#include "nccl/standin_nccl.h"
#include "standin/abi.h"

enum { RANKS = 2, COUNT = 3 };

static bool no_library; /* as if there were no libnccl.so.2 */
static int loads;

void *__wrap_dlopen(const char *name, int flags);
void *__real_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags)
{
    bool is_nccl = name && strstr(name, "nccl");
    loads += is_nccl;
    return is_nccl && no_library ? NULL : __real_dlopen(name, flags);
}

/* Must be the first test: what is loaded stays. */
static void test_library_is_missing(void **state)
{
    (void)state;
    struct ncclComm rank = {.rank = 0};
    no_library = true;
    (void)gsc_fail(GSC_OK, "old");
    gsc_comm comm = gsc_nccl_comm(&rank, NULL);
    assert_null(comm.allreduce_max);
    assert_null(comm.self);
    assert_message("gsc_nccl_comm");
    assert_message("LD_LIBRARY_PATH");
    gsc_scaler_options options = gsc_scaler_options_default();
    gsc_scaler *scaler;
    options.comm = &comm;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_create(&options, &scaler), "allreduce_max");
    gsc_nccl_comm_free(&comm);

    no_library = false; /* it is looked for again */
    comm = gsc_nccl_comm(&rank, NULL);
    assert_non_null(comm.allreduce_max);
    gsc_nccl_comm_free(&comm);
    assert_null(comm.allreduce_max);
    int before = loads;
    comm = gsc_nccl_comm(&rank, NULL);
    assert_int_equal(loads, before); /* once found, it stays */
    gsc_nccl_comm_free(&comm);
    gsc_nccl_comm_free(&comm); /* nothing */
    gsc_nccl_comm_free(NULL);
}

static void test_null(void **state)
{
    (void)state;
    gsc_comm comm = gsc_nccl_comm_sharded(NULL, NULL);
    assert_null(comm.allreduce_max);
    assert_message("gsc_nccl_comm_sharded: comm is NULL");
}

/* Two ranks on two devices, each with a stream for the scaler's work and one for collectives. */
typedef struct world {
    standin_world *ranks;
    struct ncclComm nccl[RANKS];
    gsc_comm comms[RANKS];
    CUcontext contexts[RANKS];
    CUstream scalers[RANKS], collectives[RANKS];
    void *sources[RANKS], *values[RANKS], *results[RANKS];
    int64_t shape[1];
    DLTensor tensors[RANKS];
} world;

static void enter(const world *w, int rank) { assert_int_equal(cuCtxPushCurrent_v2(w->contexts[rank]), CUDA_SUCCESS); }

static void leave(void)
{
    CUcontext popped;
    assert_int_equal(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
}

static void open_rank(world *w, int i, bool own_stream, bool sharded)
{
    w->nccl[i] = (struct ncclComm){.world = w->ranks, .rank = i};
    assert_int_equal(cuDevicePrimaryCtxRetain(&w->contexts[i], i), CUDA_SUCCESS);
    enter(w, i);
    assert_int_equal(cuStreamCreate(&w->scalers[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&w->collectives[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    leave();
    CUstream stream = own_stream ? w->collectives[i] : NULL;
    w->comms[i] = sharded ? gsc_nccl_comm_sharded(&w->nccl[i], stream) : gsc_nccl_comm(&w->nccl[i], stream);
    assert_non_null(w->comms[i].allreduce_max);
    void **buffers[] = {&w->sources[i], &w->values[i], &w->results[i]};
    for (size_t b = 0; b < 3; b++)
        *buffers[b] = standin_alloc(i, COUNT * sizeof(double));
    w->tensors[i] = (DLTensor){.data = w->values[i], .device = {kDLCUDA, i}, .ndim = 1, .shape = w->shape};
}

static void open_world(world *w, bool own_stream, bool sharded)
{
    *w = (world){.ranks = standin_world_create(RANKS), .shape = {COUNT}};
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    for (int i = 0; i < RANKS; i++)
        open_rank(w, i, own_stream, sharded);
    standin_reset_counts();
}

/* Nothing is left over. */
static void close_world(world *w)
{
    standin_run_all();
    assert_int_equal(standin_errors(), 0);
    for (int i = 0; i < RANKS; i++) {
        gsc_nccl_comm_free(&w->comms[i]);
        enter(w, i);
        assert_int_equal(cuStreamDestroy_v2(w->scalers[i]), CUDA_SUCCESS);
        assert_int_equal(cuStreamDestroy_v2(w->collectives[i]), CUDA_SUCCESS);
        leave();
        standin_free(w->sources[i]);
        standin_free(w->values[i]);
        standin_free(w->results[i]);
        assert_int_equal(cuDevicePrimaryCtxRelease_v2(i), CUDA_SUCCESS);
    }
    standin_live live = standin_live_now();
    assert_int_equal(live.events + live.streams + live.modules + live.retains, 0);
    standin_world_free(w->ranks);
}

typedef int collective(void *self, DLTensor *values, void *stream);

static void copy_later(world *w, int rank, void *to, const void *from)
{
    assert_int_equal(cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                          COUNT * sizeof(double), w->scalers[rank]),
                     CUDA_SUCCESS);
}

/* What a scaler does around a collective on its stream: the values come from work that is late, and are used by work
 * that follows. */
static int enqueue(world *w, int rank, collective *reduction)
{
    enter(w, rank);
    copy_later(w, rank, w->values[rank], w->sources[rank]);
    int failure = reduction(w->comms[rank].self, &w->tensors[rank], w->scalers[rank]);
    copy_later(w, rank, w->results[rank], w->values[rank]);
    leave();
    return failure;
}

static void put(world *w, int rank, const void *values, size_t bytes)
{
    standin_upload(w->sources[rank], values, bytes);
}

static void check_maxima(bool own_stream, uint64_t seed)
{
    const float values[RANKS][COUNT] = {{1, 0, -65536}, {0, INFINITY, -32768}}, wanted[COUNT] = {1, INFINITY, -32768};
    world w;
    standin_seed(seed);
    open_world(&w, own_stream, false);
    assert_null(w.comms[0].allreduce_sum);
    assert_null(w.comms[0].allreduce_max64);
    for (int i = 0; i < RANKS; i++) {
        w.tensors[i].dtype = GSC_FLOAT32;
        put(&w, i, values[i], sizeof values[i]);
    }
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(enqueue(&w, i, w.comms[i].allreduce_max), 0);
    assert_int_equal(standin_synchronisations(), 0);
    standin_run_all();
    for (int i = 0; i < RANKS; i++) {
        float found[COUNT];
        standin_download(found, w.results[i], sizeof found);
        for (int k = 0; k < COUNT; k++)
            assert_exact((double)found[k], (double)wanted[k]);
        assert_ptr_equal(w.nccl[i].stream, own_stream ? w.collectives[i] : w.scalers[i]);
    }
    close_world(&w);
}

static void test_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        check_maxima(false, seed);
        check_maxima(true, seed);
    }
}

/* The second collective takes up the first one's events, and allocates nothing. */
static void test_repeated(void **state)
{
    (void)state;
    world w;
    open_world(&w, true, false);
    const float values[COUNT] = {1, 2, 3};
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < RANKS; i++) {
            w.tensors[i].dtype = GSC_FLOAT32;
            put(&w, i, values, sizeof values);
            assert_int_equal(enqueue(&w, i, w.comms[i].allreduce_max), 0);
        }
        standin_run_all();
        assert_int_equal(standin_count("cuEventCreate"), step == 0 ? 2 * RANKS : 0);
        assert_int_equal(standin_allocations(), 0);
        assert_int_equal(w.nccl[0].calls, step + 1);
        standin_reset_counts();
    }
    close_world(&w);
}

static void check_shards(collective *(*choose)(const gsc_comm *), double values[RANKS][COUNT], const double *wanted)
{
    world w;
    open_world(&w, false, true);
    for (int i = 0; i < RANKS; i++) {
        w.tensors[i].dtype = GSC_FLOAT64;
        put(&w, i, values[i], COUNT * sizeof(double));
    }
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(enqueue(&w, i, choose(&w.comms[i])), 0);
    standin_run_all();
    for (int i = 0; i < RANKS; i++) {
        double found[COUNT];
        standin_download(found, w.results[i], sizeof found);
        for (int k = 0; k < COUNT; k++)
            assert_exact(found[k], wanted[k]);
    }
    close_world(&w);
}

static collective *sum_of(const gsc_comm *comm) { return comm->allreduce_sum; }
static collective *max64_of(const gsc_comm *comm) { return comm->allreduce_max64; }

/* rule 12.1 */
static void test_shards(void **state)
{
    (void)state;
    check_shards(sum_of, (double[RANKS][COUNT]){{1, 0.5, NAN}, {2, 0.25, 1}}, (double[]){3, 0.75, NAN});
    /* NaN wins, as docs/ranks.md demands: NCCL's maximum of integers sees it above infinity. */
    check_shards(max64_of, (double[RANKS][COUNT]){{1, 1e300, NAN}, {0, INFINITY, INFINITY}},
                 (double[]){1, INFINITY, NAN});
    check_shards(max64_of, (double[RANKS][COUNT]){{0, 0, 5e-324}, {-NAN, 1, 0}}, (double[]){NAN, 1, 5e-324});
}

static void test_views(void **state)
{
    (void)state;
    world w;
    open_world(&w, false, false);
    const float values[COUNT] = {7, 8, 9}, small[COUNT] = {0};
    for (int i = 0; i < RANKS; i++) { /* the last element alone, through byte_offset */
        w.tensors[i].dtype = GSC_FLOAT32;
        w.tensors[i].byte_offset = 2 * sizeof(float);
        put(&w, i, i == 0 ? values : small, sizeof values);
    }
    w.shape[0] = 1;
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(enqueue(&w, i, w.comms[i].allreduce_max), 0);
    standin_run_all();
    float found[COUNT];
    standin_download(found, w.results[1], sizeof found);
    assert_exact((double)found[1], 0);
    assert_exact((double)found[2], 9);
    close_world(&w);
}

static void test_nccl_fails(void **state)
{
    (void)state;
    world w;
    open_world(&w, true, false);
    w.tensors[0].dtype = GSC_FLOAT32;
    w.nccl[0].fails = 2;
    assert_int_not_equal(enqueue(&w, 0, w.comms[0].allreduce_max), 0);
    assert_message("ncclAllReduce returned 2: unhandled system error");
    close_world(&w);
}

/* A communicator that does not block answers ncclInProgress. */
static void test_in_progress(void **state)
{
    (void)state;
    world w;
    open_world(&w, false, false);
    for (int i = 0; i < RANKS; i++) {
        w.tensors[i].dtype = GSC_FLOAT32;
        w.nccl[i].in_progress = 3;
        assert_int_equal(enqueue(&w, i, w.comms[i].allreduce_max), 0);
        assert_int_equal(w.nccl[i].in_progress, 0);
    }
    close_world(&w);
}

static void test_cpu_values(void **state)
{
    (void)state;
    world w;
    open_world(&w, false, false);
    float value = 1;
    w.tensors[0] = (DLTensor){.data = &value, .device = {kDLCPU, 0}, .ndim = 1, .shape = w.shape};
    assert_int_not_equal(w.comms[0].allreduce_max(w.comms[0].self, &w.tensors[0], NULL), 0);
    assert_message("gsc_cuda_backend()");
    assert_int_equal(w.nccl[0].calls, 0);
    close_world(&w);
}

/* The k-th call of the function fails; returns whether there was one. */
static bool check_driver_failure(const char *function, uint64_t k)
{
    world w;
    open_world(&w, true, false);
    for (int i = 0; i < RANKS; i++)
        w.tensors[i].dtype = GSC_FLOAT32;
    standin_fail(function, k, CUDA_ERROR_OUT_OF_MEMORY);
    int failure = w.comms[0].allreduce_max(w.comms[0].self, &w.tensors[0], w.scalers[0]);
    bool fired = standin_fail_fired();
    standin_fail(NULL, 0, 0);
    assert_int_equal(failure != 0, fired);
    if (fired)
        assert_message(function);
    if (w.nccl[0].calls > 0) /* then the other rank must come, too */
        assert_int_equal(w.comms[1].allreduce_max(w.comms[1].self, &w.tensors[1], w.scalers[1]), 0);
    close_world(&w);
    return fired;
}

static void test_driver_fails(void **state)
{
    (void)state;
    const char *const functions[] = {
        "cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuCtxPushCurrent_v2", "cuEventCreate", "cuEventRecord",
        "cuStreamWaitEvent"};
    const uint64_t calls[] = {1, 1, 2, 2, 2, 2};
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (uint64_t k = 1; k <= calls[f] + 1; k++)
            assert_int_equal(check_driver_failure(functions[f], k), k <= calls[f]);
}

/* A rank's optimizer: one gradient of COUNT values on its device. It only counts its steps. */
typedef struct user {
    gsc_optimizer optimizer;
    DLTensor grad;
    int64_t shape[1];
    int steps;
    gsc_scaler *scaler;
} user;

static size_t one(void *self)
{
    (void)self;
    return 1;
}

static DLTensor *grad_of(void *self, size_t index)
{
    (void)index;
    return &((user *)self)->grad;
}

static gsc_status count_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args;
    (void)value;
    (void)has_value;
    ((user *)self)->steps++;
    return GSC_OK;
}

static gsc_status count_scaled_step(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                    double *value, bool *has_value)
{
    (void)scaling;
    return count_step(self, args, value, has_value);
}

static void open_user(user *u, world *w, int rank)
{
    *u = (user){.optimizer = {.self = u,
                              .grad_count = one,
                              .grad = grad_of,
                              .step = count_step,
                              .step_scaled = count_scaled_step},
                .grad = {.data = w->sources[rank], .device = {kDLCUDA, rank}, .ndim = 1, .dtype = GSC_FLOAT32},
                .shape = {COUNT}};
    u->grad.shape = u->shape;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = u->grad.device;
    options.backend = gsc_cuda_backend();
    options.comm = &w->comms[rank];
    assert_ok(gsc_scaler_create(&options, &u->scaler));
    assert_ok(gsc_scaler_set_stream(u->scaler, u->grad.device, w->scalers[rank]));
}

static void step_all(user *users, double clip_norm)
{
    gsc_step_args args = {.clip_norm = clip_norm};
    gsc_step_result result;
    for (int i = 0; i < RANKS; i++) {
        assert_ok(gsc_scaler_step(users[i].scaler, &users[i].optimizer, &args, &result));
        assert_int_equal(result.outcome, GSC_PENDING);
    }
    for (int i = 0; i < RANKS; i++)
        assert_ok(gsc_scaler_update(users[i].scaler));
}

static void check_scalers(bool own_stream, uint64_t seed)
{
    const float fine[COUNT] = {65536, -131072, 0}, overflowed[COUNT] = {65536, INFINITY, 0};
    world w;
    user users[RANKS];
    standin_seed(seed);
    open_world(&w, own_stream, false);
    for (int i = 0; i < RANKS; i++)
        open_user(&users[i], &w, i);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < RANKS; i++)
            put(&w, i, step == 1 && i == 1 ? overflowed : fine, sizeof fine);
        standin_reset_counts();
        step_all(users, 0);
        assert_int_equal(standin_synchronisations(), 0);
        standin_run_all();
        for (int i = 0; i < RANKS; i++) {
            gsc_step_result result;
            assert_ok(gsc_scaler_result(users[i].scaler, &users[i].optimizer, &result));
            assert_int_equal(result.outcome, step == 1 ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED);
            assert_exact(gsc_scaler_get_scale(users[i].scaler), step == 0 ? 65536 : 32768);
            /* The report is that of the rank's own gradients. */
            size_t reported = gsc_scaler_overflows(users[i].scaler, &users[i].optimizer, NULL, 0);
            assert_int_equal(reported, step >= 1 && i == 1);
        }
    }
    for (int i = 0; i < RANKS; i++)
        gsc_scaler_destroy(users[i].scaler);
    close_world(&w);
}

/* rule 12.1, 12.2 */
static void test_scalers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        check_scalers(false, seed);
        check_scalers(true, seed);
    }
}

/* Shards: the norm is that of all, also where it is infinite or of another p. */
static void test_shard_norms(void **state)
{
    (void)state;
    const float shards[RANKS][COUNT] = {{65536 * 3.0f, 0, 0}, {0, 65536 * 4.0f, 0}};
    const double ps[] = {2, 1, INFINITY, 3}, norms[] = {5, 7, 4, cbrt(27 + 64)};
    for (size_t k = 0; k < sizeof ps / sizeof *ps; k++) {
        world w;
        user users[RANKS];
        open_world(&w, false, true);
        for (int i = 0; i < RANKS; i++) {
            open_user(&users[i], &w, i);
            put(&w, i, shards[i], sizeof shards[i]);
        }
        gsc_step_args args = {.clip_norm = 1, .clip_norm_type = ps[k]};
        for (int i = 0; i < RANKS; i++)
            assert_ok(gsc_scaler_step(users[i].scaler, &users[i].optimizer, &args, NULL));
        for (int i = 0; i < RANKS; i++) {
            gsc_step_result result;
            assert_ok(gsc_scaler_result(users[i].scaler, &users[i].optimizer, &result));
            assert_true(fabs(result.grad_norm - norms[k]) <= 1e-14 * norms[k]);
            gsc_scaler_destroy(users[i].scaler);
        }
        close_world(&w);
    }
}

/* A failing collective is an error of the call, with NCCL's words. */
static void test_scaler_sees_failure(void **state)
{
    (void)state;
    const float values[COUNT] = {65536, 1, 2};
    world w;
    user u;
    open_world(&w, false, false);
    open_user(&u, &w, 0);
    put(&w, 0, values, sizeof values);
    w.nccl[0].fails = 2;
    assert_fails(GSC_ERR_COMM, gsc_scaler_step(u.scaler, &u.optimizer, NULL, NULL), "unhandled system error");
    assert_int_equal(u.steps, 0);
    gsc_scaler_destroy(u.scaler);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library_is_missing),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_nccl_fails),
        cmocka_unit_test(test_in_progress),
        cmocka_unit_test(test_cpu_values),
        cmocka_unit_test(test_driver_fails),
        cmocka_unit_test(test_scalers),
        cmocka_unit_test(test_shard_norms),
        cmocka_unit_test(test_scaler_sees_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
