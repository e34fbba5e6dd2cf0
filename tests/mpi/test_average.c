/* SPDX-License-Identifier: Apache-2.0 */
/* Averages: the bits of sums in the order of the ranks, whatever the dtypes, sizes, strides and buckets; and lists that
 * are refused or differ. */
#include "base/dtype_kind.h"
#include "rig.h"

enum { TENSORS = 24, MOST = 70000 };

/* A tensor of the list, with this rank's values and those that all ranks must get. */
typedef struct sample {
    gsc__kind kind;
    DLTensor tensor;
    int64_t shape[3], strides[3];
    size_t count, span; /* elements; elements of the memory that it is a view of */
    char *memory, *expected;
} sample;

static void set_element(gsc__kind kind, void *data, size_t index, double value)
{
    switch (kind) {
    case GSC_F32: ((float *)data)[index] = (float)value; break;
    case GSC_F64: ((double *)data)[index] = value; break;
    case GSC_BF16: ((uint16_t *)data)[index] = gsc__f32_to_bf16((float)value); break;
    default: ((uint16_t *)data)[index] = gsc__f32_to_f16((float)value); break;
    }
}

/* Of any magnitude, subnormal in the half precisions, too, and some not finite. */
static double value_of(int rank, size_t tensor, size_t index, gsc__kind kind)
{
    uint64_t state = ((uint64_t)rank << 48) ^ ((uint64_t)tensor << 32) ^ index;
    next_random(&state);
    const double mantissa = next_random(&state) / 2147483648.0 - 1;
    const int range = kind == GSC_F16 ? 40 : 60;
    const uint32_t choice = next_random(&state);
    if (choice % 997 == 0)
        return choice % 2 ? (double)INFINITY : (double)-INFINITY;
    return ldexp(mantissa, (int)(choice % (uint32_t)range) - (kind == GSC_F16 ? 26 : 30));
}

/* What an element of all ranks becomes, by the sentence of mpi.h. */
static void set_average(const sample *s, size_t tensor, size_t index, size_t place, char *out)
{
    uint64_t element[1];
    double sum64 = 0;
    float sum32 = 0;
    for (int r = 0; r < rig.size; r++) {
        set_element(s->kind, element, 0, value_of(r, tensor, index, s->kind));
        const double value = gsc__element(s->kind, element, 0);
        sum64 = r ? sum64 + value : value;
        sum32 = r ? sum32 + (float)value : (float)value;
    }
    const double average = s->kind == GSC_F64 ? sum64 / rig.size : (double)(sum32 / (float)rig.size);
    set_element(s->kind, out, place, average);
}

static size_t place_of(const sample *s, size_t index)
{
    if (!s->tensor.strides)
        return index;
    const size_t last = (size_t)s->shape[2], middle = (size_t)s->shape[1];
    const int64_t place = (int64_t)(index % last) * s->strides[2] + (int64_t)(index / last % middle) * s->strides[1] +
                          (int64_t)(index / last / middle) * s->strides[0];
    return (size_t)place;
}

/* Compact, with gaps between rows, transposed, or each second element. */
static void lay_out(sample *s, uint64_t *state, bool large)
{
    for (int i = 0; i < 3; i++)
        s->shape[i] = 1 + next_random(state) % (large ? 40 : 7);
    s->count = (size_t)(s->shape[0] * s->shape[1] * s->shape[2]);
    s->tensor = (DLTensor){.device = {kDLCPU, 0}, .ndim = 3, .dtype = gsc__kind_dtype(s->kind), .shape = s->shape};
    int64_t pitch = s->shape[2];
    switch (next_random(state) % 4) {
    case 0: break;
    case 1:
        pitch += 3;
        s->strides[2] = 1;
        s->strides[1] = pitch;
        s->strides[0] = pitch * s->shape[1];
        s->tensor.strides = s->strides;
        break;
    case 2:
        s->strides[0] = 1;
        s->strides[1] = s->shape[0];
        s->strides[2] = s->shape[0] * s->shape[1];
        s->tensor.strides = s->strides;
        break;
    default:
        s->strides[2] = 2;
        s->strides[1] = 2 * s->shape[2];
        s->strides[0] = 2 * s->shape[2] * s->shape[1];
        s->tensor.strides = s->strides;
    }
    s->span = place_of(s, s->count - 1) + 1;
}

static void fill(sample *s, size_t tensor)
{
    const size_t size = gsc__kind_size(s->kind);
    s->memory = malloc(s->span * size + 8);
    s->expected = malloc(s->span * size + 8);
    memset(s->memory, 0x5a, s->span * size + 8); /* also in the gaps, which stay */
    memset(s->expected, 0x5a, s->span * size + 8);
    for (size_t i = 0; i < s->count; i++) {
        set_element(s->kind, s->memory, place_of(s, i), value_of(rig.rank, tensor, i, s->kind));
        set_average(s, tensor, i, place_of(s, i), s->expected);
    }
    s->tensor.data = s->memory;
}

static void check(const sample *s, size_t tensor)
{
    const size_t size = gsc__kind_size(s->kind);
    if (memcmp(s->memory, s->expected, s->span * size + 8) == 0)
        return;
    for (size_t i = 0; i < s->count; i++) {
        const size_t place = place_of(s, i);
        if (memcmp(s->memory + place * size, s->expected + place * size, size) == 0)
            continue;
        if (isnan(gsc__element(s->kind, s->memory, place)) && isnan(gsc__element(s->kind, s->expected, place)))
            continue; /* infinity - infinity: the reference's NaN is the compiler's */
        rig_fail(__LINE__);
        fprintf(stderr, "tensor %zu (%s), element %zu: %.17g, expected %.17g\n", tensor, gsc__kind_name(s->kind), i,
                gsc__element(s->kind, s->memory, place), gsc__element(s->kind, s->expected, place));
        return;
    }
}

/* How the list is handed over: at once, or in parts. */
static void average(DLTensor **list, size_t parts)
{
    if (parts == 0) {
        CHECK_OK(gsc_mpi_average_gradients(rig.mpi, list, TENSORS));
        return;
    }
    for (size_t part = 0; part < parts; part++) {
        const size_t first = TENSORS * part / parts, end = TENSORS * (part + 1) / parts;
        CHECK_OK(gsc_mpi_average_begin(rig.mpi, list + first, end - first));
        CHECK_OK(gsc_mpi_average_poll(rig.mpi));
        /* A collective between begin and end. */
        float values[1] = {(float)rig.rank};
        int64_t n = 1;
        DLTensor tensor = vector_of(values, GSC_FLOAT32, &n);
        const gsc_comm comm = gsc_mpi_comm(rig.mpi, false);
        CHECK(part % 2 || comm.allreduce_max(comm.self, &tensor, NULL) == 0);
        CHECK(part % 2 || values[0] == (float)(rig.size - 1));
        CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, NULL, 0), GSC_ERR_STATE);
        CHECK_STATUS(gsc_mpi_broadcast_tensors(rig.mpi, NULL, 0), GSC_ERR_STATE);
        CHECK_STATUS(gsc_mpi_check_same(rig.mpi, NULL, NULL, 0), GSC_ERR_STATE);
        CHECK_STATUS(gsc_mpi_synchronize(rig.mpi, NULL, 0, NULL), GSC_ERR_STATE);
    }
    CHECK_OK(gsc_mpi_average_end(rig.mpi));
}

static void test_bits(uint64_t seed, bool large, size_t parts)
{
    static sample samples[TENSORS];
    DLTensor *list[TENSORS];
    uint64_t state = seed;
    memset(samples, 0, sizeof samples);
    for (size_t i = 0; i < TENSORS; i++) {
        list[i] = NULL;
        samples[i].kind = (gsc__kind)(next_random(&state) % GSC_KINDS);
        if (next_random(&state) % 8 == 0)
            continue; /* absent */
        lay_out(&samples[i], &state, large && i % 3 == 0);
        fill(&samples[i], i);
        list[i] = &samples[i].tensor;
    }
    average(list, parts);
    for (size_t i = 0; i < TENSORS; i++) {
        if (list[i])
            check(&samples[i], i);
        free(samples[i].memory);
        free(samples[i].expected);
    }
    if (rig.size > 1)
        CHECK_OK(gsc_mpi_check_same(rig.mpi, NULL, NULL, 0));
}

/* One compact tensor of many buckets, which travels from where it is. */
static void test_one_large_tensor(DLDataType dtype, size_t count)
{
    sample s = {.kind = gsc__kind_of(dtype), .count = count, .span = count, .shape = {(int64_t)count}};
    s.tensor = vector_of(NULL, dtype, s.shape);
    fill(&s, 77);
    DLTensor *const list[] = {&s.tensor};
    CHECK_OK(gsc_mpi_average_gradients(rig.mpi, list, 1));
    check(&s, 77);
    free(s.memory);
    free(s.expected);
}

/* A tensor that is listed twice is averaged once: of three ranks, the average of the averages has other bits. */
static void test_listed_twice(void)
{
    static float values[MOST]; /* several buckets, so that the second would travel after the first */
    int64_t n = MOST;
    for (int i = 0; i < MOST; i++)
        values[i] = (float)(rig.rank + 1) * 0.1f;
    DLTensor a = vector_of(values, GSC_FLOAT32, &n), b = a;
    DLTensor *const list[] = {&a, NULL, &b};
    float sum = 0;
    for (int r = 0; r < rig.size; r++)
        sum += (float)(r + 1) * 0.1f;
    CHECK_OK(gsc_mpi_average_gradients(rig.mpi, list, 3));
    int wrong = 0;
    for (int i = 0; i < MOST; i++)
        wrong += values[i] != sum / (float)rig.size;
    CHECK(wrong == 0);
    int64_t two = 2;
    DLTensor part = vector_of(values + 1, GSC_FLOAT32, &two);
    DLTensor *const overlapping[] = {&part, &a};
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, overlapping, 2), GSC_ERR_VALUE);
    CHECK_SAID("tensors 1 and 0 share memory");
}

/* Whatever is refused on every rank. */
static void test_refusals(void)
{
    float values[12] = {1, 2, 3};
    int64_t shape[2] = {2, 3}, strides[2] = {1, 1}, n = 3;
    DLTensor good = vector_of(values, GSC_FLOAT32, &n), bad = good;
    DLTensor *const list[] = {&good, &bad};
    bad.dtype = (DLDataType){kDLInt, 32, 1};
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_VALUE);
    CHECK_SAID("tensor 1 is int32");
    bad.dtype = (DLDataType){kDLComplex, 64, 1};
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_UNSUPPORTED);
    bad = good;
    bad.device.device_type = kDLCUDA;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_DEVICE);
    bad = good;
    bad.data = NULL;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_VALUE);
    CHECK_SAID("data NULL");
    bad = good;
    bad.ndim = 2;
    bad.shape = shape;
    bad.strides = strides;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_VALUE);
    CHECK_SAID("share memory");
    strides[0] = 0;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_VALUE);
    shape[0] = -1;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_VALUE);
    CHECK_SAID("shape[0] is -1");
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, NULL, 2), GSC_ERR_VALUE);
    CHECK(values[0] == 1 && values[1] == 2);
    CHECK_OK(gsc_mpi_average_gradients(rig.mpi, NULL, 0));
    CHECK_OK(gsc_mpi_average_gradients(rig.mpi, list, 1)); /* the next call works */
}

/* Rank 1's list differs; every rank learns of it, nothing is written, and the next call works. */
static void test_differences(void)
{
    if (rig.size == 1)
        return;
    const bool odd = rig.rank == 1;
    float values[6] = {(float)rig.rank, 1, 2, 3, 4, 5};
    int64_t two = 2, four = 4, three = 3;
    DLTensor a = vector_of(values, GSC_FLOAT32, &two), b = vector_of(values + 2, GSC_FLOAT32, &four);
    DLTensor *list[] = {&a, &b, NULL};

    b.shape = odd ? &three : &four;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_COMM);
    CHECK_SAID("differ in tensor 1");
    CHECK_SAID("from 3 to 4");
    b.shape = &two;
    b.dtype = odd ? GSC_FLOAT64 : GSC_FLOAT32;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_COMM);
    CHECK_SAID("another dtype");
    b.dtype = GSC_FLOAT32;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, odd ? 2 : 3), GSC_ERR_COMM);
    CHECK_SAID("from 2 to 3");
    list[0] = odd ? NULL : &a;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), GSC_ERR_COMM);
    CHECK_SAID("differ in tensor 0");
    CHECK_SAID("absent");
    list[0] = &a;
    list[2] = odd ? &a : NULL;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 3), GSC_ERR_COMM);
    CHECK_SAID("differ in tensor 2");
    CHECK(values[0] == (float)rig.rank);

    /* A rank that refuses gets its own error. */
    b.dtype = odd ? (DLDataType){kDLInt, 32, 1} : GSC_FLOAT32;
    CHECK_STATUS(gsc_mpi_average_gradients(rig.mpi, list, 2), odd ? GSC_ERR_VALUE : GSC_ERR_COMM);
    CHECK_SAID(odd ? "int32" : "rank 1 refused");
    CHECK(values[0] == (float)rig.rank);

    /* In parts: the list that is refused is left out, the others are averaged. */
    DLTensor *second[] = {&b};
    CHECK_OK(gsc_mpi_average_begin(rig.mpi, list, 1));
    CHECK_STATUS(gsc_mpi_average_begin(rig.mpi, second, 1), odd ? GSC_ERR_VALUE : GSC_OK);
    CHECK_STATUS(gsc_mpi_average_end(rig.mpi), odd ? GSC_ERR_VALUE : GSC_ERR_COMM);
    CHECK_SAID(odd ? "int32" : "rank 1 refused");
    CHECK(values[0] == (float)(rig.size * (rig.size - 1) / 2) / (float)rig.size);
    b.dtype = GSC_FLOAT32;
    CHECK_OK(gsc_mpi_average_gradients(rig.mpi, list, 2));
    CHECK_OK(gsc_mpi_average_end(rig.mpi)); /* without a begin */
}

int main(int argc, char **argv)
{
    const size_t buckets[] = {1024, 40000, 1 << 22};
    rig_start(&argc, &argv, 10, buckets[0]);
    for (size_t i = 0; i < 3; i++) {
        if (i > 0) {
            gsc_mpi_options options = {.timeout_seconds = 20, .bucket_bytes = buckets[i]};
            gsc_mpi_free(rig.mpi);
            CHECK_OK(gsc_mpi_create(MPI_COMM_WORLD, &options, &rig.mpi));
        }
        for (uint64_t seed = 1; seed <= 4; seed++)
            test_bits(seed, seed % 2 == 0 && i > 0, seed - 1);
        test_listed_twice();
        test_one_large_tensor(GSC_FLOAT32, i == 0 ? 3001 : MOST);
        test_one_large_tensor(GSC_BFLOAT16, i == 0 ? 3001 : MOST + 1);
    }
    test_refusals();
    test_differences();
    return rig_end();
}
