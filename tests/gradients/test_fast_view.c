/* SPDX-License-Identifier: Apache-2.0 */
/* What gsc__view_fast accepts, gsc__view_check accepts with the same result. */
#include <stdint.h>

#include "asserts.h"
#include "gradients/fast_view.h"
#include "layouts.h"

static _Alignas(16) float memory[4096];

static const gsc__message_subject subject = {.api = "api", .what = "tensor"};
static const gsc__view_rules rules = {.writes = true, .allow_fp16 = false};

typedef struct random_tensor {
    int64_t shape[3], strides[3];
    DLTensor tensor;
} random_tensor;

static uint64_t below(uint64_t *seed, uint64_t n) { return next_random(seed) % n; }

/* Most members are ordinary and some are at a limit, so that nearly every pair of oddities comes up. */
static bool odd(uint64_t *seed) { return below(seed, 8) == 0; }

static DLDataType pick_dtype(uint64_t *seed)
{
    static const DLDataType ordinary[] = {{kDLFloat, 32, 1}, {kDLFloat, 64, 1}, {kDLBfloat, 16, 1}};
    static const DLDataType others[] = {{kDLFloat, 16, 1},  {kDLFloat, 32, 2}, {kDLBfloat, 16, 0}, {kDLFloat, 8, 1},
                                        {kDLBfloat, 32, 1}, {kDLInt, 64, 1},   {kDLInt, 32, 1},    {kDLComplex, 64, 1}};
    return odd(seed) ? others[below(seed, 8)] : ordinary[below(seed, 3)];
}

static int64_t pick_size(uint64_t *seed)
{
    static const int64_t others[] = {0,       1,       -1, INT64_MAX, INT64_MIN, (int64_t)1 << 39, (int64_t)1 << 40,
                                     1 << 20, 1 << 21, 2};
    return odd(seed) ? others[below(seed, 10)] : 1 + (int64_t)below(seed, 5);
}

static void *pick_data(uint64_t *seed)
{
    const uintptr_t top = 8 * sizeof(void *);
    const uintptr_t others[] = {
        0, 1, (uintptr_t)memory + 2, ((uintptr_t)1 << (top - 2)) - 64, (uintptr_t)1 << (top - 2), UINTPTR_MAX - 15};
    return odd(seed) ? (void *)others[below(seed, 6)] : (void *)(memory + 4 * below(seed, 8));
}

static uint64_t pick_offset(uint64_t *seed)
{
    static const uint64_t others[] = {1, 2, 4, 8, ((uint64_t)1 << 40) - 8, (uint64_t)1 << 40, UINT64_MAX - 7};
    return odd(seed) ? others[below(seed, 7)] : 0;
}

static void make_tensor(random_tensor *out, uint64_t *seed)
{
    static const int odd_ndims[] = {-1, INT32_MIN, 65, INT32_MAX};
    int ndim = (int)below(seed, 4);
    int64_t compact = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        out->shape[d] = pick_size(seed);
        out->strides[d] = odd(seed) ? (int64_t)below(seed, 9) - 3 : compact;
        compact = (int64_t)((uint64_t)compact * (uint64_t)out->shape[d]);
    }
    out->tensor =
        tensor_over(pick_data(seed), pick_dtype(seed), ndim, out->shape, below(seed, 2) == 0 ? out->strides : NULL);
    out->tensor.byte_offset = pick_offset(seed);
    if (odd(seed))
        out->tensor.device.device_type = kDLCUDA;
    if (below(seed, 64) == 0)
        out->tensor.shape = NULL;
    if (below(seed, 64) == 0)
        out->tensor.ndim = odd_ndims[below(seed, 4)];
}

static void test_both_make_the_same_view(void **state)
{
    (void)state;
    uint64_t seed = 29;
    int accepted = 0, left = 0, passed_on = 0;
    for (int repeat = 0; repeat < 500000; repeat++) {
        random_tensor t;
        make_tensor(&t, &seed);
        gsc__view fast, checked;
        if (!gsc__view_fast(&t.tensor, GSC_ON_CPU, &fast)) {
            left++;
            passed_on += gsc__view_check(&t.tensor, &rules, &subject, &checked) == GSC_OK;
            continue;
        }
        accepted++;
        assert_ok(gsc__view_check(&t.tensor, &rules, &subject, &checked));
        assert_ptr_equal(fast.tensor, checked.tensor);
        assert_ptr_equal(fast.start, checked.start);
        assert_int_equal(fast.count, checked.count);
        assert_int_equal(fast.kind, checked.kind);
        assert_int_equal(fast.dense, checked.dense);
        assert_true(gsc__view_unchanged(&checked, &t.tensor, GSC_ON_CPU));
    }
    /* Both paths are taken often, and much of what the fast one leaves is valid. */
    assert_in_range(accepted, 100000, 400000);
    assert_in_range(left, 100000, 400000);
    assert_in_range(passed_on, 10000, 200000);
}

/* A view is unchanged only if a new one would be the same. */
static void test_unchanged(void **state)
{
    (void)state;
    uint64_t seed = 31;
    int changed = 0;
    for (int repeat = 0; repeat < 200000; repeat++) {
        random_tensor t, u;
        make_tensor(&t, &seed);
        make_tensor(&u, &seed);
        gsc__view before, after;
        if (!gsc__view_fast(&t.tensor, GSC_ON_CPU, &before))
            continue;
        switch (below(&seed, 5)) {
        case 0: t.tensor.data = u.tensor.data; break;
        case 1: t.tensor.byte_offset = u.tensor.byte_offset; break;
        case 2: t.tensor.dtype = u.tensor.dtype; break;
        case 3: t.tensor.device = u.tensor.device; break;
        default: t.tensor.ndim = u.tensor.ndim, t.tensor.shape = u.tensor.shape, t.tensor.strides = u.tensor.strides;
        }
        bool same = gsc__view_fast(&t.tensor, GSC_ON_CPU, &after) && after.start == before.start &&
                    after.count == before.count && after.kind == before.kind;
        if (gsc__view_unchanged(&before, &t.tensor, GSC_ON_CPU))
            assert_ok(gsc__view_check(&t.tensor, &rules, &subject, &after));
        assert_int_equal(gsc__view_unchanged(&before, &t.tensor, GSC_ON_CPU), same);
        changed += !same;
    }
    assert_in_range(changed, 10000, 150000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_make_the_same_view),
        cmocka_unit_test(test_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
