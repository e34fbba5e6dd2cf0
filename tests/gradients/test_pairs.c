/* SPDX-License-Identifier: Apache-2.0 */
/* Which pairs gsc__pair_check takes. */
#include <stddef.h>

#include "asserts.h"
#include "gradients/pairs.h"
#include "layouts.h"
static _Alignas(16) float memory[4096];

static gsc_status check_pair(DLDataType dtype, int64_t in_start, int64_t in_stride, int64_t out_start,
                             int64_t out_stride)
{
    const int64_t shape = 50;
    char *base = (char *)memory + 4096;
    DLTensor in = tensor_over(base + in_start * dtype.bits / 8, dtype, 1, &shape, &in_stride);
    DLTensor out = tensor_over(base + out_start * dtype.bits / 8, dtype, 1, &shape, &out_stride);
    const gsc__message_subject subject = {.api = "gsc_scaler_scale", .what = "in"};
    gsc__pair pair;
    return gsc__pair_check(&in, &out, NULL, &subject, &pair);
}

static void test_in_and_out(void **state)
{
    (void)state;
    assert_ok(check_pair(GSC_FLOAT32, 0, 1, 0, 1));   /* in place */
    assert_ok(check_pair(GSC_FLOAT32, 0, -3, 0, -3)); /* in place, backwards */
    assert_ok(check_pair(GSC_FLOAT32, 0, 1, 50, 1));  /* side by side */
    assert_ok(check_pair(GSC_FLOAT32, 0, 2, 1, 2));   /* interleaved */
    assert_ok(check_pair(GSC_FLOAT32, 0, 0, 1, 1));   /* broadcast */
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 0, 1, 1, 1), "gsc_scaler_scale: in and out overlap");
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 0, 1, 49, -1), "overlap"); /* the same, reversed */
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 0, 2, 1, 3), "overlap");
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 3, 0, 0, 1), "overlap"); /* broadcast of one that is written */
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 99, 1, 0, 0), "out has strides", "more than once");
}

/* float32 x[rows][columns]: in x[:, 0::2], out x[:, 1::2]. */
static void test_scale_of_alternating_columns(void **state)
{
    (void)state;
    for (int64_t columns = 4; columns <= 7; columns++)
        for (int64_t rows = 1; rows <= 4; rows++) {
            const int64_t shape[2] = {rows, columns / 2}, strides[2] = {columns, 2};
            DLTensor in = tensor_over(memory, GSC_FLOAT32, 2, shape, strides);
            DLTensor out = tensor_over(memory + 1, GSC_FLOAT32, 2, shape, strides);
            const gsc__message_subject subject = {.api = "gsc_scaler_scale", .what = "in"};
            gsc__pair pair;
            assert_ok(gsc__pair_check(&in, &out, NULL, &subject, &pair));
            assert_ok(gsc__pair_check(&out, &in, NULL, &subject, &pair));
            out.data = memory + 2;
            assert_fails(GSC_ERR_VALUE, gsc__pair_check(&in, &out, NULL, &subject, &pair), "overlap");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_and_out),
        cmocka_unit_test(test_scale_of_alternating_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
