/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients on several devices: unscaled where they are, one verdict, one report, one norm; the order of work on their
 * streams is the stand-in's choice. */
#include "module_rig.h"

#include "standin/abi.h"

#define assert_cuda(call) assert_int_equal((call), CUDA_SUCCESS)

static const DLDevice home = {kDLCUDA, 0}, other = {kDLCUDA, 1};

static CUstream new_stream(int device)
{
    CUcontext context;
    CUstream stream;
    assert_cuda(cuDevicePrimaryCtxRetain(&context, device));
    assert_cuda(cuCtxPushCurrent_v2(context));
    assert_cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_cuda(cuCtxPopCurrent_v2(&context));
    return stream;
}

static void free_stream(int device, CUstream stream)
{
    CUcontext context;
    assert_cuda(cuDevicePrimaryCtxRetain(&context, device));
    assert_cuda(cuCtxPushCurrent_v2(context));
    assert_cuda(cuStreamDestroy_v2(stream));
    assert_cuda(cuCtxPopCurrent_v2(&context));
    assert_cuda(cuDevicePrimaryCtxRelease_v2(device));
    assert_cuda(cuDevicePrimaryCtxRelease_v2(device));
}

/* Gradients that alternate between the devices, on streams that wait for nobody else. */
typedef struct rig {
    twins both;
    gsc_scaler *scaler;
    CUstream streams[2];
} rig;

enum { GRADS = 6, LENGTH = 5000 };

static void start(rig *r, uint64_t seed)
{
    standin_seed(seed);
    twins_init(&r->both);
    for (int i = 0; i < GRADS; i++) {
        const int64_t length = LENGTH;
        float *x = (void *)twins_add(&r->both, GSC_FLOAT32, i % 2, 1, &length, NULL, 0);
        for (int k = 0; k < LENGTH; k++)
            x[k] = (float)((double)(next_random(&seed) % 4096) - 2048);
    }
    twins_upload(&r->both);
    r->scaler = device_scaler(64);
    for (int d = 0; d < 2; d++) {
        r->streams[d] = new_stream(d);
        assert_ok(gsc_scaler_set_stream(r->scaler, d == 0 ? home : other, r->streams[d]));
    }
}

static void stop(rig *r)
{
    gsc_scaler_destroy(r->scaler);
    for (int d = 0; d < 2; d++)
        free_stream(d, r->streams[d]);
    twins_free(&r->both);
}

static void set_element(rig *r, int grad, int index, float value)
{
    ((float *)r->both.cpu[grad]->data)[index] = value;
    standin_upload((float *)r->both.gpu[grad]->data + index, &value, sizeof value);
}

/* rule 17.2 */
static void unscaled_where_they_are(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rig r;
        gsc_step_result result;
        start(&r, seed);
        for (int i = 0; i < 3; i++) {
            standin_reset_counts();
            assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
            assert_int_equal(standin_synchronisations(), 0);
            if (i > 0)
                assert_int_equal(standin_allocations(), 0);
            assert_ok(gsc_unscale_grads(r.both.cpu, GRADS, 64, NULL));
            assert_ok(gsc_scaler_step(r.scaler, &r.both.optimizer, NULL, &result));
            assert_int_equal(result.outcome, GSC_STEPPED);
            twins_assert_equal(&r.both);
            assert_ok(gsc_scaler_update(r.scaler));
        }
        stop(&r);
    }
}

/* Wherever the overflow is, the step is skipped, and the report has each gradient once, by index. */
/* rule 17.2 */
static void one_verdict_and_one_report(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        rig r;
        gsc_overflow found[GRADS];
        start(&r, seed);
        set_element(&r, 1, 7, INFINITY);
        set_element(&r, 3, 4999, NAN);
        set_element(&r, 3, 4998, INFINITY);
        if (seed % 2 == 0)
            set_element(&r, 5, 0, NAN);
        for (int i = 0; i < 2; i++) {
            assert_ok(gsc_scaler_step(r.scaler, &r.both.optimizer, NULL, NULL));
            assert_int_equal(r.both.steps, 0);
            assert_true(gsc_scaler_found_inf(r.scaler, &r.both.optimizer));
            assert_int_equal(gsc_scaler_overflows(r.scaler, &r.both.optimizer, found, GRADS), seed % 2 == 0 ? 3 : 2);
            assert_int_equal(found[0].index, 1);
            assert_int_equal(found[0].inf_count, 1);
            assert_int_equal(found[0].first_index, 7);
            assert_int_equal(found[1].index, 3);
            assert_int_equal(found[1].nan_count, 1);
            assert_int_equal(found[1].first_index, 4998);
            assert_int_equal(found[1].repeats, i + 1);
            assert_ok(gsc_scaler_update(r.scaler));
        }
        gsc_scaler_state now;
        assert_ok(gsc_scaler_state_dict(r.scaler, &now));
        assert_exact(now.scale, 16);
        stop(&r);
    }
}

/* Sums are added up device by device: not the CPU's bits, but always the same. */
static void one_norm(void **state)
{
    (void)state;
    static const double powers[] = {1, 2, (double)INFINITY, 3};
    for (size_t p = 0; p < 4; p++) {
        double norms[6], expected = 0;
        for (int i = 0; i < 6; i++) {
            rig r;
            gsc_step_result result;
            start(&r, 3); /* the same numbers */
            standin_seed(100 + (uint64_t)i);
            r.both.optimizer.step_scaled = i == 5 ? twins_step_scaled : NULL; /* not called: no multiplier elsewhere */
            const gsc_step_args args = {.clip_norm = 1, .clip_norm_type = powers[p]};
            assert_ok(gsc_scaler_step(r.scaler, &r.both.optimizer, &args, &result));
            assert_int_equal(r.both.steps, 1);
            norms[i] = result.grad_norm;
            assert_exact(norms[i], norms[0]);
            assert_ok(gsc_unscale_grads(r.both.cpu, GRADS, 64, NULL));
            assert_ok(gsc_clip_grad_norm(r.both.cpu, GRADS, 1, powers[p], &expected));
            assert_true(fabs(norms[i] - expected) <= 1e-14 * expected);
            if (powers[p] == (double)INFINITY)
                twins_assert_equal(&r.both); /* clipped, on both devices */
            for (int grad = 0; grad < GRADS; grad++) {
                float clipped;
                standin_download(&clipped, r.both.gpu[grad]->data, sizeof clipped);
                assert_true(fabsf(clipped - *(float *)r.both.cpu[grad]->data) <= 1e-6f * fabsf(clipped));
            }
            stop(&r);
        }
    }
}

/* A view and a product on another device follow the scale of the scaler's. */
static void the_scale_elsewhere(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        rig r;
        DLTensor view;
        float scale;
        start(&r, seed);
        assert_ok(gsc_scaler_scale_view(r.scaler, other, &view));
        assert_int_equal(view.device.device_id, 1);
        set_element(&r, 0, 0, INFINITY);
        assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
        assert_ok(gsc_scaler_update(r.scaler));
        standin_run_all();
        set_element(&r, 1, 0, 3);
        assert_ok(gsc_scaler_scale(r.scaler, r.both.gpu[1], r.both.gpu[1]));
        gsc_scaler_state settled;
        assert_ok(gsc_scaler_state_dict(r.scaler, &settled)); /* waits for both devices */
        standin_download(&scale, r.both.gpu[1]->data, sizeof scale);
        assert_exact((double)scale, 3 * 32);
        assert_ok(gsc_scaler_update_to(r.scaler, 256));
        standin_run_all();
        standin_download(&scale, view.data, sizeof scale);
        assert_exact((double)scale, 256);
        stop(&r);
    }
}

/* Another stream goes on where the one before is. */
/* rule 17.2 */
static void another_stream(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rig r;
        gsc_step_result result;
        start(&r, seed);
        CUstream more[2] = {new_stream(0), new_stream(1)};
        assert_ok(gsc_scaler_unscale(r.scaler, &r.both.optimizer));
        assert_ok(gsc_scaler_set_stream(r.scaler, home, more[0]));
        assert_ok(gsc_scaler_set_stream(r.scaler, other, more[1]));
        assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.both.optimizer, 1e-3, (double)INFINITY, NULL));
        assert_ok(gsc_scaler_set_stream(r.scaler, home, r.streams[0]));
        assert_ok(gsc_scaler_step(r.scaler, &r.both.optimizer, NULL, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        assert_ok(gsc_unscale_grads(r.both.cpu, GRADS, 64, NULL));
        assert_ok(gsc_clip_grad_norm(r.both.cpu, GRADS, 1e-3, (double)INFINITY, NULL));
        assert_ok(gsc_scaler_set_stream(r.scaler, other, r.streams[1]));
        standin_run_all();
        twins_assert_equal(&r.both);
        gsc_scaler_destroy(r.scaler);
        r.scaler = NULL;
        free_stream(0, more[0]);
        free_stream(1, more[1]);
        stop(&r);
    }
}

/* Whatever the module calls, the caller's current context is what it was. */
static void the_callers_context_stays(void **state)
{
    (void)state;
    CUcontext mine, now;
    rig r;
    assert_cuda(cuInit(0));
    assert_cuda(cuDevicePrimaryCtxRetain(&mine, 1));
    assert_cuda(cuCtxPushCurrent_v2(mine));
    start(&r, 1);
    assert_ok(gsc_scaler_step(r.scaler, &r.both.optimizer, NULL, NULL));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_cuda(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, mine);
    stop(&r);
    assert_cuda(cuCtxPopCurrent_v2(&now));
    assert_ptr_equal(now, mine);
    assert_cuda(cuCtxGetCurrent(&now));
    assert_null(now);
    assert_cuda(cuDevicePrimaryCtxRelease_v2(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(unscaled_where_they_are, assert_clean),
        cmocka_unit_test_teardown(one_verdict_and_one_report, assert_clean),
        cmocka_unit_test_teardown(one_norm, assert_clean),
        cmocka_unit_test_teardown(the_scale_elsewhere, assert_clean),
        cmocka_unit_test_teardown(another_stream, assert_clean),
        cmocka_unit_test_teardown(the_callers_context_stays, assert_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
