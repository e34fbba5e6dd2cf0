/* SPDX-License-Identifier: Apache-2.0 */
/* Unscaling and checking on the device: every bit, verdict and count is the CPU's. */
#include "module_rig.h"
#include "standin/abi.h"

#include <float.h>

static const DLDataType all_dtypes[] = {GSC_FLOAT32_INIT, GSC_FLOAT64_INIT, GSC_BFLOAT16_INIT, GSC_FLOAT16_INIT};

/* The CPU's scaler over the same tensors. */
typedef struct on_cpu {
    gsc_optimizer optimizer;
    const twins *both;
} on_cpu;

static size_t cpu_grad_count(void *self) { return ((on_cpu *)self)->both->count; }
static DLTensor *cpu_grad(void *self, size_t index) { return ((on_cpu *)self)->both->cpu[index]; }

static gsc_status cpu_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)self, (void)args, (void)value, (void)has_value;
    return GSC_OK;
}

static void assert_reports_equal(gsc_scaler *cpu, const gsc_optimizer *a, gsc_scaler *gpu, const gsc_optimizer *b)
{
    size_t count = gsc_scaler_overflows(cpu, a, NULL, 0);
    assert_int_equal(gsc_scaler_overflows(gpu, b, NULL, 0), count);
    gsc_overflow *expected = malloc((count + 1) * sizeof *expected), *found = malloc((count + 1) * sizeof *found);
    gsc_scaler_overflows(cpu, a, expected, count);
    gsc_scaler_overflows(gpu, b, found, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(found[i].index, expected[i].index);
        assert_int_equal(found[i].inf_count, expected[i].inf_count);
        assert_int_equal(found[i].nan_count, expected[i].nan_count);
        assert_int_equal(found[i].first_index, expected[i].first_index);
        assert_int_equal(found[i].repeats, expected[i].repeats);
    }
    free(expected);
    free(found);
}

/* Steps both scalers once: plain, so that the gradients are unscaled in place, or only read. */
static void compare_step(twins *both, double scale, bool only_reads)
{
    on_cpu host = {.both = both};
    host.optimizer = (gsc_optimizer){.self = &host, .grad_count = cpu_grad_count, .grad = cpu_grad, .step = cpu_step};
    gsc_scaler *cpu = cpu_scaler(scale), *gpu = device_scaler(scale);
    gsc_step_result expected, found;
    if (only_reads) {
        host.optimizer.step_scaled = twins_step_scaled;
        host.optimizer.self = both;
        host.optimizer.grad_count = twins_grad_count;
        both->optimizer.step_scaled = twins_step_scaled;
    }
    twins_upload(both);
    if (only_reads) { /* the same optimizer's callbacks serve the CPU's tensors */
        host.optimizer.self = &host;
        host.optimizer.grad_count = cpu_grad_count;
        host.optimizer.step_scaled = NULL;
        assert_ok(gsc_scaler_unscale(cpu, &host.optimizer));
        for (size_t i = 0; i < both->count; i++) /* on the device nothing is written */
            if (both->list[i].host)
                standin_download(both->list[i].host, both->list[i].device, both->list[i].bytes);
    }
    assert_ok(gsc_scaler_step(cpu, &host.optimizer, NULL, &expected));
    assert_ok(gsc_scaler_step(gpu, &both->optimizer, NULL, &found));
    assert_ok(gsc_scaler_result(gpu, &both->optimizer, &found));
    assert_int_equal(found.outcome, expected.outcome);
    assert_exact(found.max_abs, expected.max_abs);
    assert_exact(found.scale, expected.scale);
    assert_reports_equal(cpu, &host.optimizer, gpu, &both->optimizer);
    assert_int_equal(gsc_scaler_found_inf(gpu, &both->optimizer), gsc_scaler_found_inf(cpu, &host.optimizer));
    twins_assert_equal(both);
    both->optimizer.step_scaled = NULL;
    gsc_scaler_destroy(cpu);
    gsc_scaler_destroy(gpu);
}

static const double scales[] = {1, 65536, 3, 1.0 / 1024, 0.7, (double)FLT_MIN, (double)FLT_MAX};
enum { SCALES = sizeof scales / sizeof *scales };

/* docs/numbers.md: all patterns of the 16-bit types, as they are and only read. */
/* rule 4.1 */
static void all_halves(void **state)
{
    (void)state;
    enum { PATTERNS = 65536 };
    for (size_t s = 0; s < SCALES; s++)
        for (size_t kind = 2; kind < 4; kind++)
            for (int only_reads = 0; only_reads < 2; only_reads++) {
                twins both;
                twins_init(&both);
                uint16_t *bits =
                    (void *)twins_add(&both, all_dtypes[kind], 0, 1, (int64_t[]){PATTERNS}, NULL, 2 * (s % 8));
                for (int i = 0; i < PATTERNS; i++)
                    bits[i] = (uint16_t)i;
                compare_step(&both, scales[s], only_reads);
                twins_free(&both);
            }
}

/* Float32 patterns, spread evenly: GSC_CUDA_PATTERNS in the environment says how many of the 2^32. */
/* rule 4.1 */
static void floats(void **state)
{
    (void)state;
    const char *wanted = getenv("GSC_CUDA_PATTERNS");
    const uint64_t patterns = wanted ? strtoull(wanted, NULL, 10) : 200003, piece = 1000003;
    uint32_t next = 0;
    for (uint64_t done = 0; done < patterns; done += piece) {
        const uint64_t count = patterns - done < piece ? patterns - done : piece;
        const uint32_t begin = next;
        for (size_t s = 0; s < SCALES; s++) {
            twins both;
            twins_init(&both);
            uint32_t *bits =
                (void *)twins_add(&both, GSC_FLOAT32, 0, 1, (int64_t[]){(int64_t)count}, NULL, 4 * (s % 4));
            next = begin;
            for (uint64_t i = 0; i < count; i++, next += (uint32_t)(UINT32_MAX / patterns))
                bits[i] = next;
            compare_step(&both, scales[s], false);
            twins_free(&both);
        }
    }
}

/* rule 4.1 */
static void doubles(void **state)
{
    (void)state;
    static const uint64_t special[] = {0,
                                       1,
                                       0x8000000000000000u,
                                       0x000fffffffffffffu,
                                       0x0010000000000000u,
                                       0x7fefffffffffffffu,
                                       0x7ff0000000000000u,
                                       0xfff0000000000000u,
                                       0x7ff0000000000001u,
                                       0xfff7ffffffffffffu,
                                       0x7ff8000000000000u,
                                       0x37e0000000000000u};
    enum { COUNT = 20011, SPECIAL = sizeof special / sizeof *special };
    for (size_t s = 0; s < SCALES; s++) {
        twins both;
        twins_init(&both);
        uint64_t *bits = (void *)twins_add(&both, GSC_FLOAT64, 0, 1, (int64_t[]){COUNT}, NULL, 8 * (s % 2));
        uint64_t seed = 7 + s;
        for (int i = 0; i < COUNT; i++)
            bits[i] = i < SPECIAL ? special[i] : next_random(&seed);
        compare_step(&both, scales[s], s % 2 != 0);
        twins_free(&both);
    }
}

/* Fills in elements that are finite and ordinary; every `rare`-th list has something that is not. */
static void fill(char *memory, DLDataType dtype, size_t count, uint64_t *seed, unsigned rare)
{
    for (size_t i = 0; i < count; i++) {
        const bool bad = rare != 0 && next_random(seed) % rare == 0, nan = next_random(seed) % 2 == 0;
        const double value = bad ? (nan ? (double)NAN : -(double)INFINITY) : (double)(next_random(seed) % 2000) - 1000;
        if (dtype.bits == 64)
            ((double *)(void *)memory)[i] = value;
        else if (dtype.bits == 32)
            ((float *)(void *)memory)[i] = (float)value;
        else if (bad)
            ((uint16_t *)(void *)memory)[i] =
                (uint16_t)(dtype.code == kDLBfloat ? (nan ? 0x7fc1 : 0xff80) : (nan ? 0x7e01 : 0xfc00));
        else
            ((uint16_t *)(void *)memory)[i] = (uint16_t)(0x3000 + next_random(seed) % 0x1000);
    }
}

/* Every size around that of a vector, a warp's share and an item, from every address that the element allows, all kinds
 * in one list. */
static void sizes_and_addresses(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1,  2,  3,  4,   5,   7,   8,    9,    15,   17,   31,
                                    33, 63, 65, 127, 129, 513, 1025, 4095, 4096, 4097, 8200};
    for (int only_reads = 0; only_reads < 2; only_reads++)
        for (unsigned rare = 0; rare < 5000; rare += 2500) {
            twins both;
            twins_init(&both);
            uint64_t seed = 11 + rare;
            for (size_t kind = 0; kind < 4; kind++) {
                const int64_t per_vector = 16 / (all_dtypes[kind].bits / 8), room = 8 * 40000;
                const size_t whole = both.count;
                int64_t next = per_vector;
                fill(twins_add(&both, all_dtypes[kind], 0, 1, &room, NULL, 0), all_dtypes[kind], (size_t)room, &seed,
                     rare);
                both.list[whole].shape[0] = 1;
                for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                    for (int64_t before = 0; before < per_vector && (sizes[s] < 4096 || before < 2); before++) {
                        twins_view(&both, whole, next + before, sizes[s]);
                        next += (before + sizes[s] + 2 * per_vector) / per_vector * per_vector;
                    }
                assert_true(next <= room);
            }
            compare_step(&both, 1024, only_reads != 0);
            twins_free(&both);
        }
}

/* Strides of every kind: gaps, transposed, reversed, all of them together; row-major indices in the report. */
static void strides(void **state)
{
    (void)state;
    enum { LISTS = 40, TENSORS = 12 };
    uint64_t seed = 5;
    for (int round = 0; round < LISTS; round++) {
        twins both;
        twins_init(&both);
        for (int t = 0; t < TENSORS; t++) {
            const DLDataType dtype = all_dtypes[next_random(&seed) % 4];
            int64_t shape[4], found[4], stride = (int64_t)(next_random(&seed) % 3) + 1;
            int order[4] = {0, 1, 2, 3};
            const int ndim = (int)(next_random(&seed) % 4) + 1;
            for (int d = ndim - 1; d > 0; d--) {
                const int other = (int)(next_random(&seed) % (uint64_t)(d + 1)), kept = order[d];
                order[d] = order[other];
                order[other] = kept;
            }
            for (int d = 0; d < ndim; d++) {
                shape[order[d]] = (int64_t)(next_random(&seed) % (t == 0 ? 70 : 9)) + 1;
                found[order[d]] = next_random(&seed) % 3 == 0 ? -stride : stride;
                stride = stride * shape[order[d]] + (int64_t)(next_random(&seed) % 3);
            }
            char *memory = twins_add(&both, dtype, 0, ndim, shape, found, 0);
            fill(memory, dtype, both.list[both.count - 1].bytes / (dtype.bits / 8) - 16 / (dtype.bits / 8), &seed,
                 round % 2 == 0 ? 0 : 700);
        }
        compare_step(&both, 8, round % 4 == 3);
        twins_free(&both);
    }
}

/* One launch for all of them. */
static void many_small_tensors(void **state)
{
    (void)state;
    enum { TENSORS = 10000, LENGTH = 64 };
    for (unsigned rare = 0; rare <= 20000; rare += 20000) {
        twins both;
        twins_init(&both);
        uint64_t seed = 3;
        for (int kind = 0; kind < 4; kind++) {
            const int64_t size = (int64_t)LENGTH * TENSORS / 4;
            fill(twins_add(&both, all_dtypes[kind], 0, 1, &size, NULL, 0), all_dtypes[kind], (size_t)size, &seed, rare);
            twins_cut(&both, LENGTH);
        }
        compare_step(&both, 65536, false);
        twins_free(&both);
    }
}

/* The report counts how often a gradient overflows in a row in just the same way. */
static void repeats(void **state)
{
    (void)state;
    twins both;
    twins_init(&both);
    float *first = (void *)twins_add(&both, GSC_FLOAT32, 0, 1, (int64_t[]){5}, NULL, 0);
    float *second = (void *)twins_add(&both, GSC_FLOAT32, 0, 1, (int64_t[]){5}, NULL, 0);
    for (int i = 0; i < 5; i++)
        first[i] = second[i] = 1;
    twins_upload(&both);
    gsc_scaler *gpu = device_scaler(4);
    const float inf = INFINITY, nan = NAN, one = 1;
    static const uint64_t expected[][2] = {{1, 0}, {2, 1}, {3, 1}, {0, 0}, {1, 0}};
    for (int i = 0; i < 5; i++) {
        gsc_overflow found[2] = {{0}};
        standin_upload(both.list[0].device + 2 * sizeof inf, i == 3 ? &one : &inf, sizeof inf);
        standin_upload(both.list[1].device + (i == 2 ? 1 : 0) * sizeof inf, i == 1 || i == 2 ? &nan : &one, sizeof nan);
        if (i == 3)
            standin_upload(both.list[1].device, (float[]){1, 1}, 2 * sizeof one);
        assert_ok(gsc_scaler_step(gpu, &both.optimizer, NULL, NULL));
        size_t count = gsc_scaler_overflows(gpu, &both.optimizer, found, 2);
        if (i == 3) {
            assert_false(gsc_scaler_found_inf(gpu, &both.optimizer));
        } else {
            assert_int_equal(count, expected[i][1] > 0 ? 2 : 1);
            assert_int_equal(found[0].repeats, expected[i][0]);
            if (expected[i][1] > 0)
                assert_int_equal(found[1].repeats, expected[i][1]);
        }
        assert_ok(gsc_scaler_update(gpu));
    }
    gsc_scaler_destroy(gpu);
    twins_free(&both);
}

/* Where the verdict of a check fails, what it has counted is in no later report. */
static void a_check_without_a_verdict(void **state)
{
    (void)state;
    const float inf = INFINITY, one = 1;
    gsc_overflow found[2];
    twins both;
    twins_init(&both);
    for (int i = 0; i < 2; i++)
        *(float *)(void *)twins_add(&both, GSC_FLOAT32, 0, 1, (int64_t[]){1}, NULL, 0) = 1;
    twins_upload(&both);
    gsc_scaler *gpu = device_scaler(4);
    assert_ok(gsc_scaler_unscale(gpu, &both.optimizer));
    assert_ok(gsc_scaler_update(gpu));
    standin_run_all();
    standin_upload(both.list[0].device, &inf, sizeof inf);
    standin_fail("cuLaunchKernel", 3, CUDA_ERROR_LAUNCH_FAILED); /* begin, scan, decide */
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_unscale(gpu, &both.optimizer), "decide", "CUDA_ERROR_LAUNCH_FAILED");
    standin_run_all();
    assert_ok(gsc_scaler_skip(gpu, &both.optimizer));
    assert_ok(gsc_scaler_update(gpu));
    standin_upload(both.list[0].device, &one, sizeof one);
    standin_upload(both.list[1].device, &inf, sizeof inf);
    assert_ok(gsc_scaler_step(gpu, &both.optimizer, NULL, NULL));
    assert_int_equal(gsc_scaler_overflows(gpu, &both.optimizer, found, 2), 1);
    assert_int_equal(found[0].index, 1);
    assert_ok(gsc_scaler_update(gpu));
    standin_reset_counts();
    assert_ok(gsc_scaler_step(gpu, &both.optimizer, NULL, NULL)); /* after a verdict nothing is left to clear */
    assert_int_equal(standin_count("cuMemsetD8Async"), 0);
    gsc_scaler_destroy(gpu);
    twins_free(&both);
}

/* The memory of an optimizer that was forgotten serves the next one, without waiting and without what it held. */
static void memory_of_a_forgotten_optimizer(void **state)
{
    (void)state;
    gsc_scaler *gpu = device_scaler(4);
    for (int i = 0; i < 3; i++) {
        gsc_overflow found[2];
        twins both;
        twins_init(&both);
        for (int k = 0; k < 2; k++)
            *(float *)(void *)twins_add(&both, GSC_FLOAT32, 0, 1, (int64_t[]){1}, NULL, 0) = k == 0 ? INFINITY : 1;
        twins_upload(&both);
        standin_reset_counts();
        if (i == 2) { /* the overflow is that of the memory's last owner, but not in a row with it */
            standin_upload(both.list[0].device, &(float){1}, sizeof(float));
            assert_ok(gsc_scaler_unscale(gpu, &both.optimizer));
            assert_ok(gsc_scaler_update(gpu));
            standin_run_all();
            standin_upload(both.list[0].device, &(float){INFINITY}, sizeof(float));
        }
        assert_ok(gsc_scaler_unscale(gpu, &both.optimizer));
        assert_int_equal(standin_synchronisations(), 0);
        if (i > 0)
            assert_int_equal(standin_allocations(), 0);
        if (i == 1) { /* with a verdict that nobody has asked for */
            assert_ok(gsc_scaler_forget(gpu, &both.optimizer));
            assert_int_equal(standin_synchronisations(), 0);
        } else {
            assert_int_equal(gsc_scaler_overflows(gpu, &both.optimizer, found, 2), 1);
            assert_int_equal(found[0].repeats, 1);
            assert_ok(gsc_scaler_forget(gpu, &both.optimizer));
        }
        assert_ok(gsc_scaler_update(gpu));
        standin_run_all();
        twins_free(&both);
    }
    gsc_scaler_state now;
    assert_ok(gsc_scaler_state_dict(gpu, &now));
    assert_exact(now.scale, 0.5); /* what was forgotten counts */
    gsc_scaler_destroy(gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(all_halves, assert_clean),
        cmocka_unit_test_teardown(floats, assert_clean),
        cmocka_unit_test_teardown(doubles, assert_clean),
        cmocka_unit_test_teardown(sizes_and_addresses, assert_clean),
        cmocka_unit_test_teardown(strides, assert_clean),
        cmocka_unit_test_teardown(many_small_tensors, assert_clean),
        cmocka_unit_test_teardown(repeats, assert_clean),
        cmocka_unit_test_teardown(a_check_without_a_verdict, assert_clean),
        cmocka_unit_test_teardown(memory_of_a_forgotten_optimizer, assert_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
