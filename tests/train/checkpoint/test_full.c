/* SPDX-License-Identifier: Apache-2.0 */
/* Saving on a full file system: a small one in memory, if this process may mount one. */
#define _GNU_SOURCE /* unshare */
#define _XOPEN_SOURCE 700
#include "checkpoint_rig.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "safetensors_files.h"
#include "skipped.h"

static const rule_case adam = {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};

static char *dir; /* where the small file system is mounted; NULL: mounting is not allowed */

static bool write_line(const char *path, const char *line)
{
    FILE *file = fopen(path, "w");
    bool done = file && fputs(line, file) >= 0;
    return file && fclose(file) == 0 && done;
}

/* A mount namespace of this process; a user namespace gives the right to mount, unless the system forbids it. */
static bool enter_namespace(void)
{
    char users[32], groups[32];
    snprintf(users, sizeof users, "0 %u 1", (unsigned)geteuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0)
        return write_line("/proc/self/uid_map", users) && write_line("/proc/self/setgroups", "deny") &&
               write_line("/proc/self/gid_map", groups);
    return unshare(CLONE_NEWNS) == 0;
}

static bool resize(unsigned long flags, unsigned long blocks)
{
    char size[64];
    snprintf(size, sizeof size, "size=%lu", blocks * (unsigned long)sysconf(_SC_PAGESIZE));
    return mount("tmpfs", dir, "tmpfs", flags, size) == 0;
}

static int set_up(void **state)
{
    (void)state;
    dir = temp_dir_create();
    if (enter_namespace() && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && resize(0, 1000))
        return 0;
    temp_dir_remove(dir);
    dir = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (dir && umount(dir) == 0)
        temp_dir_remove(dir);
    return 0;
}

static void skip_without_mount(void)
{
    if (!dir)
        SKIP_BECAUSE("no file system may be mounted here");
}

static unsigned long used_blocks(void)
{
    struct statvfs about;
    assert_int_equal(statvfs(dir, &about), 0);
    return about.f_blocks - about.f_bfree;
}

/* Adds one page at a time until the save has enough room. */
static void a_save_without_room_leaves_the_checkpoint(void **state)
{
    (void)state;
    skip_without_mount();
    run_rig saved, next, found;
    rig_create(&saved, &adam, 1);
    rig_create(&next, &adam, 1);
    rig_create(&found, &adam, 2);
    assert_ok(gsc_checkpoint_save(dir, &saved.checkpoint));
    rig_step(&next, 0, false);
    const unsigned long used = used_blocks();
    unsigned long room = 0;
    gsc_status status = GSC_ERR_IO;
    for (; status != GSC_OK; room++) {
        assert_true(resize(MS_REMOUNT, used + room));
        status = gsc_checkpoint_save(dir, &next.checkpoint);
        if (status != GSC_OK) {
            assert_status(status, GSC_ERR_IO);
            assert_message(dir);
            assert_message("No space left");
            assert_int_equal(used_blocks(), used); /* nothing is left behind */
        }
        assert_ok(gsc_checkpoint_load(dir, &found.checkpoint, NULL));
        assert_true(rigs_equal(&found, status == GSC_OK ? &next : &saved));
    }
    assert_true(room > 4); /* each file takes at least one page */
    rig_free(&saved);
    rig_free(&next);
    rig_free(&found);
}

static void a_tensor_file_without_room_leaves_the_old_one(void **state)
{
    (void)state;
    skip_without_mount();
    enum { ELEMENTS = 100000 };
    const char *path = temp_path(dir, "x.safetensors");
    float *data = calloc(ELEMENTS, sizeof *data);
    int64_t one = 1, many = ELEMENTS;
    DLTensor small = dl_tensor(GSC_FLOAT32, f32_values, 1, &one), large = dl_tensor(GSC_FLOAT32, data, 1, &many);
    assert_true(resize(MS_REMOUNT, used_blocks() + 20));
    assert_ok(gsc_safetensors_write(path, &(gsc_named_tensor){"small", &small}, 1, NULL, 0));
    const unsigned long used = used_blocks();
    assert_fails(GSC_ERR_IO, gsc_safetensors_write(path, &(gsc_named_tensor){"large", &large}, 1, NULL, 0), path,
                 "No space left");
    assert_int_equal(used_blocks(), used);
    gsc_safetensors *file;
    assert_ok(gsc_safetensors_open(path, &file));
    assert_non_null(gsc_safetensors_find(file, "small"));
    gsc_safetensors_close(file);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_save_without_room_leaves_the_checkpoint),
        cmocka_unit_test(a_tensor_file_without_room_leaves_the_old_one),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
