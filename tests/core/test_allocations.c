/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 15: scale, unscale, step and update allocate nothing once an optimizer has been seen at its size; and when an
 * allocation fails, nothing is lost. The program's own malloc, calloc and realloc count and can fail. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>

#include "rig.h"
#include "skipped.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define HAVE_INTERPOSITION 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HAVE_INTERPOSITION 0
#endif
#endif
#if !defined(HAVE_INTERPOSITION)
#define HAVE_INTERPOSITION 1
#endif

#if HAVE_INTERPOSITION

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static atomic_int allocations;
static atomic_int until_failure = -1; /* that many allocations succeed, then one fails; negative: none does */

static bool fails(void)
{
    atomic_fetch_add(&allocations, 1);
    return atomic_load(&until_failure) >= 0 && atomic_fetch_sub(&until_failure, 1) == 0;
}

/* The build hides symbols, but the libraries must use these. */
#pragma GCC visibility push(default)
void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *memory, size_t size) { return fails() ? NULL : __libc_realloc(memory, size); }
#pragma GCC visibility pop

enum { LARGE = 300000, SMALL = 3 };
static float large[LARGE], small[SMALL];
static uint16_t half[SMALL];
static float transposed[6];
static int64_t matrix[] = {2, 3}, column_major[] = {1, 2};

typedef struct scene {
    gsc_scaler *scaler;
    fake_optimizer optimizer;
} scene;

static void fill(float value)
{
    for (int i = 0; i < LARGE; i++)
        large[i] = value;
    for (int i = 0; i < SMALL; i++) {
        small[i] = value;
        half[i] = to_bf16((double)value);
    }
    for (int i = 0; i < 6; i++)
        transposed[i] = value;
}

static void start(scene *s, bool fused)
{
    gsc_scaler_options options = options_of(8, 2);
    s->scaler = new_scaler(&options);
    fake_init(&s->optimizer);
    s->optimizer.base.step_scaled = fused ? fake_step_scaled : NULL;
    fake_add(&s->optimizer, GSC_FLOAT32, NULL, large, LARGE, "large");
    fake_add(&s->optimizer, GSC_FLOAT32, NULL, small, SMALL, "small");
    fake_add(&s->optimizer, GSC_BFLOAT16, NULL, half, SMALL, "half");
    fake_add(&s->optimizer, GSC_FLOAT32, NULL, small, SMALL, "small again");
    DLTensor *grad = &fake_add(&s->optimizer, GSC_FLOAT32, NULL, transposed, 1, "transposed")->grad;
    grad->ndim = 2;
    grad->shape = matrix;
    grad->strides = column_major;
}

static void iterate(scene *s, double clip_norm, double p, bool unscale_first)
{
    float loss = 1;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &loss, NULL);
    gsc_step_args args = {.clip_norm = clip_norm, .clip_norm_type = p};
    assert_ok(gsc_scaler_scale(s->scaler, &tensor, &tensor));
    if (unscale_first)
        assert_ok(gsc_scaler_unscale(s->scaler, &s->optimizer.base));
    assert_ok(gsc_scaler_step(s->scaler, &s->optimizer.base, &args, NULL));
    assert_ok(gsc_scaler_update(s->scaler));
}

/* rule 13.1, 15.3 */
static void test_no_allocation_after_the_first_iteration(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        for (int clip = 0; clip < 4; clip++) {
            for (int unscale_first = 0; unscale_first < 2; unscale_first++) {
                static const double ps[] = {0, 2, 3, (double)INFINITY};
                double clip_norm = clip == 0 ? 0 : 1;
                scene s;
                start(&s, fused != 0);
                fill(8);
                iterate(&s, clip_norm, ps[clip], unscale_first != 0);
                atomic_store(&allocations, 0);
                for (int i = 0; i < 4; i++) {
                    fill(i == 2 ? INFINITY : 8); /* the first overflow is among them */
                    iterate(&s, clip_norm, ps[clip], unscale_first != 0);
                    assert_int_equal(atomic_load(&allocations), 0);
                }
                gsc_scaler_destroy(s.scaler);
            }
        }
    }
}

/* Every allocation of an iteration fails once: GSC_ERR_MEMORY, nothing touched, and the same call succeeds later. */
/* rule 15.3 */
static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        int failures = 0;
        for (int n = 0;; n++) {
            scene s;
            start(&s, fused != 0);
            fill(8);
            gsc_step_args args = {.clip_norm = 1};
            atomic_store(&until_failure, n);
            gsc_status status = gsc_scaler_step(s.scaler, &s.optimizer.base, &args, NULL);
            bool failed = atomic_exchange(&until_failure, -1) < 0;
            if (failed && status != GSC_OK) { /* the pool can run without threads */
                failures++;
                assert_status(status, GSC_ERR_MEMORY);
                assert_true(strlen(gsc_last_error()) > 0);
                assert_exact((double)large[7], 8);
                assert_exact((double)small[0], 8);
                assert_int_equal(gsc_scaler_get_stage(s.scaler, &s.optimizer.base), GSC_STAGE_READY);
                assert_int_equal(s.optimizer.steps + s.optimizer.scaled_steps, 0);
                iterate(&s, 1, 2, false);
            }
            assert_int_equal(s.optimizer.steps + s.optimizer.scaled_steps, 1);
            gsc_scaler_destroy(s.scaler);
            if (!failed)
                break;
        }
        assert_true(failures >= 2);
    }
}

static gsc_status do_nothing(void *ctx)
{
    (void)ctx;
    return GSC_OK;
}

/* rule 15.3 */
static void test_creation_may_fail(void **state)
{
    (void)state;
    gsc_scaler *scaler = NULL;
    atomic_store(&until_failure, 0);
    gsc_status status = gsc_scaler_create(NULL, &scaler);
    atomic_store(&until_failure, -1);
    assert_status(status, GSC_ERR_MEMORY);
    assert_null(scaler);
    gsc_optimizer *optimizer = NULL;
    const gsc_buffer buffer = {.data = small, .count = SMALL, .dtype = GSC_FLOAT32, .name = "small"};
    atomic_store(&until_failure, 0);
    status = gsc_optimizer_from_buffers(&buffer, 1, do_nothing, NULL, &optimizer);
    atomic_store(&until_failure, -1);
    assert_status(status, GSC_ERR_MEMORY);
    assert_null(optimizer);
}

#else

/* rule 13.1, 15.3 */
static void test_no_allocation_after_the_first_iteration(void **state)
{
    (void)state;
    SKIP_BECAUSE("allocations of a sanitized build cannot be made to fail");
}

/* rule 15.3 */
static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    SKIP_BECAUSE("allocations of a sanitized build cannot be made to fail");
}

/* rule 15.3 */
static void test_creation_may_fail(void **state)
{
    (void)state;
    SKIP_BECAUSE("allocations of a sanitized build cannot be made to fail");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_allocation_after_the_first_iteration),
        cmocka_unit_test(test_each_allocation_may_fail),
        cmocka_unit_test(test_creation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
