/* SPDX-License-Identifier: Apache-2.0 */
/* A save is killed before each of its system calls, and each call fails once: then the old checkpoint loads or the new
 * one, completely. */
#define _DEFAULT_SOURCE /* syscall */
#define _XOPEN_SOURCE 700
#include "checkpoint_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const rule_case adam = {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};

/* These definitions replace the C library's. Call number `at`, from 1, is the one that is interrupted. */
static struct {
    enum { PASS, KILL, KILL_HALFWAY, FAIL, FORK } mode;
    int at, calls;
    pid_t child; /* for FORK; it only waits */
} fuse;

enum { KILLED = 42 };

static bool fails(void)
{
    if (fuse.mode == PASS || ++fuse.calls != fuse.at)
        return false;
    if (fuse.mode == FORK) {
        fuse.child = fork();
        while (fuse.child == 0)
            pause();
        return false;
    }
    if (fuse.mode != FAIL)
        _exit(KILLED);
    errno = ENOSPC;
    return true;
}

#define IN_PLACE_OF_LIBC __attribute__((visibility("default")))

IN_PLACE_OF_LIBC ssize_t write(int descriptor, const void *data, size_t size)
{
    if (fuse.mode == KILL_HALFWAY && fuse.calls + 1 == fuse.at)
        syscall(SYS_write, descriptor, data, size / 2);
    return fails() ? -1 : syscall(SYS_write, descriptor, data, size);
}

/* No power failure is tested, so nothing needs to reach the disk. */
IN_PLACE_OF_LIBC int fsync(int descriptor)
{
    (void)descriptor;
    return fails() ? -1 : 0;
}

IN_PLACE_OF_LIBC int mkdirat(int folder, const char *path, mode_t mode)
{
    return fails() ? -1 : (int)syscall(SYS_mkdirat, folder, path, mode);
}

IN_PLACE_OF_LIBC int unlinkat(int folder, const char *path, int flags)
{
    return fails() ? -1 : (int)syscall(SYS_unlinkat, folder, path, flags);
}

IN_PLACE_OF_LIBC int symlinkat(const char *target, int folder, const char *path)
{
    return fails() ? -1 : (int)syscall(SYS_symlinkat, target, folder, path);
}

IN_PLACE_OF_LIBC int renameat(int old_folder, const char *old, int folder, const char *path)
{
    return fails() ? -1 : (int)syscall(SYS_renameat2, old_folder, old, folder, path, 0);
}

IN_PLACE_OF_LIBC int ftruncate(int descriptor, off_t size)
{
    return fails() ? -1 : (int)syscall(SYS_ftruncate, descriptor, size);
}

typedef struct fixture {
    char *dir;
    run_rig old, new; /* saved before, and being saved; with `first`, nothing was saved before */
    bool first;
} fixture;

static void fixture_create(fixture *f, bool first)
{
    *f = (fixture){.dir = temp_dir_create(), .first = first};
    rig_create(&f->old, &adam, 1);
    rig_create(&f->new, &adam, 1);
    rig_step(&f->old, 0, false);
    rig_step(&f->new, 0, false);
    if (!first)
        assert_ok(gsc_checkpoint_save(f->dir, &f->old.checkpoint));
    rig_step(&f->new, 1, true);
    f->new.checkpoint.run = "{\"step\": 8}";
}

static void fixture_free(fixture *f)
{
    rig_free(&f->old);
    rig_free(&f->new);
    temp_tree_remove(f->dir);
}

/* The plain names lead to the files of the current checkpoint. */
static void assert_plain_names_agree(const char *dir)
{
    for (size_t i = 0; i < FILES; i++) {
        char inner[64];
        struct stat plain, real;
        snprintf(inner, sizeof inner, "checkpoint/%s", file_names[i]);
        assert_int_equal(stat(temp_path(dir, file_names[i]), &plain), 0);
        assert_int_equal(stat(temp_path(dir, inner), &real), 0);
        assert_true(plain.st_ino == real.st_ino);
    }
}

/* Loads the checkpoint; returns whether it is the new one. */
static bool assert_whole(fixture *f)
{
    run_rig found, untouched;
    char *run = NULL;
    rig_create(&found, &adam, 5);
    rig_create(&untouched, &adam, 5);
    gsc_status status = gsc_checkpoint_load(f->dir, &found.checkpoint, &run);
    bool is_new = status == GSC_OK && rigs_equal(&found, &f->new);
    if (status != GSC_OK) {
        if (!f->first)
            fail_msg("the old checkpoint is lost: %s", gsc_last_error());
        assert_status(status, GSC_ERR_IO);
        assert_true(rigs_equal(&found, &untouched));
    } else {
        assert_true(is_new || (!f->first && rigs_equal(&found, &f->old)));
        assert_string_equal(run, is_new ? f->new.checkpoint.run : f->old.checkpoint.run);
        assert_plain_names_agree(f->dir);
    }
    gsc_free(run);
    rig_free(&found);
    rig_free(&untouched);
    return is_new;
}

/* false: the save ended before that call. */
static bool save_and_die(fixture *f)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(gsc_checkpoint_save(f->dir, &f->new.checkpoint) == GSC_OK ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == KILLED || WEXITSTATUS(status) == 0);
    return WEXITSTATUS(status) == KILLED;
}

static void kill_everywhere(bool first, int mode)
{
    int with_old = 0, with_new = 0;
    bool killed = true;
    for (int at = 1; killed; at++) {
        fixture f;
        fixture_create(&f, first);
        fuse.calls = 0;
        fuse.at = at;
        fuse.mode = (unsigned)mode;
        killed = save_and_die(&f);
        fuse.mode = PASS;
        bool is_new = assert_whole(&f);
        assert_true(is_new || killed);
        *(is_new ? &with_new : &with_old) += 1;
        assert_ok(gsc_checkpoint_save(f.dir, &f.new.checkpoint)); /* what was left does no harm */
        assert_true(assert_whole(&f));
        fixture_free(&f);
    }
    assert_true(with_old > 20 && with_new > 1);
}

/* resume 2 */
static void a_save_killed_anywhere_leaves_a_whole_checkpoint(void **state)
{
    (void)state;
    kill_everywhere(false, KILL);
    kill_everywhere(false, KILL_HALFWAY);
}

/* resume 2 */
static void the_first_save_killed_anywhere_leaves_none_or_a_whole_one(void **state)
{
    (void)state;
    kill_everywhere(true, KILL);
}

/* Returns how many calls make the save fail: all but those that remove old files. */
static int fail_everywhere(bool first)
{
    int failures = 0;
    bool met = true;
    for (int at = 1; met; at++) {
        fixture f;
        fixture_create(&f, first);
        fuse.calls = 0;
        fuse.at = at;
        fuse.mode = FAIL;
        gsc_status status = gsc_checkpoint_save(f.dir, &f.new.checkpoint);
        fuse.mode = PASS;
        met = fuse.calls >= at;
        failures += status != GSC_OK;
        if (status != GSC_OK) {
            assert_status(status, GSC_ERR_IO);
            assert_message(f.dir);
            assert_message("No space left");
        }
        bool is_new = assert_whole(&f);
        assert_true(is_new || status != GSC_OK);
        assert_ok(gsc_checkpoint_save(f.dir, &f.new.checkpoint));
        assert_true(assert_whole(&f));
        fixture_free(&f);
    }
    return failures;
}

/* resume 3 */
static void a_failing_call_is_reported_and_leaves_a_whole_checkpoint(void **state)
{
    (void)state;
    assert_true(fail_everywhere(false) > 15);
    assert_true(fail_everywhere(true) > 15);
}

static void a_child_forked_meanwhile_does_not_keep_the_folder_locked(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f, false);
    fuse.calls = 0;
    fuse.at = 3;
    fuse.mode = FORK;
    gsc_status first = gsc_checkpoint_save(f.dir, &f.new.checkpoint);
    fuse.mode = PASS;
    gsc_status second = gsc_checkpoint_save(f.dir, &f.new.checkpoint);
    assert_true(fuse.child > 0);
    assert_int_equal(kill(fuse.child, SIGKILL), 0);
    assert_int_equal(waitpid(fuse.child, NULL, 0), fuse.child);
    assert_ok(first);
    assert_ok(second);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_save_killed_anywhere_leaves_a_whole_checkpoint),
        cmocka_unit_test(the_first_save_killed_anywhere_leaves_none_or_a_whole_one),
        cmocka_unit_test(a_failing_call_is_reported_and_leaves_a_whole_checkpoint),
        cmocka_unit_test(a_child_forked_meanwhile_does_not_keep_the_folder_locked),
    };
    return cmocka_run_group_tests(tests, keep_folders_in_memory, NULL);
}
