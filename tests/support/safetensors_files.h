/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_files.h: the tensors that recorded/record-safetensors writes, and files made byte by byte. The test
 * defines _XOPEN_SOURCE 700 before its first include and includes cmocka first. */
#ifndef GSC_TESTS_SAFETENSORS_FILES_H
#define GSC_TESTS_SAFETENSORS_FILES_H

#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "gradscaler/safetensors.h"
#include "gradscaler/tensor.h"
#include "temp_dir.h"

#define RECORDED(name) GSC_SOURCE_DIR "/tests/train/io/recorded/" name

enum { RECORDED_TENSORS = 17, RECORDED_ELEMENTS = 6 };

/* 0 to 5 in each dtype. */
static const uint8_t u8_values[] = {0, 1, 2, 3, 4, 5}, bool_values[] = {0, 1, 1, 1, 1, 1};
static const uint16_t u16_values[] = {0, 1, 2, 3, 4, 5};
static const uint16_t f16_values[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};
static const uint16_t bf16_values[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0};
static const uint32_t u32_values[] = {0, 1, 2, 3, 4, 5};
static const uint64_t u64_values[] = {0, 1, 2, 3, 4, 5};
static const float f32_values[] = {0, 1, 2, 3, 4, 5}, c64_values[] = {0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0};
static const double f64_values[] = {0, 1, 2, 3, 4, 5};
static const float scalar_value[] = {-1.5f};
static const uint8_t umlaut_value[] = {7};

static int64_t matrix_shape[] = {2, 3}, empty_shape[] = {0, 4}, one_shape[] = {1};

typedef struct recorded_tensor {
    const char *name;
    DLDataType dtype;
    const void *data;
    size_t bytes;
    int32_t ndim;
    int64_t *shape;
} recorded_tensor;

#define MATRIX(name, code, bits, values)                                                                               \
    {                                                                                                                  \
        name, {code, bits, 1}, values, RECORDED_ELEMENTS *(bits) / 8, 2, matrix_shape                                  \
    }

static const recorded_tensor recorded_tensors[RECORDED_TENSORS] = {
    MATRIX("bool", 6, 8, bool_values),
    MATRIX("u8", kDLUInt, 8, u8_values),
    MATRIX("i8", kDLInt, 8, u8_values),
    MATRIX("i16", kDLInt, 16, u16_values),
    MATRIX("u16", kDLUInt, 16, u16_values),
    MATRIX("f16", kDLFloat, 16, f16_values),
    MATRIX("bf16", kDLBfloat, 16, bf16_values),
    MATRIX("i32", kDLInt, 32, u32_values),
    MATRIX("u32", kDLUInt, 32, u32_values),
    MATRIX("f32", kDLFloat, 32, f32_values),
    MATRIX("c64", kDLComplex, 64, c64_values),
    MATRIX("f64", kDLFloat, 64, f64_values),
    MATRIX("i64", kDLInt, 64, u64_values),
    MATRIX("u64", kDLUInt, 64, u64_values),
    {"scalar", {kDLFloat, 32, 1}, scalar_value, 4, 0, NULL},
    {"empty", {kDLFloat, 32, 1}, NULL, 0, 2, empty_shape},
    {"größe \"0\"\\\n", {kDLInt, 8, 1}, umlaut_value, 1, 1, one_shape},
};

static inline DLTensor dl_tensor(DLDataType dtype, const void *data, int32_t ndim, int64_t *shape)
{
    return (DLTensor){
        .data = (void *)(uintptr_t)data, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = shape};
}

/* The file holds exactly the recorded tensors. */
static inline void assert_recorded(const gsc_safetensors *file)
{
    assert_int_equal(gsc_safetensors_count(file), RECORDED_TENSORS);
    for (size_t i = 0; i < RECORDED_TENSORS; i++) {
        const recorded_tensor *expected = &recorded_tensors[i];
        const DLTensor *found = gsc_safetensors_find(file, expected->name);
        assert_non_null(found);
        assert_int_equal(found->dtype.code, expected->dtype.code);
        assert_int_equal(found->dtype.bits, expected->dtype.bits);
        assert_int_equal(found->dtype.lanes, 1);
        assert_int_equal(found->device.device_type, kDLCPU);
        assert_null(found->strides);
        assert_int_equal(found->byte_offset, 0);
        assert_int_equal(found->ndim, expected->ndim);
        if (expected->ndim > 0)
            assert_memory_equal(found->shape, expected->shape, (size_t)expected->ndim * sizeof(int64_t));
        assert_true(expected->bytes > 0 ? found->data != NULL : found->data == NULL);
        if (expected->bytes > 0)
            assert_memory_equal(found->data, expected->data, expected->bytes);
    }
    assert_int_equal(gsc_safetensors_metadata_count(file), 1);
    assert_string_equal(gsc_safetensors_metadata_find(file, "made by"), "gradscaler");
}

/* Writes the recorded tensors, which gives recorded/all.safetensors. */
static inline gsc_status write_recorded(const char *path)
{
    DLTensor tensors[RECORDED_TENSORS];
    gsc_named_tensor named[RECORDED_TENSORS];
    for (size_t i = 0; i < RECORDED_TENSORS; i++) {
        const recorded_tensor *from = &recorded_tensors[i];
        tensors[i] = dl_tensor(from->dtype, from->data, from->ndim, from->shape);
        named[i] = (gsc_named_tensor){from->name, &tensors[i]};
    }
    return gsc_safetensors_write(path, named, RECORDED_TENSORS, &(gsc_metadata){"made by", "gradscaler"}, 1);
}

/* Writes a file with this header and `data_size` bytes of data, 0, 1, 2 …; header_size: the length that it claims for
 * the header, SIZE_MAX: the true one. */
static inline const char *write_raw(const char *dir, const char *header, size_t header_size, size_t data_size)
{
    size_t length = strlen(header);
    uint64_t claimed = header_size == SIZE_MAX ? length : header_size;
    uint8_t *bytes = malloc(sizeof claimed + length + data_size);
    assert_non_null(bytes);
    memcpy(bytes, &claimed, sizeof claimed);
    memcpy(bytes + sizeof claimed, header, length);
    for (size_t i = 0; i < data_size; i++)
        bytes[sizeof claimed + length + i] = (uint8_t)i;
    const char *path = temp_write(dir, "raw.safetensors", bytes, sizeof claimed + length + data_size);
    free(bytes);
    return path;
}

/* Reads a whole file; free() it. */
static inline uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long end = ftell(file);
    assert_true(end >= 0);
    *size = (size_t)end;
    rewind(file);
    uint8_t *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static inline void assert_files_equal(const char *path, const char *expected)
{
    size_t size, expected_size;
    uint8_t *bytes = read_file(path, &size), *expected_bytes = read_file(expected, &expected_size);
    assert_int_equal(size, expected_size);
    assert_memory_equal(bytes, expected_bytes, size);
    free(bytes);
    free(expected_bytes);
}

#endif
