/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and a scaler's state become those of rank 0, and ranks compare what they have. */
#include "rig.h"

enum { LARGE = 300000 };

static void test_broadcast(void)
{
    float *large = malloc(LARGE * sizeof *large);
    int64_t numbers[5];
    uint8_t bytes[7];
    double matrix[4][6]; /* its first 4 columns, transposed */
    int64_t n_large = LARGE, n_numbers = 5, n_bytes = 7, shape[2] = {4, 4}, strides[2] = {1, 6};
    for (int i = 0; i < LARGE; i++)
        large[i] = (float)(i + rig.rank);
    for (int i = 0; i < 7; i++)
        bytes[i] = (uint8_t)(i * 3 + rig.rank);
    for (int i = 0; i < 5; i++)
        numbers[i] = INT64_MIN + i + rig.rank;
    for (int i = 0; i < 24; i++)
        matrix[i / 6][i % 6] = i + 100 * rig.rank;
    DLTensor a = vector_of(large, GSC_FLOAT32, &n_large),
             b = vector_of(numbers, (DLDataType){kDLInt, 64, 1}, &n_numbers),
             c = vector_of(bytes, (DLDataType){kDLUInt, 8, 1}, &n_bytes), d = vector_of(matrix, GSC_FLOAT64, shape);
    d.ndim = 2;
    d.strides = strides;
    DLTensor *const list[] = {&a, &b, NULL, &c, &d};
    CHECK_OK(gsc_mpi_broadcast_tensors(rig.mpi, list, 5));
    for (int i = 0; i < LARGE; i++)
        if (large[i] != (float)i) {
            CHECK(large[i] == (float)i);
            break;
        }
    for (int i = 0; i < 7; i++)
        CHECK(bytes[i] == i * 3);
    for (int i = 0; i < 5; i++)
        CHECK(numbers[i] == INT64_MIN + i);
    for (int i = 0; i < 24; i++)
        CHECK(matrix[i / 6][i % 6] == (i % 6 < 4 ? i : i + 100 * rig.rank)); /* the other columns stay */
    free(large);
}

static void test_broadcast_errors(void)
{
    float values[4] = {1, 2, 3, (float)rig.rank};
    int64_t n = rig.rank == 1 ? 3 : 4;
    DLTensor tensor = vector_of(values, GSC_FLOAT32, &n);
    DLTensor *const list[] = {&tensor};
    if (rig.size > 1) {
        CHECK_STATUS(gsc_mpi_broadcast_tensors(rig.mpi, list, 1), GSC_ERR_COMM);
        CHECK_SAID("gsc_mpi_broadcast_tensors: the ranks' lists differ in tensor 0");
    }
    n = 4;
    if (rig.rank == 0)
        tensor.dtype.bits = 4;
    CHECK_STATUS(gsc_mpi_broadcast_tensors(rig.mpi, list, 1), rig.rank == 0 ? GSC_ERR_VALUE : GSC_ERR_COMM);
    CHECK_SAID(rig.rank == 0 ? "whole bytes" : "rank 0 refused");
    tensor.dtype.bits = 32;
    CHECK(values[3] == (float)rig.rank);
    CHECK_OK(gsc_mpi_broadcast_tensors(rig.mpi, list, 1));
    CHECK(values[3] == 0);
    CHECK_OK(gsc_mpi_broadcast_tensors(rig.mpi, NULL, 0));
}

/* The first tensor that differs is named, wherever it is; one bit is enough, also in a strided one. */
static void test_check_same(void)
{
    enum { COUNT = 9, SIZE = 100 };
    static float values[COUNT][SIZE];
    static const char *const names[COUNT] = {"a", "b", "c", NULL, "e", "f", "g", "h", "i"};
    int64_t n = SIZE, half = SIZE / 2, stride = 2;
    DLTensor tensors[COUNT], *list[COUNT];
    for (int t = 0; t < COUNT; t++) {
        for (int i = 0; i < SIZE; i++)
            values[t][i] = (float)(t * i);
        tensors[t] = vector_of(values[t], GSC_FLOAT32, &n);
        list[t] = &tensors[t];
    }
    tensors[4].shape = &half;
    tensors[4].strides = &stride;
    values[4][1] = (float)rig.rank; /* not of the view */
    CHECK_OK(gsc_mpi_check_same(rig.mpi, list, names, COUNT));
    for (int t = 0; rig.size > 1 && t < COUNT; t++) {
        const float before = values[t][98];
        const int last = rig.size - 1;
        char expected[40];
        if (rig.rank == last)
            values[t][98] = nextafterf(before, 1000000);
        snprintf(expected, sizeof expected, names[t] ? "tensor %d (%s)" : "tensor %d,", t, names[t]);
        CHECK_STATUS(gsc_mpi_check_same(rig.mpi, list, names, COUNT), GSC_ERR_COMM);
        CHECK_SAID(expected);
        CHECK_SAID("bits");
        snprintf(expected, sizeof expected, "tensor %d,", t);
        CHECK_STATUS(gsc_mpi_check_same(rig.mpi, list, NULL, COUNT), GSC_ERR_COMM);
        CHECK_SAID(expected);
        values[t][98] = before;
    }
    /* A strided view and a compact copy of it are the same; so is a tensor that is listed twice. */
    float copy[SIZE / 2];
    for (int i = 0; i < SIZE / 2; i++)
        copy[i] = values[4][2 * i];
    DLTensor compact = vector_of(copy, GSC_FLOAT32, &half);
    if (rig.rank == 0)
        list[4] = &compact;
    CHECK_OK(gsc_mpi_check_same(rig.mpi, list, names, COUNT));
    list[5] = list[4];
    CHECK_OK(gsc_mpi_check_same(rig.mpi, list, names, COUNT));
    if (rig.size > 1) {
        n = rig.rank == 0 ? SIZE : SIZE - 1;
        CHECK_STATUS(gsc_mpi_check_same(rig.mpi, list, names, COUNT), GSC_ERR_COMM);
        CHECK_SAID("tensor 0 (a)");
        CHECK_SAID("from 99 to 100");
        CHECK_STATUS(gsc_mpi_check_same(rig.mpi, list, names, rig.rank == 0 ? 0 : 1), GSC_ERR_COMM);
        CHECK_SAID("from 0 to 1");
    }
}

/* Every byte counts, also those after the last whole word. */
static void test_check_each_byte(void)
{
    uint8_t bytes[75] = {1, 2, 3};
    int64_t n = 75;
    DLTensor tensor = vector_of(bytes, (DLDataType){kDLUInt, 8, 1}, &n);
    DLTensor *const list[] = {&tensor};
    for (int i = 0; rig.size > 1 && i < 75; i++) {
        bytes[i] ^= rig.rank == 1 ? 64 : 0;
        CHECK_STATUS(gsc_mpi_check_same(rig.mpi, list, NULL, 1), GSC_ERR_COMM);
        bytes[i] ^= rig.rank == 1 ? 64 : 0;
    }
    CHECK_OK(gsc_mpi_check_same(rig.mpi, list, NULL, 1));
}

static gsc_scaler *make_scaler(double scale, bool enabled)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    gsc_scaler *scaler = NULL;
    options.init_scale = scale;
    options.enabled = enabled;
    CHECK_OK(gsc_scaler_create(&options, &scaler));
    return scaler;
}

static gsc_status set_scale_and_synchronize(gsc_scaler *scaler, DLTensor *tensor, float *value)
{
    *value = (float)rig.rank + 7;
    DLTensor *const list[] = {tensor};
    return gsc_mpi_synchronize(rig.mpi, list, 1, scaler);
}

static void test_synchronize(void)
{
    float value;
    int64_t one = 1;
    DLTensor tensor = vector_of(&value, GSC_FLOAT32, &one);
    gsc_scaler *scaler = make_scaler(1024 * (rig.rank + 1), true), *disabled = make_scaler(8, false);
    gsc_scaler_set_growth_interval(scaler, 10 + rig.rank);
    CHECK_OK(set_scale_and_synchronize(scaler, &tensor, &value));
    CHECK(value == 7 && gsc_scaler_get_scale(scaler) == 1024 && gsc_scaler_get_growth_interval(scaler) == 10);
    CHECK_OK(set_scale_and_synchronize(NULL, &tensor, &value));
    CHECK(value == 7);
    CHECK_OK(set_scale_and_synchronize(disabled, &tensor, &value));
    CHECK(value == 7);
    if (rig.size > 1) {
        /* All or nothing: a scaler that is missing, disabled, or in the middle of an iteration on the last rank. */
        const bool odd = rig.rank == rig.size - 1;
        const gsc_buffer gradient = {.data = &value, .count = 1, .dtype = GSC_FLOAT32};
        CHECK_OK(gsc_scaler_update_to(scaler, 2048 * (rig.rank + 1)));
        CHECK_STATUS(set_scale_and_synchronize(odd ? NULL : scaler, &tensor, &value), GSC_ERR_COMM);
        CHECK_SAID(odd ? "gave NULL" : "gave one");
        CHECK_STATUS(set_scale_and_synchronize(rig.rank == 0 ? disabled : scaler, &tensor, &value),
                     rig.rank == 0 ? GSC_ERR_COMM : GSC_ERR_STATE);
        if (odd)
            CHECK_OK(gsc_scaler_unscale_buffers(scaler, &value, &gradient, 1, NULL));
        CHECK_STATUS(set_scale_and_synchronize(scaler, &tensor, &value), odd ? GSC_ERR_STATE : GSC_ERR_COMM);
        CHECK(value == (float)rig.rank + 7);
        CHECK(gsc_scaler_get_scale(scaler) == 2048 * (rig.rank + 1));
        CHECK_OK(gsc_scaler_update_to(scaler, 2048 * (rig.rank + 1)));
        /* Lists of tensors that differ leave the scaler as it was. */
        one = odd ? 0 : 1;
        CHECK_STATUS(set_scale_and_synchronize(scaler, &tensor, &value), GSC_ERR_COMM);
        CHECK_SAID("lists differ in tensor 0");
        CHECK(gsc_scaler_get_scale(scaler) == 2048 * (rig.rank + 1));
        one = 1;
        CHECK_OK(set_scale_and_synchronize(scaler, &tensor, &value));
        CHECK(value == 7 && gsc_scaler_get_scale(scaler) == 2048);
    }
    gsc_scaler_destroy(scaler);
    gsc_scaler_destroy(disabled);
}

int main(int argc, char **argv)
{
    rig_start(&argc, &argv, 10, 1 << 16);
    test_broadcast();
    test_broadcast_errors();
    test_check_same();
    test_check_each_byte();
    test_synchronize();
    return rig_end();
}
