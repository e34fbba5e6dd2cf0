/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of a save and of a load fails once: the old checkpoint still loads, the objects are unchanged, and
 * the same call succeeds afterwards. */
/* out_of_memory_checkpoint shows: resume 10 */
#define _XOPEN_SOURCE 700
#include "failing.h"

#include "checkpoint_rig.h"

static const rule_case adam = {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};

/* A run after some steps. The last one overflowed, so that no part of the state has its initial value. */
static void rig_create_after(run_rig *rig, size_t seed, size_t steps)
{
    rig_create(rig, &adam, seed);
    for (size_t i = 0; i < steps; i++)
        rig_step(rig, i, i + 1 == steps);
}

static void assert_loadable(const char *dir, run_rig *expected)
{
    run_rig loaded;
    rig_create(&loaded, &adam, 300);
    assert_ok(gsc_checkpoint_load(dir, &loaded.checkpoint, NULL));
    assert_true(rigs_equal(&loaded, expected));
    rig_free(&loaded);
}

static bool save_failing(const char *dir, run_rig *before, run_rig *now, int n)
{
    assert_ok(gsc_checkpoint_save(dir, &before->checkpoint));
    failing_start(n);
    gsc_status status = gsc_checkpoint_save(dir, &now->checkpoint);
    bool failed = failing_stop();
    assert_int_equal(failed, status != GSC_OK);
    if (failed) {
        assert_out_of_memory(status);
        assert_loadable(dir, before);
        assert_ok(gsc_checkpoint_save(dir, &now->checkpoint));
    }
    assert_loadable(dir, now);
    return failed;
}

static void test_each_allocation_of_a_save(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    run_rig before, now;
    rig_create_after(&before, 1, 2);
    rig_create_after(&now, 1, 5);
    int n = 0;
    while (save_failing(dir, &before, &now, n))
        n++;
    print_message("gsc_checkpoint_save: %d allocations failed, one at a time\n", n);
    assert_true(n > 20);
    rig_free(&before);
    rig_free(&now);
    temp_tree_remove(dir);
}

static bool load_failing(const char *dir, run_rig *saved, run_rig *twin, int n)
{
    static char sentinel;
    char *run = &sentinel;
    run_rig into;
    rig_create_after(&into, 2, 3);
    failing_start(n);
    gsc_status status = gsc_checkpoint_load(dir, &into.checkpoint, &run);
    bool failed = failing_stop();
    assert_int_equal(failed, status != GSC_OK);
    if (failed) {
        assert_out_of_memory(status);
        assert_ptr_equal(run, &sentinel);
        assert_true(rigs_equal(&into, twin));
        assert_ok(gsc_checkpoint_load(dir, &into.checkpoint, &run));
    }
    assert_string_equal(run, saved->checkpoint.run);
    assert_true(rigs_equal(&into, saved));
    gsc_free(run);
    rig_free(&into);
    return failed;
}

static void test_each_allocation_of_a_load(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    run_rig saved, twin;
    rig_create_after(&saved, 1, 5);
    rig_create_after(&twin, 2, 3);
    assert_ok(gsc_checkpoint_save(dir, &saved.checkpoint));
    int n = 0;
    while (load_failing(dir, &saved, &twin, n))
        n++;
    print_message("gsc_checkpoint_load: %d allocations failed, one at a time\n", n);
    assert_true(n > 20);
    rig_free(&saved);
    rig_free(&twin);
    temp_tree_remove(dir);
}

static void test_each_allocation_of_reading_the_run(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    run_rig saved;
    rig_create_after(&saved, 1, 5);
    assert_ok(gsc_checkpoint_save(dir, &saved.checkpoint));
    int n = 0;
    for (bool failed = true; failed; n += failed) {
        static char sentinel;
        char *run = &sentinel;
        failing_start(n);
        gsc_status status = gsc_checkpoint_read_run(dir, &run);
        failed = failing_stop();
        assert_int_equal(failed, status != GSC_OK);
        if (failed) {
            assert_out_of_memory(status);
            assert_ptr_equal(run, &sentinel);
            assert_ok(gsc_checkpoint_read_run(dir, &run));
        }
        assert_string_equal(run, saved.checkpoint.run);
        gsc_free(run);
    }
    assert_true(n > 0);
    rig_free(&saved);
    temp_tree_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_of_a_save),
        cmocka_unit_test(test_each_allocation_of_a_load),
        cmocka_unit_test(test_each_allocation_of_reading_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
