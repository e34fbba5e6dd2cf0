/* SPDX-License-Identifier: Apache-2.0 */
/* Which strides overlap, in one tensor and in two, against counting. */
#include <stddef.h>
#include <string.h>

#include "asserts.h"
#include "gradients/layout.h"
#include "gradients/overlap.h"
#include "random_layouts.h"
static _Alignas(16) float memory[4096];

/* Two dimensions are decided; more only where it is simple, and never wrongly. */
static void test_self_overlap_against_counting(void **state)
{
    (void)state;
    uint64_t seed = 11;
    int overlapping = 0, undecided = 0;
    for (int repeat = 0; repeat < 20000; repeat++) {
        random_tensor t;
        make_random(&t, memory + 2048, &seed, GSC_FLOAT32, 30);
        bool expected = false, seen[4096] = {false};
        for (int64_t i = 0; i < count_of(&t.tensor); i++) {
            bool *place_of = &seen[2048 + offset_of(&t.tensor, i)];
            expected |= *place_of;
            *place_of = true;
        }
        gsc__layout layout;
        gsc__layout_collapse(&t.tensor, GSC_F32, &layout);
        gsc__overlap answer = gsc__self_overlap(&layout);
        overlapping += expected;
        if (answer == GSC_UNDECIDED && layout.ndim > 2)
            undecided++;
        else
            assert_int_equal(answer, expected ? GSC_OVERLAPPING : GSC_DISJOINT);
    }
    assert_in_range(overlapping, 2000, 18000);
    assert_in_range(undecided, 1, 5000);
}

static int64_t pick(uint64_t *seed, int64_t n) { return (int64_t)(next_random(seed) % (uint64_t)n); }

/* A compact tensor of 2 to 4 dimensions. */
static void make_compact(random_tensor *out, uint64_t *seed)
{
    int ndim = 2 + (int)pick(seed, 3);
    int64_t count = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        out->shape[d] = 2 + pick(seed, 4);
        out->strides[d] = count;
        count *= out->shape[d];
    }
    out->tensor = tensor_over(memory + 2048, GSC_FLOAT32, ndim, out->shape, out->strides);
}

static void slice(random_tensor *t, int d, int64_t first, int64_t count, int64_t step)
{
    t->tensor.data = (float *)t->tensor.data + first * t->strides[d];
    t->shape[d] = count;
    t->strides[d] *= step;
}

static void reverse(random_tensor *t, int d) { slice(t, d, t->shape[d] - 1, t->shape[d], -1); }

static void transpose(random_tensor *t, int a, int b)
{
    int64_t shape = t->shape[a], stride = t->strides[a];
    t->shape[a] = t->shape[b], t->strides[a] = t->strides[b];
    t->shape[b] = shape, t->strides[b] = stride;
}

/* Of dimension d and the last one. */
static void take_diagonal(random_tensor *t, int d)
{
    int last = --t->tensor.ndim;
    t->shape[d] = t->shape[d] < t->shape[last] ? t->shape[d] : t->shape[last];
    t->strides[d] += t->strides[last];
}

/* What frameworks make of a tensor without copying it. */
static void test_views_of_compact_tensors_are_accepted(void **state)
{
    (void)state;
    uint64_t seed = 17;
    for (int repeat = 0; repeat < 20000; repeat++) {
        random_tensor t;
        make_compact(&t, &seed);
        for (int change = 0; change < 4; change++) {
            int d = (int)pick(&seed, t.tensor.ndim), other = (int)pick(&seed, t.tensor.ndim);
            int64_t first = pick(&seed, t.shape[d]), step = 1 + pick(&seed, 3);
            switch (pick(&seed, 4)) {
            case 0: slice(&t, d, first, (t.shape[d] - first + step - 1) / step, step); break;
            case 1: reverse(&t, d); break;
            case 2: transpose(&t, d, other); break;
            default:
                if (d < t.tensor.ndim - 1)
                    take_diagonal(&t, d);
            }
        }
        gsc__layout layout;
        gsc__layout_collapse(&t.tensor, GSC_F32, &layout);
        assert_int_equal(gsc__self_overlap(&layout), GSC_DISJOINT);
    }
}

static void test_parts_of_one_tensor_are_disjoint(void **state)
{
    (void)state;
    uint64_t seed = 23;
    for (int repeat = 0; repeat < 20000; repeat++) {
        random_tensor t;
        make_compact(&t, &seed);
        int d = (int)pick(&seed, t.tensor.ndim), last = t.tensor.ndim - 1;
        int64_t half = t.shape[d] / 2;
        bool alternate = d == last && t.shape[last] % 2 == 0 && pick(&seed, 2) == 0; /* such as real and imaginary */
        random_tensor a = t, b = t;
        a.tensor.shape = a.shape, a.tensor.strides = a.strides;
        b.tensor.shape = b.shape, b.tensor.strides = b.strides;
        slice(&a, d, 0, half, alternate ? 2 : 1);
        slice(&b, d, alternate ? 1 : half, half, alternate ? 2 : 1);
        int turned = (int)pick(&seed, t.tensor.ndim), other = (int)pick(&seed, t.tensor.ndim);
        reverse(&a, turned);
        transpose(&b, turned, other);
        gsc__layout one, two;
        gsc__layout_collapse(&a.tensor, GSC_F32, &one);
        gsc__layout_collapse(&b.tensor, GSC_F32, &two);
        assert_int_equal(gsc__pair_overlap(&one, &two), GSC_DISJOINT);
        assert_int_equal(gsc__pair_overlap(&two, &one), GSC_DISJOINT);
        assert_int_equal(gsc__pair_overlap(&one, &one), GSC_OVERLAPPING);
    }
}

static void mark_bytes(const DLTensor *tensor, size_t size, char *bytes, char mark, bool *met)
{
    for (int64_t i = 0; i < count_of(tensor); i++) {
        const char *element = (const char *)tensor->data + offset_of(tensor, i) * (int64_t)size;
        for (size_t b = 0; b < size; b++) {
            char *byte = bytes + (element - (const char *)memory) + b;
            *met |= *byte != 0 && *byte != mark;
            *byte = mark;
        }
    }
}

/* trial T2 */
static void test_pair_overlap_against_counting(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16};
    const gsc__kind kinds[] = {GSC_F32, GSC_F64, GSC_BF16};
    uint64_t seed = 5;
    int met_often = 0;
    for (int repeat = 0; repeat < 20000; repeat++) {
        random_tensor a, b;
        size_t ka = next_random(&seed) % 3, kb = next_random(&seed) % 3;
        make_random(&a, memory + 2048, &seed, dtypes[ka], 20);
        make_random(&b, memory + 2048, &seed, dtypes[kb], 20);
        b.tensor.data = (char *)b.tensor.data + 8 * (next_random(&seed) % 40);
        static char bytes[sizeof memory];
        memset(bytes, 0, sizeof bytes);
        bool expected = false;
        mark_bytes(&a.tensor, gsc__kind_size(kinds[ka]), bytes, 1, &expected);
        mark_bytes(&b.tensor, gsc__kind_size(kinds[kb]), bytes, 2, &expected);
        gsc__layout one, other;
        gsc__layout_collapse(&a.tensor, kinds[ka], &one);
        gsc__layout_collapse(&b.tensor, kinds[kb], &other);
        gsc__overlap answer = expected ? GSC_OVERLAPPING : GSC_DISJOINT;
        assert_int_equal(gsc__pair_overlap(&one, &other), answer);
        assert_int_equal(gsc__pair_overlap(&other, &one), answer);
        met_often += expected;
    }
    assert_in_range(met_often, 2000, 18000);
}

static void slice_at_random(random_tensor *t, uint64_t *seed)
{
    for (int d = 0; d < t->tensor.ndim; d++) {
        int64_t first = pick(seed, t->shape[d]), step = 1 + pick(seed, 3);
        slice(t, d, first, 1 + pick(seed, (t->shape[d] - first + step - 1) / step), step);
    }
}

/* Two slices of one tensor with any steps, in all sizes: always decided. */
/* trial T2 */
static void test_slices_of_one_tensor_are_decided(void **state)
{
    (void)state;
    uint64_t seed = 29;
    int shared = 0;
    for (int repeat = 0; repeat < 20000; repeat++) {
        random_tensor t;
        make_compact(&t, &seed);
        random_tensor a = t, b = t;
        a.tensor.shape = a.shape, a.tensor.strides = a.strides;
        b.tensor.shape = b.shape, b.tensor.strides = b.strides;
        slice_at_random(&a, &seed);
        slice_at_random(&b, &seed);
        static char bytes[sizeof memory];
        memset(bytes, 0, sizeof bytes);
        bool expected = false;
        mark_bytes(&a.tensor, 4, bytes, 1, &expected);
        mark_bytes(&b.tensor, 4, bytes, 2, &expected);
        gsc__layout one, two;
        gsc__layout_collapse(&a.tensor, GSC_F32, &one);
        gsc__layout_collapse(&b.tensor, GSC_F32, &two);
        assert_int_equal(gsc__pair_overlap(&one, &two), expected ? GSC_OVERLAPPING : GSC_DISJOINT);
        shared += expected;
    }
    assert_in_range(shared, 2000, 18000);
}

/* The same in sizes that nothing could count, with any steps: never wrong, and hardly ever undecided. */
/* trial T2 */
static void test_large_slices(void **state)
{
    (void)state;
    uint64_t seed = 31;
    const int64_t size[] = {1, 2, 5, 64, 1000, 4097, 30000};
    int met = 0, undecided = 0;
    for (int repeat = 0; repeat < 20000; repeat++) {
        random_tensor t[2];
        int64_t offset[2] = {0, 0}, count = 1;
        int ndim = 2 + (int)pick(&seed, 3);
        bool expected = true; /* they share an element where they meet in every dimension */
        for (int d = ndim - 1; d >= 0; d--) {
            int64_t shape = size[pick(&seed, 7)], first[2], step[2];
            for (int v = 0; v < 2; v++) {
                first[v] = pick(&seed, shape);
                step[v] = 1 + pick(&seed, pick(&seed, 2) ? 3 : 40);
                t[v].shape[d] = 1 + pick(&seed, (shape - 1 - first[v]) / step[v] + 1);
                t[v].strides[d] = step[v] * count;
                offset[v] += first[v] * count;
            }
            bool meet = false;
            for (int64_t i = 0; i < t[0].shape[d] && !meet; i++) {
                int64_t index = first[0] + i * step[0] - first[1];
                meet = index >= 0 && index % step[1] == 0 && index / step[1] < t[1].shape[d];
            }
            expected &= meet;
            count *= shape;
        }
        gsc__layout layout[2];
        for (int v = 0; v < 2; v++) {
            t[v].tensor = tensor_over(memory, GSC_FLOAT32, ndim, t[v].shape, t[v].strides);
            t[v].tensor.byte_offset = 4 * (uint64_t)offset[v];
            gsc__layout_collapse(&t[v].tensor, GSC_F32, &layout[v]);
        }
        gsc__overlap answer = gsc__pair_overlap(&layout[0], &layout[1]);
        if (answer == GSC_UNDECIDED)
            undecided++;
        else
            assert_int_equal(answer, expected ? GSC_OVERLAPPING : GSC_DISJOINT);
        met += expected;
    }
    assert_in_range(met, 1000, 19000);
    assert_in_range(undecided, 0, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_overlap_against_counting),
        cmocka_unit_test(test_views_of_compact_tensors_are_accepted),
        cmocka_unit_test(test_parts_of_one_tensor_are_disjoint),
        cmocka_unit_test(test_pair_overlap_against_counting),
        cmocka_unit_test(test_slices_of_one_tensor_are_decided),
        cmocka_unit_test(test_large_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
