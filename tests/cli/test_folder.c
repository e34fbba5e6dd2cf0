/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a new run survives a power failure, since its parent is synced. Changes by others to the folder of a
 * running run are reported, and their files are not replaced. */
#define _DEFAULT_SOURCE /* syscall */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "asserts.h"
#include "temp_dir.h"
#include "train/metrics.h"
#include "train/output.h"

/* This definition replaces the C library's. */
static struct {
    struct stat watched; /* the folder whose syncs count */
    int syncs, error;    /* error: their errno; 0: they succeed */
} disk;

__attribute__((visibility("default"))) int fsync(int descriptor)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0 || about.st_dev != disk.watched.st_dev || about.st_ino != disk.watched.st_ino)
        return (int)syscall(SYS_fsync, descriptor);
    disk.syncs++;
    errno = disk.error;
    return disk.error ? -1 : 0;
}

static void watch(const char *dir, int error)
{
    disk.syncs = 0;
    disk.error = error;
    assert_int_equal(stat(dir, &disk.watched), 0);
}

static void create(const char *path)
{
    output out;
    assert_ok(output_create(path, &out));
    output_close(&out);
}

static void the_parent_of_a_new_folder_is_synced(void **state)
{
    (void)state;
    char *above = temp_dir_create(), before[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(above), 0);
    assert_int_equal(mkdir("inner", 0777), 0);
    assert_int_equal(symlink("inner", "link"), 0);
    char *const paths[] = {"relative", "./slashes//", strdup(temp_path(above, "absolute"))};
    for (size_t i = 0; i < 3; i++) {
        watch(".", 0);
        create(paths[i]);
        assert_int_equal(disk.syncs, 1);
        create(paths[i]); /* exists already */
        assert_int_equal(disk.syncs, 1);
    }
    watch("inner", 0);
    create("link/deeper");
    assert_int_equal(disk.syncs, 1);
    assert_int_equal(chdir(before), 0);
    free(paths[2]);
    assert_int_equal(remove(temp_path(above, "link")), 0);
    const char *const made[] = {"relative", "slashes", "absolute", "inner/deeper"};
    for (size_t i = 0; i < 4; i++)
        temp_dir_remove(strdup(temp_path(above, made[i])));
    temp_dir_remove(above);
}

/* Some file systems cannot sync folders: EINVAL. */
static void a_failed_sync_is_reported(void **state)
{
    (void)state;
    char *above = temp_dir_create();
    output out;
    watch(above, EIO);
    assert_fails(GSC_ERR_IO, output_create(temp_path(above, "a"), &out), "--out", above, "cannot be synced");
    watch(above, EINVAL);
    create(temp_path(above, "b"));
    assert_int_equal(disk.syncs, 1);
    assert_int_equal(rmdir(temp_path(above, "a")), 0);
    temp_dir_remove(strdup(temp_path(above, "b")));
    temp_dir_remove(above);
}

static void removed_or_replaced_metrics_are_reported(void **state)
{
    (void)state;
    char *above = temp_dir_create();
    char *dir = strdup(temp_path(above, "run")), *other = strdup(temp_path(above, "other"));
    char *file = strdup(temp_path(dir, "metrics.jsonl")), *away = strdup(temp_path(above, "away"));
    output out;
    watch("/", 0);
    assert_ok(output_create(dir, &out));
    assert_ok(metrics_sync(&out.metrics));

    assert_int_equal(rename(file, away), 0);
    assert_fails(GSC_ERR_IO, metrics_sync(&out.metrics), file, "removed or replaced", "--resume");
    temp_write(dir, "metrics.jsonl", "", 0);
    assert_fails(GSC_ERR_IO, metrics_sync(&out.metrics), file, "removed or replaced");
    assert_int_equal(rename(away, file), 0);
    assert_ok(metrics_sync(&out.metrics));

    assert_int_equal(rename(dir, other), 0);
    assert_fails(GSC_ERR_IO, metrics_sync(&out.metrics), file, "removed or replaced");
    create(dir);
    assert_fails(GSC_ERR_IO, metrics_sync(&out.metrics), file, "removed or replaced");
    temp_dir_remove(dir);
    assert_int_equal(symlink(other, temp_path(above, "run")), 0); /* a link to its new place leads to the same file */
    assert_ok(metrics_sync(&out.metrics));

    assert_int_equal(remove(temp_path(above, "run")), 0);
    output_close(&out);
    temp_dir_remove(other);
    temp_dir_remove(above);
    free(file);
    free(away);
}

/* A checkpoint that no link leads to, or folders of something else with these names. */
static void files_in_the_folders_of_checkpoints_are_not_replaced(void **state)
{
    (void)state;
    static const char *const folders[] = {"checkpoint-0", "checkpoint-1"};
    static const char *const files[] = {"run.json", "model.safetensors", "optimizer.safetensors", "scaler.json"};
    output out;
    for (size_t i = 0; i < 2; i++) {
        char *dir = temp_dir_create(), *inner = strdup(temp_path(dir, folders[i]));
        assert_int_equal(mkdir(inner, 0777), 0);
        for (size_t k = 0; k < 4; k++) {
            temp_write(inner, files[k], "", 0);
            assert_fails(GSC_ERR_VALUE, output_create(dir, &out), "--out", dir, folders[i], files[k], "already");
            assert_int_equal(remove(temp_path(inner, files[k])), 0);
        }
        create(dir);
        temp_write(inner, files[1], "", 0); /* with metrics: an incomplete first checkpoint */
        create(dir);
        temp_write(inner, files[0], "", 0); /* a complete one without its link */
        assert_fails(GSC_ERR_VALUE, output_create(dir, &out), dir, folders[i], files[0], "already", "another folder");
        temp_dir_remove(inner);
        temp_dir_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parent_of_a_new_folder_is_synced),
        cmocka_unit_test(a_failed_sync_is_reported),
        cmocka_unit_test(removed_or_replaced_metrics_are_reported),
        cmocka_unit_test(files_in_the_folders_of_checkpoints_are_not_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
