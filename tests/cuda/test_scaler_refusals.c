/* SPDX-License-Identifier: Apache-2.0 */
/* What a scaler on a device refuses, and what it says; nothing is changed. */
#include "core/backend.h"
#include "scaler_rig.h"

static void refuse_options(gsc_scaler_options options, const char *one, const char *other)
{
    gsc_scaler *scaler = NULL;
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_create(&options, &scaler), "gsc_scaler_create", one, other);
    assert_null(scaler);
}

/* rule 1.3, 17.1 */
static void options_name_a_device_of_the_module(void **state)
{
    (void)state;
    gsc_scaler_options options = device_options();
    options.device = (DLDevice){kDLCPU, 0};
    refuse_options(options, "backend is the module for CUDA", "device is the CPU");
    options = device_options();
    options.device.device_id = 7;
    refuse_options(options, "no CUDA device 7", "0 to 1");
    options.device = (DLDevice){kDLROCM, 0};
    refuse_options(options, "this backend serves", "kDLCUDA");
    options = device_options();
    options.backend = NULL;
    refuse_options(options, "device is CUDA device 0", "options.backend");
    gsc_backend other_version = *gsc_cuda_backend();
    other_version.version++;
    options = device_options();
    options.backend = &other_version;
    refuse_options(options, "backend has version 2", "needs 1");
}

static void refused_gradients_stay_as_they_are(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, NULL);
    device_grad *grad = add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "fine"), *bad;
    bad = add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "bad");
    set_grad(&r.optimizer, 0, (double[]){8, 16});
    const DLTensor good = bad->tensor;

    bad->tensor.dtype = GSC_FLOAT16;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(r.scaler, &r.optimizer.base), "gradient 1 (\"bad\")", "float16");
    bad->tensor = good;
    bad->tensor.device = (DLDevice){kDLROCM, 0};
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL), "gradient 1 (\"bad\")");
    bad->tensor = good;
    bad->tensor.device.device_id = 5;
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL), "gradient 1 (\"bad\")",
                 "no CUDA device 5");
    bad->tensor = good;
    bad->strides[0] = 0;
    bad->tensor.strides = bad->strides;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(r.scaler, &r.optimizer.base), "reach an element more than once");
    bad->tensor = good;
    bad->tensor.data = (char *)grad->tensor.data + sizeof(float);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(r.scaler, &r.optimizer.base), "\"fine\"", "\"bad\"", "share memory");
    bad->tensor = good;

    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
    assert_exact(grad_at(&r.optimizer, 0, 0), 8);
    assert_fails(GSC_ERR_STATE,
                 gsc_scaler_step(r.scaler, &r.optimizer.base,
                                 &(gsc_step_args){.closure = (double (*)(void *))(void (*)(void))abort}, NULL),
                 "closure");
    rig_stop(&r);
}

static void misuse_is_told_by_addresses(void **state)
{
    (void)state;
    rig r;
    device_optimizer other;
    gsc_scaler_options options = device_options();
    options.strict = true;
    rig_start(&r, &options);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "a");
    device_grad *late = add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "late");
    fill_grad(&r.optimizer, 0, 8);
    fill_grad(&r.optimizer, 1, 8);
    optimizer_init(&other);
    other.grads[0] = r.optimizer.grads[0];
    other.grads[0].tensor.shape = other.grads[0].shape;
    other.count = 1;
    late->absent = true;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(r.scaler, &other.base), "shares memory", "gsc_scaler_unscale");
    late->absent = false;
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL), "\"late\"", "was absent");
    late->absent = true;
    void *moved = late->tensor.data, *before = r.optimizer.grads[0].tensor.data;
    r.optimizer.grads[0].tensor.data = standin_alloc(0, 2 * sizeof(float));
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL), "is not the one", "strict");
    standin_free(r.optimizer.grads[0].tensor.data);
    r.optimizer.grads[0].tensor.data = before;
    late->tensor.data = moved;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_exact(grad_at(&r.optimizer, 0, 0), 1);
    rig_stop(&r);
}

static void losses_are_scaled_where_they_are(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, NULL);
    device_grad *in = add_grad(&r.optimizer, 0, GSC_FLOAT32, 6, "in"),
                *out = add_grad(&r.optimizer, 0, GSC_FLOAT64, 6, "out");
    set_grad(&r.optimizer, 0, (double[]){1, 2, 3, 4, 5, 6});
    assert_waits(0, gsc_scaler_scale(r.scaler, &in->tensor, &out->tensor));
    assert_exact(grad_at(&r.optimizer, 1, 5), 48);
    /* A transposed view: in is (2, 3), out the same shape the other way round in memory. */
    in->tensor.ndim = out->tensor.ndim = 2;
    in->shape[0] = out->shape[0] = 2;
    in->shape[1] = out->shape[1] = 3;
    out->strides[0] = 1;
    out->strides[1] = 2;
    out->tensor.strides = out->strides;
    assert_ok(gsc_scaler_scale(r.scaler, &in->tensor, &out->tensor));
    assert_exact(grad_at(&r.optimizer, 1, 1), 32); /* in[1][0] */
    out->tensor.strides = NULL;

    float host_in = 3, host_out = 0;
    DLTensor cpu_in = {.data = &host_in, .device = {kDLCPU, 0}, .dtype = GSC_FLOAT32}, cpu_out = cpu_in;
    cpu_out.data = &host_out;
    DLTensor *ins[] = {&in->tensor, &cpu_in}, *outs[] = {&out->tensor, &cpu_out};
    assert_waits(1, gsc_scaler_scale_list(r.scaler, ins, outs, 2));
    assert_exact((double)host_out, 24);
    assert_exact(grad_at(&r.optimizer, 1, 1), 16);
    cpu_in.ndim = 1;
    cpu_in.shape = (int64_t[]){1};
    host_out = 0;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_list(r.scaler, ins, outs, 2), "pair 1", "ndim");
    assert_exact((double)host_out, 0);
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_scale(r.scaler, &cpu_out, &out->tensor), "the CPU", "CUDA device 0",
                 "one device");
    rig_stop(&r);
}

static void the_scale_is_seen_on_the_device(void **state)
{
    (void)state;
    rig r;
    DLTensor view;
    rig_start(&r, NULL);
    assert_ok(gsc_scaler_scale_view(r.scaler, DEVICE, &view));
    assert_true(view.ndim == 0 && view.device.device_type == kDLCUDA && view.device.device_id == 0);
    assert_exact((double)device_float(&view), 8);
    assert_ok(gsc_scaler_update_to(r.scaler, 32));
    assert_exact((double)device_float(&view), 32);
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_scale_view(r.scaler, (DLDevice){kDLCPU, 0}, &view), "gsc_scaler_get_scale");
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_scale_view(r.scaler, (DLDevice){kDLCUDA, 9}, &view), "no CUDA device 9");
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_set_stream(r.scaler, (DLDevice){kDLCUDA, 9}, NULL), "no CUDA device 9");
    assert_fails(GSC_ERR_VALUE, gsc_scaler_set_stream(r.scaler, (DLDevice){kDLCPU, 0}, &view), "CPU has no streams");
    assert_ok(gsc_scaler_set_stream(r.scaler, (DLDevice){kDLCPU, 0}, NULL));
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_name_a_device_of_the_module), cmocka_unit_test(refused_gradients_stay_as_they_are),
        cmocka_unit_test(misuse_is_told_by_addresses),         cmocka_unit_test(losses_are_scaled_where_they_are),
        cmocka_unit_test(the_scale_is_seen_on_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
