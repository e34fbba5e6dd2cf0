/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that are full, read-only, removed, copied or shared. */
#define _DEFAULT_SOURCE /* flock */
#define _XOPEN_SOURCE 700
#include "checkpoint_rig.h"
#include "skipped.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

static const rule_case adam = {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};

/* A saved run, the run after further steps, and one to load into. */
typedef struct fixture {
    char *dir;
    run_rig saved, next, found;
} fixture;

static void fixture_create(fixture *f)
{
    *f = (fixture){.dir = temp_dir_create()};
    rig_create(&f->saved, &adam, 1);
    rig_create(&f->next, &adam, 1);
    rig_create(&f->found, &adam, 2);
    assert_ok(gsc_checkpoint_save(f->dir, &f->saved.checkpoint));
    rig_step(&f->next, 0, false);
}

static void fixture_free(fixture *f)
{
    rig_free(&f->saved);
    rig_free(&f->next);
    rig_free(&f->found);
    temp_tree_remove(f->dir);
}

static void assert_holds(fixture *f, const char *dir, run_rig *expected)
{
    assert_ok(gsc_checkpoint_load(dir, &f->found.checkpoint, NULL));
    assert_true(rigs_equal(&f->found, expected));
}

/* A limit on the size of files imitates a full disk. */
/* resume 3 */
static void a_full_disk_leaves_the_checkpoint(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    int failures = 0;
    gsc_status status = GSC_ERR_IO;
    for (rlim_t size = 0; status != GSC_OK; size += 64) {
        limit.rlim_cur = size;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        status = gsc_checkpoint_save(f.dir, &f.next.checkpoint);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        if (status == GSC_OK)
            break;
        failures++;
        assert_status(status, GSC_ERR_IO);
        assert_message(f.dir);
        assert_message("File too large");
        assert_holds(&f, f.dir, &f.saved);
    }
    assert_true(failures > 10);
    assert_holds(&f, f.dir, &f.next);
    signal(SIGXFSZ, SIG_DFL);
    fixture_free(&f);
}

/* A failed save removes what it has written. */
static void a_failed_save_leaves_no_files(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 512; /* the model's file fits, the optimizer's does not */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    gsc_status status = gsc_checkpoint_save(f.dir, &f.next.checkpoint);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_status(status, GSC_ERR_IO);
    assert_message("checkpoint-1/optimizer.safetensors");
    assert_int_equal(rmdir(temp_path(f.dir, "checkpoint-1")), 0); /* is empty */
    fixture_free(&f);
}

static void a_folder_that_nobody_may_write_is_reported(void **state)
{
    (void)state;
    if (access("/proc/self", F_OK) != 0)
        SKIP_BECAUSE("no /proc");
    run_rig rig;
    rig_create(&rig, &adam, 1);
    assert_fails(GSC_ERR_IO, gsc_checkpoint_save("/proc/self", &rig.checkpoint), "/proc/self/checkpoint-0");
    rig_free(&rig);
}

static void a_read_only_folder_is_reported(void **state)
{
    (void)state;
    if (geteuid() == 0)
        SKIP_BECAUSE("root may write everywhere");
    fixture f;
    fixture_create(&f);
    assert_int_equal(chmod(f.dir, 0555), 0);
    assert_fails(GSC_ERR_IO, gsc_checkpoint_save(f.dir, &f.next.checkpoint), f.dir, "Permission denied");
    assert_holds(&f, f.dir, &f.saved);
    assert_int_equal(chmod(f.dir, 0755), 0);
    fixture_free(&f);
}

static void a_removed_folder_is_reported_and_not_created_again(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    char moved[1300];
    snprintf(moved, sizeof moved, "%s-moved", f.dir);
    assert_int_equal(rename(f.dir, moved), 0);
    assert_fails(GSC_ERR_IO, gsc_checkpoint_save(f.dir, &f.next.checkpoint), f.dir, "No such file");
    assert_int_equal(access(f.dir, F_OK), -1);
    assert_holds(&f, moved, &f.saved);
    assert_int_equal(rename(moved, f.dir), 0);
    fixture_free(&f);
}

static void two_saves_at_once_do_not_mix(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    int other = open(f.dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_fails(GSC_ERR_IO, gsc_checkpoint_save(f.dir, &f.next.checkpoint), f.dir, "another process");
    assert_holds(&f, f.dir, &f.saved);
    close(other);
    assert_ok(gsc_checkpoint_save(f.dir, &f.next.checkpoint));
    assert_holds(&f, f.dir, &f.next);
    fixture_free(&f);
}

static void run(const char *format, const char *dir)
{
    char command[3000];
    snprintf(command, sizeof command, format, dir, dir);
    assert_int_equal(system(command), 0);
}

static void copies_load(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    run("cd '%s' && mkdir kept && cp -RP checkpoint checkpoint-? *.json *.safetensors kept && : '%s'", f.dir);
    assert_holds(&f, temp_path(f.dir, "kept"), &f.saved);
    run("cp -RL '%s/checkpoint' '%s/files'", f.dir);
    assert_holds(&f, temp_path(f.dir, "files"), &f.saved);
    assert_ok(gsc_checkpoint_save(temp_path(f.dir, "kept"), &f.next.checkpoint));
    assert_holds(&f, temp_path(f.dir, "kept"), &f.next);
    assert_ok(gsc_checkpoint_save(temp_path(f.dir, "files"), &f.next.checkpoint)); /* the files are replaced by links */
    assert_holds(&f, temp_path(f.dir, "files"), &f.next);
    char target[64] = "";
    assert_true(readlink(temp_path(f.dir, "files/run.json"), target, sizeof target - 1) > 0);
    assert_string_equal(target, "checkpoint/run.json");
    fixture_free(&f);
}

static void other_folders_are_not_changed(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    run("cd '%s' && mkdir copy && cp -RL checkpoint checkpoint-? *.json *.safetensors copy && : '%s'", f.dir);
    const char *copy = temp_path(f.dir, "copy");
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_save(copy, &f.next.checkpoint), copy, "another folder");
    assert_holds(&f, copy, &f.saved);
    run("ln -sfn elsewhere '%s/checkpoint' && : '%s'", f.dir);
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_save(f.dir, &f.next.checkpoint), "not a link to checkpoint-0");
    fixture_free(&f);
}

/* trial T31 */
static void a_folder_in_place_of_a_file_is_refused_before_anything_changes(void **state)
{
    (void)state;
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "scaler.json", "run.json"};
    static const char *const folders[] = {".", "checkpoint-1"}; /* the next save writes into checkpoint-1 */
    fixture f;
    fixture_create(&f);
    run("mkdir -p '%s/checkpoint-1' && : '%s'", f.dir);
    for (size_t i = 0; i < 8; i++) {
        char name[64], kept[64];
        snprintf(name, sizeof name, "%s/%s", folders[i / 4], files[i % 4]);
        snprintf(kept, sizeof kept, "%s/kept", folders[i / 4]);
        const bool was_there = rename(temp_path(f.dir, name), temp_path(f.dir, kept)) == 0;
        assert_int_equal(mkdir(temp_path(f.dir, name), 0777), 0);
        assert_fails(GSC_ERR_VALUE, gsc_checkpoint_save(f.dir, &f.next.checkpoint), f.dir, files[i % 4], "is a folder",
                     "remove or rename it");
        assert_holds(&f, f.dir, &f.saved);
        assert_int_equal(rmdir(temp_path(f.dir, name)), 0);
        if (was_there)
            assert_int_equal(rename(temp_path(f.dir, kept), temp_path(f.dir, name)), 0);
    }
    assert_ok(gsc_checkpoint_save(f.dir, &f.next.checkpoint));
    assert_holds(&f, f.dir, &f.next);
    fixture_free(&f);
}

static void only_the_last_two_checkpoints_are_kept(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    for (int i = 0; i < 5; i++)
        assert_ok(gsc_checkpoint_save(f.dir, &f.next.checkpoint));
    run("test $(ls -A '%s' | wc -l) = 7 && : '%s'", f.dir); /* four names, the link and two folders */
    run("test $(ls -A '%s/checkpoint-0' '%s/checkpoint-1' | grep -c json) = 4", f.dir);
    run("chmod -R a+rwX '%s' && test ! -e '%s/.checkpoint.tmp'", f.dir);
    fixture_free(&f);
}

static void a_file_being_written_is_not_disturbed(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    const char *path = temp_path(dir, "x.safetensors");
    int other = open(temp_path(dir, ".x.safetensors.tmp"), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_fails(GSC_ERR_IO, gsc_safetensors_write(path, NULL, 0, NULL, 0), path, "is being written");
    assert_int_equal(write(other, "leftovers that are longer", 25), 25);
    close(other); /* as if its process died */
    assert_ok(gsc_safetensors_write(path, NULL, 0, NULL, 0));
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_size, 16);
    temp_dir_remove(dir);
    assert_fails(GSC_ERR_IO, gsc_safetensors_write("/nowhere/x", NULL, 0, NULL, 0), "/nowhere");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_leaves_the_checkpoint),
        cmocka_unit_test(a_failed_save_leaves_no_files),
        cmocka_unit_test(a_folder_that_nobody_may_write_is_reported),
        cmocka_unit_test(a_read_only_folder_is_reported),
        cmocka_unit_test(a_removed_folder_is_reported_and_not_created_again),
        cmocka_unit_test(two_saves_at_once_do_not_mix),
        cmocka_unit_test(copies_load),
        cmocka_unit_test(other_folders_are_not_changed),
        cmocka_unit_test(a_folder_in_place_of_a_file_is_refused_before_anything_changes),
        cmocka_unit_test(only_the_last_two_checkpoints_are_kept),
        cmocka_unit_test(a_file_being_written_is_not_disturbed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
