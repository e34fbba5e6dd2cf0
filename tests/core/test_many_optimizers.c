/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of optimizers on one scaler: found, forgotten, made again. bench/calls measures what they cost. */
#include <malloc.h>
#include <stdlib.h>

#include "rig.h"

enum { MANY = 16000 };

typedef struct single {
    gsc_optimizer base; /* one gradient */
    DLTensor tensor;
    float grad;
    int steps;
} single;

static size_t one(void *self) { return (void)self, 1; }
static DLTensor *single_grad(void *self, size_t index) { return (void)index, &((single *)self)->tensor; }
static const char *single_name(void *self, size_t index) { return (void)self, (void)index, "a name of its own"; }
static gsc_status single_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    ((single *)self)->steps++;
    return GSC_OK;
}

static single *new_singles(size_t n)
{
    single *singles = calloc(n, sizeof *singles);
    assert_non_null(singles);
    for (size_t i = 0; i < n; i++) {
        singles[i].base = (gsc_optimizer){
            .self = &singles[i], .grad_count = one, .grad = single_grad, .name = single_name, .step = single_step};
        singles[i].tensor = tensor_of(GSC_FLOAT32, &singles[i].grad, NULL);
    }
    return singles;
}

/* trial T20 */
static void test_each_has_its_own_stage(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(8, 1000);
    gsc_scaler *scaler = new_scaler(&options);
    single *singles = new_singles(MANY);
    for (int iteration = 0; iteration < 3; iteration++) {
        for (size_t i = 0; i < MANY; i++)
            singles[i].grad = i == 777 && iteration == 1 ? INFINITY : 8;
        for (size_t i = 0; i < MANY; i++) {
            if (i % 2 == 0)
                assert_ok(gsc_scaler_unscale(scaler, &singles[i].base));
        }
        for (size_t i = 0; i < MANY; i++) {
            assert_int_equal(gsc_scaler_get_stage(scaler, &singles[i].base),
                             i % 2 == 0 ? GSC_STAGE_UNSCALED : GSC_STAGE_READY);
            assert_ok(gsc_scaler_step(scaler, &singles[i].base, NULL, NULL));
            assert_int_equal(gsc_scaler_found_inf(scaler, &singles[i].base), i == 777 && iteration == 1);
        }
        assert_fails(GSC_ERR_STATE, gsc_scaler_step(scaler, &singles[123].base, NULL, NULL), "already stepped");
        assert_ok(gsc_scaler_update(scaler));
        assert_int_equal(gsc_scaler_get_stage(scaler, &singles[123].base), GSC_STAGE_READY);
        assert_false(gsc_scaler_found_inf(scaler, &singles[777].base));
    }
    assert_exact(gsc_scaler_get_scale(scaler), 4);
    assert_int_equal(singles[776].steps, 3);
    assert_int_equal(singles[777].steps, 2);
    gsc_scaler_destroy(scaler);
    free(singles);
}

/* trial T20: those that are left are found whatever was forgotten around them. */
static void test_forgetting(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(8, 1000);
    gsc_scaler *scaler = new_scaler(&options);
    single *singles = new_singles(MANY);
    bool *known = calloc(MANY, sizeof *known);
    assert_non_null(known);
    uint64_t random = 1;
    for (int i = 0; i < 10 * MANY; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t which = (size_t)(random >> 33) % MANY;
        gsc_stage expected = known[which] ? GSC_STAGE_STEPPED : GSC_STAGE_READY;
        assert_int_equal(gsc_scaler_get_stage(scaler, &singles[which].base), expected);
        if (known[which])
            assert_ok(gsc_scaler_forget(scaler, &singles[which].base));
        else
            assert_ok(gsc_scaler_step(scaler, &singles[which].base, NULL, NULL));
        known[which] = !known[which];
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(gsc_scaler_get_stage(scaler, &singles[i].base),
                         known[i] ? GSC_STAGE_STEPPED : GSC_STAGE_READY);
        assert_ok(gsc_scaler_forget(scaler, &singles[i].base));
    }
    const gsc_scaler_state saved = state_of(scaler);
    assert_ok(gsc_scaler_load_state_dict(scaler, &saved)); /* nobody is in the middle of an iteration any more */
    gsc_scaler_destroy(scaler);
    free(known);
    free(singles);
}

/* What malloc has given out and not got back, 0 where that is not known (under a sanitizer). */
static size_t memory_in_use(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

/* trial T20 */
static void test_memory_of_forgotten_ones(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single *singles = new_singles(MANY);
    size_t before = memory_in_use();
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++)
            assert_ok(gsc_scaler_step(scaler, &singles[i].base, NULL, NULL));
        for (size_t i = 0; i < MANY; i++)
            assert_ok(gsc_scaler_forget(scaler, &singles[i].base));
    }
    assert_in_range(memory_in_use() - before, 0, 65536); /* malloc counts a few freed blocks as in use */
    gsc_scaler_destroy(scaler);
    free(singles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_has_its_own_stage),
        cmocka_unit_test(test_forgetting),
        cmocka_unit_test(test_memory_of_forgotten_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
