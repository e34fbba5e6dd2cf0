/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 13: which gradients overflowed. */
#include "rig.h"

static void assert_overflow(const gsc_overflow *overflow, size_t index, const char *name, uint64_t infs, uint64_t nans,
                            uint64_t first)
{
    assert_int_equal(overflow->index, index);
    if (name == NULL)
        assert_null(overflow->name);
    else
        assert_string_equal(overflow->name, name);
    assert_int_equal(overflow->inf_count, infs);
    assert_int_equal(overflow->nan_count, nans);
    assert_int_equal(overflow->first_index, first);
    assert_reserved_zero(*overflow);
}

static size_t overflows(const rig *r, gsc_overflow *out, size_t capacity)
{
    memset(out, 0xff, capacity * sizeof *out);
    return gsc_scaler_overflows(r->scaler, &r->optimizer.base, out, capacity);
}

/* rule 13.2, case 101 */
static void test_index_name_counts_and_first_element(void **state)
{
    (void)state;
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        rig_start(&r, 2);
        float second[9] = {0}, third[3] = {1, 2, 3};
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, second, 9, "second");
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, third, 3, "third");
        r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
        second[5] = INFINITY;
        second[7] = NAN;
        rig_step(&r, 1);
        gsc_overflow out[3];
        assert_int_equal(overflows(&r, out, 3), 1);
        assert_overflow(&out[0], 1, "second", 1, 1, 5);
        rig_stop(&r);
    }
}

/* rule 13.1 */
static void test_none_while_finite(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 2);
    rig_iterate(&r, 1);
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, NULL, 0), 0);
    rig_stop(&r);
}

/* rule 13.2 */
static void test_several_gradients_and_a_small_array(void **state)
{
    (void)state;
    enum { N = 5 };
    rig r;
    rig_start(&r, 2);
    float grads[N][4];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < 4; j++)
            grads[i][j] = i % 2 == 0 ? -INFINITY : 1;
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, grads[i], 4, i == 2 ? NULL : "g");
    }
    rig_step(&r, NAN);
    gsc_overflow out[6];
    assert_int_equal(overflows(&r, out, 6), 4);
    assert_overflow(&out[0], 0, "weight", 0, 1, 0);
    assert_overflow(&out[1], 1, "g", 4, 0, 0);
    assert_overflow(&out[2], 3, NULL, 4, 0, 0);
    assert_overflow(&out[3], 5, "g", 4, 0, 0);
    assert_int_equal(out[4].index, SIZE_MAX); /* not written */
    assert_int_equal(overflows(&r, out, 2), 4);
    assert_overflow(&out[1], 1, "g", 4, 0, 0);
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, NULL, 0), 4);
    rig_stop(&r);
}

/* rule 13.2 */
static void test_the_name_is_a_copy(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 2);
    char name[] = "layer.0.weight";
    r.optimizer.params[0].name = name;
    rig_step(&r, NAN);
    memset(name, 'x', sizeof name - 1);
    gsc_overflow out;
    assert_int_equal(overflows(&r, &out, 1), 1);
    assert_string_equal(out.name, "layer.0.weight");
    assert_ok(gsc_scaler_update(r.scaler));
    rig_iterate(&r, 1);
    assert_string_equal(out.name, "layer.0.weight"); /* valid until the next overflow */
    rig_stop(&r);
}

/* rule 13.2 */
static void test_it_is_of_the_last_overflow(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 2);
    float second = 1;
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, &second, 1, "second");
    rig_iterate(&r, NAN);
    gsc_overflow out[2];
    second = 1;
    rig_iterate(&r, 1); /* clean: the report stays */
    assert_int_equal(overflows(&r, out, 2), 1);
    assert_overflow(&out[0], 0, "weight", 0, 1, 0);
    second = INFINITY;
    rig_iterate(&r, 1);
    assert_int_equal(overflows(&r, out, 2), 1);
    assert_overflow(&out[0], 1, "second", 1, 0, 0);
    rig_stop(&r);
}

/* rule 13.2 */
static void test_each_optimizer_has_its_own(void **state)
{
    (void)state;
    rig a, b;
    rig_start(&a, 2);
    rig_start(&b, 2);
    b.optimizer.params[0].name = "b";
    a.grad = NAN;
    b.grad = INFINITY;
    assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
    gsc_overflow out;
    assert_int_equal(gsc_scaler_overflows(a.scaler, &a.optimizer.base, &out, 1), 1);
    assert_overflow(&out, 0, "weight", 0, 1, 0);
    assert_int_equal(gsc_scaler_overflows(a.scaler, &b.optimizer.base, &out, 1), 1);
    assert_overflow(&out, 0, "b", 1, 0, 0);
    rig_stop(&a);
    rig_stop(&b);
}

/* rule 13.2 */
static void test_what_only_the_division_makes_infinite(void **state)
{
    (void)state;
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        rig_start(&r, 0x1p-10);
        float grads[4] = {1, 2, 3e38f, -3e38f};
        uint16_t bf16[2] = {to_bf16(1), to_bf16(-3e38)};
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, grads, 4, "f32");
        fake_add(&r.optimizer, GSC_BFLOAT16, NULL, bf16, 2, "bf16");
        r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
        rig_step(&r, 1);
        gsc_overflow out[2];
        assert_int_equal(overflows(&r, out, 2), 2);
        assert_overflow(&out[0], 1, "f32", 2, 0, 2);
        assert_overflow(&out[1], 2, "bf16", 1, 0, 1);
        rig_stop(&r);
    }
}

/* rule 13.2 */
static void test_first_index_is_row_major(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 2);
    float data[12] = {0};
    int64_t shape[] = {4, 3}, column_major[] = {1, 4};
    DLTensor *grad = &fake_add(&r.optimizer, GSC_FLOAT32, NULL, data, 1, "transposed")->grad;
    grad->ndim = 2;
    grad->shape = shape;
    grad->strides = column_major;
    data[1 + 4 * 2] = NAN; /* row 1, column 2 */
    data[3 + 4 * 0] = NAN; /* row 3, column 0: earlier in memory, later in the order */
    rig_step(&r, 1);
    gsc_overflow out;
    assert_int_equal(overflows(&r, &out, 1), 1);
    assert_overflow(&out, 1, "transposed", 0, 2, 1 * 3 + 2);
    rig_stop(&r);
}

/* rule 13.2 */
static void test_each_dtype_is_counted(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    for (size_t d = 0; d < 4; d++) {
        gsc_scaler_options options = options_of(2, 1);
        options.allow_fp16_grads = true;
        rig r;
        rig_start_with(&r, &options);
        double data[70] = {0};
        DLTensor *grad = &fake_add(&r.optimizer, dtypes[d], NULL, data, 70, "g")->grad;
        element_set(grad, 66, (double)INFINITY);
        element_set(grad, 67, (double)NAN);
        element_set(grad, 69, -(double)INFINITY);
        rig_step(&r, 1);
        gsc_overflow out;
        assert_int_equal(overflows(&r, &out, 1), 1);
        assert_overflow(&out, 1, "g", 2, 1, 66);
        rig_stop(&r);
    }
}

/* So large that several threads read it. */
/* rule 13.2 */
static void test_a_large_gradient(void **state)
{
    (void)state;
    enum { N = 1 << 20, FIRST = 123457 };
    static float data[N];
    rig r;
    rig_start(&r, 2);
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, data, N, "large");
    for (int i = FIRST; i < N; i += 1000)
        data[i] = i == FIRST ? NAN : -INFINITY;
    rig_step(&r, 1);
    gsc_overflow out;
    assert_int_equal(overflows(&r, &out, 1), 1);
    assert_overflow(&out, 1, "large", (N - FIRST - 1) / 1000, 1, FIRST);
    rig_stop(&r);
}

/* rule 13.2 */
static void test_recorded_by_the_caller(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 2);
    assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, true));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 1);
    rig_stop(&r);
}

/* Gradients of a model whose list is long: more than are read at a time. */
typedef struct many {
    gsc_optimizer base;
    DLTensor grads[300];
    bool absent;
} many;

static size_t many_count(void *self) { return sizeof((many *)self)->grads / sizeof(DLTensor); }
static DLTensor *many_grad(void *self, size_t index)
{
    many *all = self;
    return all->absent && index % 7 == 3 ? NULL : &all->grads[index];
}
static const char *many_name(void *self, size_t index)
{
    static char name[16];
    (void)self;
    snprintf(name, sizeof name, "g%zu", index); /* the scaler copies it before it asks for the next one */
    return name;
}
static gsc_status many_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)self, (void)args, (void)value, (void)has_value;
    return GSC_OK;
}

/* Every overflowed gradient is reported, in order; one that is listed twice under both indices. */
static void test_many_overflowed_gradients(void **state)
{
    (void)state;
    enum { N = 300, EACH = 3, TWIN = 200 };
    static float data[N][EACH];
    int64_t shape = EACH;
    for (int variant = 0; variant < 4; variant++) {
        bool absent = variant % 2 == 1, twin = variant / 2 == 1;
        many all = {
            .base = {.self = &all, .grad_count = many_count, .grad = many_grad, .name = many_name, .step = many_step},
            .absent = absent};
        for (size_t i = 0; i < N; i++) {
            all.grads[i] =
                (DLTensor){.data = data[i], .device = {kDLCPU, 0}, .ndim = 1, .dtype = GSC_FLOAT32, .shape = &shape};
            data[i][0] = data[i][1] = data[i][2] = 1;
            if (i < 5 || i > 190)
                data[i][i % EACH] = i % 2 == 0 ? NAN : INFINITY;
        }
        if (twin)
            all.grads[TWIN] = all.grads[1];
        gsc_scaler *scaler;
        assert_ok(gsc_scaler_create(NULL, &scaler));
        assert_ok(gsc_scaler_step(scaler, &all.base, NULL, NULL));
        gsc_overflow out[N];
        size_t count = gsc_scaler_overflows(scaler, &all.base, out, N), expected = 0;
        for (size_t i = 0; i < N; i++) {
            if ((i >= 5 && i <= 190) || (absent && i % 7 == 3))
                continue;
            size_t source = twin && i == TWIN ? 1 : i;
            assert_true(expected < count);
            assert_overflow(&out[expected++], i, many_name(&all, i), source % 2, 1 - source % 2, source % EACH);
        }
        assert_int_equal(count, expected);
        gsc_scaler_destroy(scaler);
    }
}

/* Names may change, grow and appear between overflows. */
static void test_names_that_grow(void **state)
{
    (void)state;
    static const char *const names[] = {NULL, "w", "layer.weight", "encoder.layer.7.attention.query.weight", "w"};
    rig r;
    rig_start(&r, 8);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        r.optimizer.params[0].name = names[i];
        assert_int_equal(rig_iterate(&r, INFINITY), GSC_SKIPPED_OVERFLOW);
        gsc_overflow overflow;
        assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &overflow, 1), 1);
        if (names[i])
            assert_string_equal(overflow.name, names[i]);
        else
            assert_null(overflow.name);
    }
    rig_stop(&r);
}

/* The first name appears with the first overflow, when memory for the report has been taken before. */
static void test_names_that_appear_late(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    r.optimizer.params[0].name = NULL;
    assert_int_equal(rig_iterate(&r, 1), GSC_STEPPED);
    r.optimizer.params[0].name = "w";
    assert_int_equal(rig_iterate(&r, INFINITY), GSC_SKIPPED_OVERFLOW);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &overflow, 1), 1);
    assert_string_equal(overflow.name, "w");
    rig_stop(&r);
}

/* A name that was handed out stays valid until the next overflow, even if its optimizer is forgotten or freed. */
static void test_a_name_outlives_its_optimizer(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    assert_int_equal(rig_iterate(&r, INFINITY), GSC_SKIPPED_OVERFLOW);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &overflow, 1), 1);
    float more = 0;
    fake_add(&r.optimizer, GSC_FLOAT32, &more, &more, 1, "a second parameter with a long name");
    assert_int_equal(rig_iterate(&r, 8), GSC_STEPPED);
    assert_string_equal(overflow.name, "weight");
    assert_ok(gsc_scaler_forget(r.scaler, &r.optimizer.base));
    assert_string_equal(overflow.name, "weight");
    rig_stop(&r);
}

/* case 28 */
static void test_nan_is_told_from_infinity(void **state)
{
    (void)state;
    rig r;
    rig_start_with(&r, NULL);
    for (int i = 0; i < 20; i++)
        rig_iterate(&r, NAN);
    assert_exact(gsc_scaler_get_scale(r.scaler), 0.0625);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &overflow, 1), 1);
    assert_int_equal(overflow.nan_count, 1);
    assert_int_equal(overflow.inf_count, 0);
    rig_iterate(&r, INFINITY);
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &overflow, 1), 1);
    assert_int_equal(overflow.nan_count, 0);
    assert_int_equal(overflow.inf_count, 1);
    rig_stop(&r);
}

/* More gradients need room for more names. The report moves there, and outlives the room that it leaves. */
static void test_a_report_outlives_growth_and_other_overflows(void **state)
{
    (void)state;
    rig r, other;
    rig_start(&r, 8);
    rig_start(&other, 8);
    float second = INFINITY, third = 8;
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, &second, 1, NULL);
    assert_int_equal(rig_iterate(&r, NAN), GSC_SKIPPED_OVERFLOW);
    second = 8;
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, &third, 1, "a third parameter with a long name");
    assert_int_equal(rig_iterate(&r, 8), GSC_STEPPED);
    other.grad = INFINITY;
    assert_ok(gsc_scaler_unscale(r.scaler, &other.optimizer.base));
    gsc_overflow out[2];
    assert_int_equal(overflows(&r, out, 2), 2);
    assert_overflow(&out[0], 0, "weight", 0, 1, 0);
    assert_overflow(&out[1], 1, NULL, 1, 0, 0);
    rig_stop(&other);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_name_counts_and_first_element),
        cmocka_unit_test(test_none_while_finite),
        cmocka_unit_test(test_several_gradients_and_a_small_array),
        cmocka_unit_test(test_the_name_is_a_copy),
        cmocka_unit_test(test_it_is_of_the_last_overflow),
        cmocka_unit_test(test_each_optimizer_has_its_own),
        cmocka_unit_test(test_what_only_the_division_makes_infinite),
        cmocka_unit_test(test_first_index_is_row_major),
        cmocka_unit_test(test_each_dtype_is_counted),
        cmocka_unit_test(test_a_large_gradient),
        cmocka_unit_test(test_many_overflowed_gradients),
        cmocka_unit_test(test_recorded_by_the_caller),
        cmocka_unit_test(test_names_that_grow),
        cmocka_unit_test(test_names_that_appear_late),
        cmocka_unit_test(test_a_name_outlives_its_optimizer),
        cmocka_unit_test(test_a_report_outlives_growth_and_other_overflows),
        cmocka_unit_test(test_nan_is_told_from_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
