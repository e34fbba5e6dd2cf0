/* SPDX-License-Identifier: Apache-2.0 */
/* The fused optimizers against those of the CPU: the same bits after many steps, with skipped ones between, whatever
 * the rule, the dtypes, the sizes, the alignment and the multiplier. */
#include "optim_rig.h"

#define F32 GSC_FLOAT32_INIT
#define F64 GSC_FLOAT64_INIT
#define BF16 GSC_BFLOAT16_INIT
#define F16 GSC_FLOAT16_INIT

enum { RULES = sizeof rule_cases / sizeof *rule_cases };

/* Around an item of 1024 elements and a vector of four, aligned and not. */
static const twin_spec mixed[] = {
    {1, F32, F32, 0, 0},    {17, F32, BF16, 0, 1},  {67, F64, F64, 0, 0},   {0, F32, F32, 0, 0},
    {1023, F32, F16, 0, 0}, {1024, F32, F32, 1, 1}, {1025, F32, F32, 0, 0}, {130, F32, BF16, 2, 0},
    {5, F32, F16, 3, 3},    {2049, F64, F64, 1, 0}, {3, F64, F64, 0, 1},    {96, F32, BF16, 0, 0},
    {256, F32, F16, 4, 8},  {2048, F32, F32, 0, 2}, {40, F32, F32, 1, 0},   {50, F32, F16, 0, 2}};
enum { MIXED = sizeof mixed / sizeof *mixed };

/* As a scaler computes them: powers of two and not, below float32's normal numbers, and so small that they are split.
 */
static const double multipliers[] = {1, 0x1p-16, 1.0 / 3, 0x1.8p-127, 0x1.234567p-140, 0, 0x1.23456789abcp-10, 3};
enum { MULTIPLIERS = sizeof multipliers / sizeof *multipliers };

/* rule 7.1, section 5.3 */
static void the_bits_are_those_of_the_cpu(void **state)
{
    (void)state;
    for (size_t r = 0; r < RULES; r++) {
        standin_seed(r + 1);
        twins *t = twins_create(&rule_cases[r], mixed, MIXED);
        for (size_t step = 0; step < 2 * MULTIPLIERS; step++) {
            const double multiplier = multipliers[step % MULTIPLIERS];
            set_grads(t, step, multiplier > 1e-4 ? 1 / multiplier : 1e4);
            if (step % 5 == 3)
                drop_grad(t, step % MIXED); /* passed over */
            step_twins(t, multiplier, step % 3 == 1 ? 1.0f : 0.0f, NULL);
            compare_twins(t, step);
        }
        twins_free(t);
    }
}

/* rule 7.1 */
static void a_skipped_step_touches_nothing(void **state)
{
    (void)state;
    static const float found[] = {1, -1, 0x1p-149f, NAN, INFINITY};
    for (size_t r = 0; r < RULES; r++) {
        twins *t = twins_create(&rule_cases[r], mixed, MIXED);
        set_grads(t, 0, 1);
        for (size_t k = 0; k < MIXED; k++) {
            const double bad[] = {INFINITY, NAN, -INFINITY};
            if (mixed[k].count >= 3 && mixed[k].count < 6)
                set_grad(t, k, (const double[]){bad[k % 3], bad[0], bad[1], 1, 2});
        }
        for (size_t i = 0; i < sizeof found / sizeof *found; i++)
            step_twins(t, 1, found[i], NULL);
        compare_twins(t, 0); /* the CPU has made no step */
        twins_free(t);
    }
}

/* The multiplier is the first that is there: in float64, in float32, on the host. */
static void where_the_multiplier_is(void **state)
{
    (void)state;
    const double multiplier = 1.0 / 3;
    for (size_t r = 0; r < RULES; r++)
        for (int from = 0; from < 3; from++) {
            twins *t = twins_create(&rule_cases[r], mixed, MIXED);
            scaling_tensors tensors;
            gsc_grad_scaling scaling = scaling_of(t, &tensors, multiplier, 0, NULL);
            if (from >= 1)
                scaling.multiplier64_dev = NULL;
            if (from == 2) {
                scaling.multiplier_dev = NULL;
                scaling.found_inf_dev = NULL;
                scaling.multiplier = multiplier;
            }
            set_grads(t, 1, 3);
            assert_ok(step_scaled(gsc_cuda_optim_optimizer(t->gpu), &scaling));
            const double expected = from == 1 ? (double)(float)multiplier : multiplier;
            assert_ok(step_scaled(gsc_optim_optimizer(t->cpu), &(gsc_grad_scaling){.multiplier = expected}));
            compare_twins(t, 0);
            twins_free(t);
        }
}

static void on_another_device(void **state)
{
    (void)state;
    twins_device = 1;
    twins *t = twins_create(&rule_cases[RULES - 1], mixed, MIXED);
    for (size_t step = 0; step < 3; step++) {
        set_grads(t, step, 2);
        step_twins(t, 0.5, step == 1, NULL);
        compare_twins(t, step);
    }
    assert_int_equal(gsc_cuda_optim_state(t->gpu, 0, "exp_avg")->device.device_id, 1);
    twins_free(t);
    twins_device = 0;
}

/* Without a scaler, by both ways, with a closure and without. */
static double seven(void *calls)
{
    ++*(int *)calls;
    return 7;
}

static void plain_steps(void **state)
{
    (void)state;
    for (size_t r = 0; r < RULES; r++) {
        twins *t = twins_create(&rule_cases[r], mixed, MIXED);
        const gsc_optimizer *interface = gsc_cuda_optim_optimizer(t->gpu);
        for (size_t step = 0; step < 6; step++) {
            set_grads(t, step, 1);
            assert_ok(gsc_optim_step(t->cpu));
            double value = 0;
            bool has_value = false;
            int calls = 0;
            const gsc_step_args args = {.closure = step == 3 ? seven : NULL, .closure_ctx = &calls};
            if (step % 2 == 0)
                assert_ok(gsc_cuda_optim_step(t->gpu));
            else
                assert_ok(interface->step(interface->self, &args, &value, &has_value));
            assert_int_equal(calls, step == 3);
            assert_true(has_value == (step == 3) && (!has_value || value == 7));
            compare_twins(t, step);
        }
        twins_free(t);
    }
}

/* case 81 */
static void many_small_tensors(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static twin_spec specs[MANY];
    for (size_t k = 0; k < MANY; k++)
        specs[k] = (twin_spec){k % 7, GSC_FLOAT32, k % 3 == 0 ? GSC_BFLOAT16 : GSC_FLOAT32, k % 2, k % 5};
    twins *t = twins_create(&rule_cases[RULES - 1], specs, MANY);
    for (size_t step = 0; step < 3; step++) {
        set_grads(t, step, 1024);
        for (size_t k = step; k < MANY; k += 11)
            drop_grad(t, k);
        step_twins(t, 0x1p-10, 0, NULL);
        compare_twins(t, step);
    }
    twins_free(t);
}

/* Groups with their own settings; learning rates that change. */
static void several_groups(void **state)
{
    (void)state;
    enum { GROUPS = 3, EACH = 2 };
    gsc_tensor *cpu[GROUPS * EACH];
    DLTensor params[GROUPS * EACH], grads[GROUPS * EACH], *param_at[GROUPS * EACH], *grad_at[GROUPS * EACH];
    int64_t shape = 40;
    for (size_t k = 0; k < GROUPS * EACH; k++) {
        cpu[k] = new_param(GSC_FLOAT32, 40, "w");
        add_grad(cpu[k]);
        for (size_t i = 0; i < 40; i++) {
            element_set(gsc_tensor_data(cpu[k]), i, sample(1, k, i));
            element_set(gsc_tensor_grad(cpu[k]), i, sample(2, k, i));
        }
        params[k] = tensor_on_device(0, standin_alloc(0, 160), GSC_FLOAT32, &shape, 0);
        grads[k] = tensor_on_device(0, standin_alloc(0, 160), GSC_FLOAT32, &shape, 0);
        standin_upload(params[k].data, gsc_tensor_data(cpu[k])->data, 160);
        standin_upload(grads[k].data, gsc_tensor_grad(cpu[k])->data, 160);
        param_at[k] = &params[k];
        grad_at[k] = &grads[k];
    }
    gsc_param_group groups[GROUPS] = {{.lr = 0.1, .weight_decay = 0.1},
                                      {.lr = 0.01, .momentum = 0.9, .dampening = 0.1},
                                      {.lr = 0.5, .momentum = 0.5, .nesterov = true}};
    gsc_cuda_param_group cuda_groups[GROUPS];
    for (size_t g = 0; g < GROUPS; g++) {
        groups[g].params = &cpu[g * EACH];
        groups[g].count = EACH;
        cuda_groups[g] = cuda_group_of(&groups[g], &param_at[g * EACH], &grad_at[g * EACH], EACH);
    }
    gsc_optim *on_cpu;
    gsc_cuda_optim *on_gpu;
    assert_ok(gsc_optim_create_sgd(groups, GROUPS, &on_cpu));
    assert_ok(gsc_cuda_optim_create_sgd(cuda_groups, GROUPS, &on_gpu));
    for (size_t step = 0; step < 5; step++) {
        if (step >= 2) {
            const double lr = 1.0 / (double)(step + 1);
            assert_ok(gsc_optim_set_lr(on_cpu, step - 2, lr));
            assert_ok(gsc_cuda_optim_set_lr(on_gpu, step - 2, lr));
            assert_true(gsc_cuda_optim_get_lr(on_gpu, step - 2) == lr);
        }
        assert_ok(gsc_optim_step(on_cpu));
        assert_ok(gsc_cuda_optim_step(on_gpu));
    }
    standin_run_all();
    for (size_t k = 0; k < GROUPS * EACH; k++) {
        compare_tensor(gsc_tensor_data(cpu[k]), &params[k], "data", k, 5);
        assert_true((gsc_cuda_optim_state(on_gpu, k, "momentum_buffer") != NULL) == (k >= EACH));
        gsc_tensor_free(cpu[k]);
    }
    gsc_optim_free(on_cpu);
    gsc_cuda_optim_free(on_gpu);
    for (size_t k = 0; k < GROUPS * EACH; k++) {
        standin_free(params[k].data);
        standin_free(grads[k].data);
    }
}

/* Counts that were set go on, as after a checkpoint. */
static void counts_and_states_are_set(void **state)
{
    (void)state;
    static const twin_spec specs[] = {{33, F32, F32, 0, 0}, {5, F64, F64, 0, 0}};
    twins *t = twins_create(&rule_cases[RULES - 1], specs, 2);
    const int64_t counts[] = {INT64_C(1) << 62, 41};
    assert_ok(gsc_cuda_optim_set_step_counts(t->gpu, counts));
    for (size_t k = 0; k < 2; k++) {
        assert_ok(gsc_optim_set_step_count(t->cpu, k, counts[k]));
        DLTensor *on_cpu = gsc_optim_state(t->cpu, k, "exp_avg"), *on_gpu = gsc_cuda_optim_state(t->gpu, k, "exp_avg");
        for (size_t i = 0; i < specs[k].count; i++)
            element_set(on_cpu, i, sample(5, k, i));
        standin_run_all();
        standin_upload(on_gpu->data, on_cpu->data, bytes_of_tensor(on_gpu));
    }
    set_grads(t, 0, 1);
    for (size_t step = 0; step < 3; step++)
        step_twins(t, 1, 0, NULL);
    compare_twins(t, 3);
    twins_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_the_cpu),
        cmocka_unit_test(a_skipped_step_touches_nothing),
        cmocka_unit_test(where_the_multiplier_is),
        cmocka_unit_test(on_another_device),
        cmocka_unit_test(plain_steps),
        cmocka_unit_test(many_small_tensors),
        cmocka_unit_test(several_groups),
        cmocka_unit_test(counts_and_states_are_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
