/* SPDX-License-Identifier: Apache-2.0 */
/* Files are equal to the Python package's, and files of the package can be read. */
#define _XOPEN_SOURCE 700
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "safetensors_files.h"

static gsc_safetensors *open_file(const char *path)
{
    gsc_safetensors *file;
    assert_ok(gsc_safetensors_open(path, &file));
    return file;
}

/* resume 5 */
static void files_of_python_are_read(void **state)
{
    (void)state;
    gsc_safetensors *file = open_file(RECORDED("all.safetensors"));
    assert_recorded(file);
    gsc_safetensors_close(file);
    file = open_file(RECORDED("none.safetensors"));
    assert_int_equal(gsc_safetensors_count(file), 0);
    assert_null(gsc_safetensors_find(file, "x"));
    gsc_safetensors_close(file);
}

/* resume 5 */
static void files_written_are_those_of_python(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    const char *path = temp_path(dir, "all.safetensors");
    assert_ok(write_recorded(path));
    assert_files_equal(path, RECORDED("all.safetensors"));
    const char *none = temp_path(dir, "none.safetensors");
    assert_ok(gsc_safetensors_write(none, NULL, 0, NULL, 0));
    assert_files_equal(none, RECORDED("none.safetensors"));
    gsc_safetensors *file = open_file(path);
    assert_recorded(file);
    gsc_safetensors_close(file);
    temp_dir_remove(dir);
}

static void tensors_are_listed_in_the_order_of_the_data(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    const char *header = "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},"
                         "\"a\":{\"data_offsets\":[0,1],\"dtype\":\"U8\",\"shape\":[],\"more\":{\"x\":[1e9]}},"
                         "\"c\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[1,1]}} \n ";
    gsc_safetensors *file = open_file(write_raw(dir, header, SIZE_MAX, 3));
    assert_int_equal(gsc_safetensors_count(file), 3);
    assert_string_equal(gsc_safetensors_name(file, 0), "a");
    assert_string_equal(gsc_safetensors_name(file, 1), "c");
    assert_string_equal(gsc_safetensors_name(file, 2), "b");
    assert_int_equal(((const uint8_t *)gsc_safetensors_tensor(file, 2)->data)[1], 2);
    assert_ptr_equal(gsc_safetensors_tensor(file, 2), gsc_safetensors_find(file, "b"));
    gsc_safetensors_close(file);
    temp_dir_remove(dir);
}

/* A header of odd length, and a float64 after a byte: both are allowed, and must not lead to unaligned reads. */
static void unaligned_tensors_are_copied_aligned(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    const char *header = "{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                         "\"b\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[1,17]},"
                         "\"c\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[17,21]}}";
    for (size_t spaces = 0; spaces < 8; spaces++) {
        char padded[512];
        snprintf(padded, sizeof padded, "%s%.*s", header, (int)spaces, "        ");
        gsc_safetensors *file = open_file(write_raw(dir, padded, SIZE_MAX, 21));
        const size_t sizes[] = {1, 8, 4}, begins[] = {0, 1, 17}, ends[] = {1, 17, 21};
        for (size_t i = 0; i < 3; i++) {
            const uint8_t *data = gsc_safetensors_tensor(file, i)->data;
            assert_int_equal((uintptr_t)data % sizes[i], 0);
            for (size_t k = begins[i]; k < ends[i]; k++)
                assert_int_equal(data[k - begins[i]], k);
        }
        gsc_safetensors_close(file);
    }
    temp_dir_remove(dir);
}

static void absent_things_are_null(void **state)
{
    (void)state;
    gsc_safetensors *file = open_file(RECORDED("all.safetensors"));
    assert_null(gsc_safetensors_name(file, RECORDED_TENSORS));
    assert_null(gsc_safetensors_tensor(file, RECORDED_TENSORS));
    assert_null(gsc_safetensors_find(file, "F32"));
    assert_null(gsc_safetensors_find(file, "__metadata__"));
    assert_null(gsc_safetensors_find(file, NULL));
    assert_null(gsc_safetensors_metadata(file, 1).key);
    assert_string_equal(gsc_safetensors_metadata(file, 0).key, "made by");
    assert_null(gsc_safetensors_metadata_find(file, "made"));
    gsc_safetensors_close(file);
    assert_int_equal(gsc_safetensors_count(NULL), 0);
    assert_null(gsc_safetensors_find(NULL, "x"));
    assert_int_equal(gsc_safetensors_metadata_count(NULL), 0);
    gsc_safetensors_close(NULL);
    assert_fails(GSC_ERR_VALUE, gsc_safetensors_open(NULL, &file), "path");
    assert_fails(GSC_ERR_VALUE, gsc_safetensors_open("x", NULL), "out");
}

/* Strides of dimensions of size 1 do not matter; byte_offset does. */
static void byte_offsets_and_strides_of_single_elements_are_accepted(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    const char *path = temp_path(dir, "x.safetensors");
    int64_t shape[] = {1, 3}, strides[] = {99, 1};
    DLTensor tensor = dl_tensor(GSC_FLOAT32, f32_values, 2, shape);
    tensor.strides = strides;
    tensor.byte_offset = 2 * sizeof(float);
    assert_ok(gsc_safetensors_write(path, &(gsc_named_tensor){"x", &tensor}, 1, NULL, 0));
    gsc_safetensors *file = open_file(path);
    assert_memory_equal(gsc_safetensors_find(file, "x")->data, f32_values + 2, 3 * sizeof(float));
    gsc_safetensors_close(file);
    temp_dir_remove(dir);
}

/* The format and the Python package allow the empty name. */
static void empty_names_are_read_and_written(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    const char *header =
        "{\"__metadata__\":{\"\":\"\"},\"\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}     ";
    const char *read = write_raw(dir, header, SIZE_MAX, 2), *written = temp_path(dir, "written.safetensors");
    gsc_safetensors *file = open_file(read);
    assert_string_equal(gsc_safetensors_name(file, 0), "");
    assert_string_equal(gsc_safetensors_metadata_find(file, ""), "");
    DLTensor tensor = *gsc_safetensors_find(file, "");
    const gsc_metadata metadata = gsc_safetensors_metadata(file, 0);
    assert_ok(gsc_safetensors_write(written, &(gsc_named_tensor){"", &tensor}, 1, &metadata, 1));
    gsc_safetensors_close(file);
    assert_files_equal(written, read);
    temp_dir_remove(dir);
}

static char *refusal_path;

static void refuse(gsc_status expected, const gsc_named_tensor *tensors, size_t n, const gsc_metadata *metadata,
                   size_t m, const char *part)
{
    assert_fails(expected, gsc_safetensors_write(refusal_path, tensors, n, metadata, m), refusal_path, part);
    assert_int_equal(access(refusal_path, F_OK), -1);
}

static void refuse_tensor(gsc_status expected, DLTensor tensor, const char *part)
{
    gsc_named_tensor named = {"odd one", &tensor};
    refuse(expected, &named, 1, NULL, 0, part);
    assert_message("odd one");
}

static void content_that_no_file_can_hold_is_refused(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    refusal_path = strdup(temp_path(dir, "x.safetensors"));
    DLTensor good = dl_tensor(GSC_FLOAT32, f32_values, 2, matrix_shape);
    gsc_named_tensor named[] = {{"x", &good}, {"x", &good}};
    refuse(GSC_ERR_VALUE, named, 2, NULL, 0, "two tensors are named \"x\"");
    refuse(GSC_ERR_VALUE, NULL, 2, NULL, 0, "tensors is NULL");
    refuse(GSC_ERR_VALUE, named, 1, NULL, 1, "metadata is NULL");
    const char *const names[] = {NULL, "__metadata__", "\xff\xfe", "\xc3"};
    const char *const problems[] = {"is NULL", "__metadata__", "not UTF-8", "not UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        named[0].name = names[i];
        refuse(GSC_ERR_VALUE, named, 1, NULL, 0, problems[i]);
    }
    refuse(GSC_ERR_VALUE, &(gsc_named_tensor){"x", NULL}, 1, NULL, 0, "\"x\" is NULL");
    const gsc_metadata metadata[] = {{"k", ""}, {"k", "v"}, {NULL, "v"}, {"l", NULL}, {"l", "\xff"}};
    refuse(GSC_ERR_VALUE, NULL, 0, metadata, 2, "key \"k\"");
    refuse(GSC_ERR_VALUE, NULL, 0, metadata + 2, 1, "key is NULL");
    refuse(GSC_ERR_VALUE, NULL, 0, metadata + 3, 1, "value is NULL");
    refuse(GSC_ERR_VALUE, NULL, 0, metadata + 4, 1, "value is not UTF-8");
    assert_fails(GSC_ERR_VALUE, gsc_safetensors_write(NULL, NULL, 0, NULL, 0), "path");
    assert_fails(GSC_ERR_VALUE, gsc_safetensors_write("", NULL, 0, NULL, 0), "name of a file");
    assert_fails(GSC_ERR_VALUE, gsc_safetensors_write("x/..", NULL, 0, NULL, 0), "name of a file");
    free(refusal_path);
    temp_dir_remove(dir);
}

static void odd_tensors_are_refused(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    refusal_path = strdup(temp_path(dir, "x.safetensors"));
    const DLTensor good = dl_tensor(GSC_FLOAT32, f32_values, 2, matrix_shape);
    DLTensor odd = good;
    odd.device.device_type = kDLCUDA;
    refuse_tensor(GSC_ERR_DEVICE, odd, "copy it to the CPU");
    odd = good;
    odd.dtype.lanes = 2;
    refuse_tensor(GSC_ERR_VALUE, odd, "float32, 2 lanes");
    odd = good;
    odd.dtype.bits = 4;
    refuse_tensor(GSC_ERR_VALUE, odd, "float4,");
    odd = good;
    odd.strides = (int64_t[]){1, 2};
    refuse_tensor(GSC_ERR_VALUE, odd, "strided");
    odd = good;
    odd.data = NULL;
    refuse_tensor(GSC_ERR_VALUE, odd, "no data");
    odd = good;
    odd.shape = NULL;
    refuse_tensor(GSC_ERR_VALUE, odd, "shape NULL");
    odd = good;
    odd.ndim = -1;
    refuse_tensor(GSC_ERR_VALUE, odd, "ndim -1");
    odd = good;
    odd.shape = (int64_t[]){2, -3};
    refuse_tensor(GSC_ERR_VALUE, odd, "shape[1] -3");
    odd.shape = (int64_t[]){INT64_MAX, INT64_MAX};
    refuse_tensor(GSC_ERR_VALUE, odd, "more bytes");
    free(refusal_path);
    temp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_python_are_read),
        cmocka_unit_test(files_written_are_those_of_python),
        cmocka_unit_test(tensors_are_listed_in_the_order_of_the_data),
        cmocka_unit_test(unaligned_tensors_are_copied_aligned),
        cmocka_unit_test(absent_things_are_null),
        cmocka_unit_test(byte_offsets_and_strides_of_single_elements_are_accepted),
        cmocka_unit_test(empty_names_are_read_and_written),
        cmocka_unit_test(content_that_no_file_can_hold_is_refused),
        cmocka_unit_test(odd_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
