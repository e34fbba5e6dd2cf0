/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a new run outlasts a power failure: the folder above it, which has its name, is synced. */
#define _DEFAULT_SOURCE /* syscall */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "expect.h"
#include "output.h"
#include "temp_dir.h"

/* The program's definition takes the place of the C library's. */
static struct {
    struct stat watched; /* the folder whose syncs count */
    int syncs, error;    /* errno of each of them; 0: they succeed */
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
    expect_ok(output_create(path, &out));
    output_close(&out);
}

static void a_folder_that_is_made_is_synced_into_the_one_above(void **state)
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
        create(paths[i]); /* is there already */
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

/* Some file systems sync no folders and say EINVAL. */
static void a_sync_that_fails_is_told(void **state)
{
    (void)state;
    char *above = temp_dir_create();
    output out;
    watch(above, EIO);
    expect_error(GSC_ERR_IO, output_create(temp_path(above, "a"), &out), "--out", above, "cannot be synced");
    watch(above, EINVAL);
    create(temp_path(above, "b"));
    assert_int_equal(disk.syncs, 1);
    assert_int_equal(rmdir(temp_path(above, "a")), 0);
    temp_dir_remove(strdup(temp_path(above, "b")));
    temp_dir_remove(above);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_is_made_is_synced_into_the_one_above),
        cmocka_unit_test(a_sync_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
