/* SPDX-License-Identifier: Apache-2.0 */
/* data.c: memory, values, tensors and scalers to measure with. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "data.h"

#include <string.h>
#include <sys/mman.h>

#include "must.h"

const char *bench_kind_name(gsc__kind kind)
{
    static const char *const names[GSC_KINDS] = {"float32", "float64", "bfloat16", "float16"};
    return names[kind];
}

DLDataType bench_kind_dtype(gsc__kind kind)
{
    const DLDataType dtypes[GSC_KINDS] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    return dtypes[kind];
}

void *bench_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_die("no memory for %zu bytes", bytes);
    return memory;
}

void bench_memory_free(void *memory, size_t bytes) { munmap(memory, bytes); }

/* The bits of the number 1, of the mantissa and of the sign. */
static const struct {
    uint64_t one, mantissa, sign;
} kind_bits[GSC_KINDS] = {
    [GSC_F32] = {0x3f800000u, 0x7fffffu, 0x80000000u},
    [GSC_F64] = {0x3ff0000000000000u, 0xfffffffffffffu, 0x8000000000000000u},
    [GSC_BF16] = {0x3f80u, 0x7fu, 0x8000u},
    [GSC_F16] = {0x3c00u, 0x3ffu, 0x8000u},
};

static void set_bits(gsc__kind kind, void *data, size_t index, uint64_t bits)
{
    size_t size = gsc__kind_size(kind);
    uint16_t bits16 = (uint16_t)bits;
    uint32_t bits32 = (uint32_t)bits;
    memcpy((char *)data + index * size, size == 2 ? (void *)&bits16 : size == 4 ? (void *)&bits32 : &bits, size);
}

void bench_fill(gsc__kind kind, void *data, size_t n)
{
    enum { PERIOD = 4093 }; /* the values repeat; a prime, so that rows of matrices differ */
    uint64_t state = 1;
    size_t filled = 0;
    for (; filled < n && filled < PERIOD; filled++) {
        state = state * 6364136223846793005u + 1442695040888963407u; /* MMIX, Knuth */
        uint64_t random = state >> 32 | state << 32;
        set_bits(kind, data, filled,
                 kind_bits[kind].one | (random & (kind_bits[kind].mantissa | kind_bits[kind].sign)));
    }
    while (filled < n) {
        size_t more = filled < n - filled ? filled : n - filled;
        memcpy((char *)data + filled * gsc__kind_size(kind), data, more * gsc__kind_size(kind));
        filled += more;
    }
}

void *bench_store_data(bench_store *store)
{
    if (!store->data) {
        store->data = bench_memory(store->bytes);
        bench_fill(store->kind, store->data, store->bytes / gsc__kind_size(store->kind));
    }
    return store->data;
}

void bench_store_free(bench_store *store)
{
    if (store->data)
        bench_memory_free(store->data, store->bytes);
}

void bench_set_special(gsc__kind kind, void *data, size_t index, bench_special what)
{
    uint64_t infinity = gsc__kind_infinity(kind), nan = infinity | infinity >> 1; /* quiet */
    set_bits(kind, data, index, what == BENCH_ONE ? kind_bits[kind].one : what == BENCH_NAN ? nan : infinity);
}

void bench_tensor_matrix(bench_tensor *tensor, gsc__kind kind, void *data, int64_t rows, int64_t columns,
                         int64_t row_stride, int64_t column_stride)
{
    *tensor = (bench_tensor){.shape = {rows, columns}, .strides = {row_stride, column_stride}};
    tensor->tensor = (DLTensor){.data = data,
                                .device = {kDLCPU, 0},
                                .ndim = 2,
                                .dtype = bench_kind_dtype(kind),
                                .shape = tensor->shape,
                                .strides = tensor->strides};
}

void bench_tensor_flat(bench_tensor *tensor, gsc__kind kind, void *data, size_t n)
{
    bench_tensor_matrix(tensor, kind, data, (int64_t)n, 1, 1, 1);
    tensor->tensor.ndim = 1;
    tensor->tensor.strides = NULL;
}

void bench_unscale_tensor(void *ctx)
{
    bench_tensor *tensor = ctx;
    DLTensor *list[] = {&tensor->tensor};
    bool found_inf;
    bench_must(gsc_unscale_grads(list, 1, tensor->turn++ % 2 == 0 ? 2.0 : 0.5, &found_inf));
}

void bench_scalers_create(bench_scalers *scalers)
{
    *scalers = (bench_scalers){0};
    for (int i = 0; i < 2; i++) {
        gsc_scaler_options options = gsc_scaler_options_default();
        options.init_scale = options.min_scale = options.max_scale = i == 0 ? 2.0 : 0.5;
        options.allow_fp16_grads = true;
        bench_must(gsc_scaler_create(&options, &scalers->pair[i]));
    }
}

void bench_scalers_destroy(bench_scalers *scalers)
{
    gsc_scaler_destroy(scalers->pair[0]);
    gsc_scaler_destroy(scalers->pair[1]);
}

gsc_scaler *bench_scalers_next(bench_scalers *scalers) { return scalers->pair[scalers->turn++ % 2]; }

gsc_status bench_no_step(void *ctx)
{
    (void)ctx;
    return GSC_OK;
}
