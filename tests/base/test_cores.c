/* SPDX-License-Identifier: Apache-2.0 */
/* How many cores the process may use: CPU quotas of control groups, from made-up files below a temporary folder. */
#define _XOPEN_SOURCE 700 /* nftw */
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "asserts.h"
#include "base/cores.h"
#include "temp_dir.h"

/* Writes a file, and the folders on its way. */
static void put(const char *root, const char *name, const char *text)
{
    char path[1280];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0700);
    }
    temp_write(root, name, text, strlen(text));
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static void remove_tree(char *root)
{
    assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(root);
}

static char *new_root(const char *mounts, const char *groups)
{
    char *root = temp_dir_create();
    put(root, "proc/self/mountinfo", mounts);
    put(root, "proc/self/cgroup", groups);
    return root;
}

static const char v2_mount[] = "22 1 0:20 / /proc rw,relatime shared:5 - proc proc rw\n"
                               "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
static const char v1_mounts[] = "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                                "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

static int cores_with_cpu_max(const char *text)
{
    char *root = new_root(v2_mount, "0::/job\n");
    put(root, "sys/fs/cgroup/job/cpu.max", text);
    int cores = gsc__quota_cores(root);
    remove_tree(root);
    return cores;
}

/* trial T40 */
static void quotas_are_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(cores_with_cpu_max("50000 100000\n"), 1);
    assert_int_equal(cores_with_cpu_max("100000 100000\n"), 1);
    assert_int_equal(cores_with_cpu_max("150000 100000\n"), 2);
    assert_int_equal(cores_with_cpu_max("8000 1000\n"), 8);
    assert_int_equal(cores_with_cpu_max("max 100000\n"), INT_MAX);
    assert_int_equal(cores_with_cpu_max(""), INT_MAX);
    assert_int_equal(cores_with_cpu_max("0 0\n"), INT_MAX);
    assert_int_equal(cores_with_cpu_max("50000\n"), INT_MAX);
    assert_int_equal(cores_with_cpu_max("9000000000000000000 1\n"), INT_MAX);
}

/* trial T40 */
static void groups_around_limit_too(void **state)
{
    (void)state;
    char *root = new_root(v2_mount, "0::/outer/middle/inner\n");
    put(root, "sys/fs/cgroup/outer/middle/inner/cpu.max", "600000 100000\n");
    assert_int_equal(gsc__quota_cores(root), 6);
    put(root, "sys/fs/cgroup/outer/cpu.max", "300000 100000\n");
    assert_int_equal(gsc__quota_cores(root), 3);
    put(root, "sys/fs/cgroup/outer/middle/cpu.max", "max 100000\n");
    assert_int_equal(gsc__quota_cores(root), 3);
    put(root, "sys/fs/cgroup/cpu.max", "200000 100000\n"); /* a container sees its own group as the root */
    assert_int_equal(gsc__quota_cores(root), 2);
    put(root, "sys/fs/cgroup/outer/sibling/cpu.max", "100000 100000\n");
    assert_int_equal(gsc__quota_cores(root), 2);
    remove_tree(root);
}

/* trial T40 */
static void version_1_has_two_files(void **state)
{
    (void)state;
    char *root = new_root(v1_mounts, "5:cpuset:/other\n4:cpu,cpuacct:/box\n0::/box\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    assert_int_equal(gsc__quota_cores(root), INT_MAX);
    put(root, "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(gsc__quota_cores(root), 3);
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "20000\n");
    assert_int_equal(gsc__quota_cores(root), 3); /* a quota without its period is none */
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "20000\n");
    assert_int_equal(gsc__quota_cores(root), 1);
    remove_tree(root);
}

/* trial T40 */
static void containers_see_a_part_of_the_tree(void **state)
{
    (void)state;
    /* Only the group /docker/7 is mounted; the group's name is still that of the whole tree. */
    char *root =
        new_root("32 23 0:28 /docker/7 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n", "4:cpu:/docker/7/job\n");
    put(root, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000\n");
    put(root, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(gsc__quota_cores(root), 4);
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(gsc__quota_cores(root), 2);
    put(root, "proc/self/cgroup", "4:cpu:/../elsewhere\n"); /* outside of what is mounted */
    assert_int_equal(gsc__quota_cores(root), 2);
    remove_tree(root);
}

/* trial T40 */
static void the_quota_counts_beside_the_affinity(void **state)
{
    (void)state;
    char *root = temp_dir_create();
    int cores = gsc__usable_cores(root); /* no /proc, no /sys: the affinity alone */
    assert_true(cores >= 1);
    assert_int_equal(gsc__quota_cores(root), INT_MAX);
    put(root, "proc/self/mountinfo", v2_mount);
    assert_int_equal(gsc__usable_cores(root), cores);
    put(root, "proc/self/cgroup", "0::/\n");
    assert_int_equal(gsc__usable_cores(root), cores);
    put(root, "sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_int_equal(gsc__usable_cores(root), 1);
    put(root, "sys/fs/cgroup/cpu.max", "500000000 100000\n");
    assert_int_equal(gsc__usable_cores(root), cores);
    put(root, "proc/self/mountinfo", "nonsense\n - \n - cgroup2\n1 2 3 - cgroup2 x y\n");
    assert_int_equal(gsc__usable_cores(root), cores);
    remove_tree(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas_are_rounded_up),
        cmocka_unit_test(groups_around_limit_too),
        cmocka_unit_test(version_1_has_two_files),
        cmocka_unit_test(containers_see_a_part_of_the_tree),
        cmocka_unit_test(the_quota_counts_beside_the_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
