/* SPDX-License-Identifier: Apache-2.0 */
/* cores.c: how many cores the process may use.
 *
 * /proc/self/cgroup names the process's control groups, /proc/self/mountinfo the folders where their trees are mounted.
 * A group is limited by its own quota and by those of the groups around it. Version 2 has the quota in cpu.max, version
 * 1 in the two files cpu.cfs_*_us of the tree with the controller cpu. Both versions may be mounted. */
#define _GNU_SOURCE /* sched_getaffinity, getline */
#include "base/cores.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

/* Where a tree of control groups is mounted. */
typedef struct mount {
    bool is_v2;
    char root[PATH_BYTES]; /* the group at the folder; "/" if it is the whole tree */
    char folder[PATH_BYTES];
} mount;

static FILE *open_below(const char *folder, const char *name)
{
    char path[2 * PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length < (int)sizeof path ? fopen(path, "re") : NULL;
}

/* Reads integers from the first line of a file; false unless there are so many. */
static bool read_integers(const char *folder, const char *name, int count, long long *values)
{
    FILE *file = open_below(folder, name);
    char line[64], *end = line;
    int found = 0;
    if (file && fgets(line, sizeof line, file))
        for (const char *text = line; found < count; text = end, found++) {
            values[found] = strtoll(text, &end, 10);
            if (end == text)
                break;
        }
    if (file)
        fclose(file);
    return found == count;
}

/* The quota of one group, in cores. */
static int folder_cores(bool is_v2, const char *folder)
{
    long long values[2]; /* microseconds of CPU time, in so many microseconds */
    bool limited = is_v2 ? read_integers(folder, "cpu.max", 2, values) /* "max 100000": no limit */
                         : read_integers(folder, "cpu.cfs_quota_us", 1, &values[0]) &&
                               read_integers(folder, "cpu.cfs_period_us", 1, &values[1]);
    if (!limited || values[0] <= 0 || values[1] <= 0) /* version 1: -1 is no limit */
        return INT_MAX;
    long long cores = values[0] / values[1] + (values[0] % values[1] > 0);
    return cores < INT_MAX ? (int)cores : INT_MAX;
}

/* The least quota of the group `group` and of those around it, as far as they are in the mounted tree. */
static int tree_cores(const char *root, const mount *tree, const char *group)
{
    char folder[4 * PATH_BYTES];
    size_t prefix = strcmp(tree->root, "/") == 0 ? 0 : strlen(tree->root);
    bool below = strncmp(group, tree->root, prefix) == 0 && !strstr(group, "/..");
    int top = snprintf(folder, sizeof folder, "%s%s", root, tree->folder);
    int length = snprintf(folder, sizeof folder, "%s%s%s", root, tree->folder, below ? group + prefix : "");
    if (length >= (int)sizeof folder)
        return INT_MAX;
    int least = INT_MAX;
    for (;;) {
        int cores = folder_cores(tree->is_v2, folder);
        least = cores < least ? cores : least;
        char *slash = strrchr(folder, '/');
        if (!slash || slash - folder < top)
            return least;
        *slash = '\0';
    }
}

/* Whether the comma-separated list has the item "cpu". */
static bool lists_cpu(const char *list)
{
    for (const char *item = list; item; item = strchr(item, ',') ? strchr(item, ',') + 1 : NULL)
        if (strncmp(item, "cpu", 3) == 0 && strchr(",:\n", item[3]))
            return true;
    return false;
}

/* Reads a line of mountinfo: "36 35 98:0 /root /folder options - type source options". */
static bool read_mount(const char *line, mount *out)
{
    char type[16], options[PATH_BYTES];
    const char *second = strstr(line, " - ");
    if (!second || sscanf(line, "%*s %*s %*s %1023s %1023s", out->root, out->folder) != 2 ||
        sscanf(second, " - %15s %*s %1023s", type, options) != 2)
        return false;
    out->is_v2 = strcmp(type, "cgroup2") == 0;
    return out->is_v2 || (strcmp(type, "cgroup") == 0 && lists_cpu(options));
}

/* The group in a line of /proc/self/cgroup, "4:cpu,cpuacct:/group", or "0::/group" for version 2. NULL: of another
 * controller. Cuts off the line's end. */
static const char *read_group(char *line, bool is_v2)
{
    char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
    if (!group || (is_v2 ? strncmp(line, "0::", 3) != 0 : !lists_cpu(list + 1)))
        return NULL;
    group[strcspn(group, "\n")] = '\0';
    return group + 1;
}

static int mounted_cores(const char *root, const mount *tree)
{
    char *line = NULL;
    size_t bytes = 0;
    int least = INT_MAX;
    FILE *groups = open_below(root, "proc/self/cgroup");
    while (groups && getline(&line, &bytes, groups) > 0) {
        const char *group = read_group(line, tree->is_v2);
        int cores = group ? tree_cores(root, tree, group) : INT_MAX;
        least = cores < least ? cores : least;
    }
    free(line);
    if (groups)
        fclose(groups);
    return least;
}

int gsc__quota_cores(const char *root)
{
    char *line = NULL;
    size_t bytes = 0;
    int least = INT_MAX;
    mount tree;
    FILE *mounts = open_below(root, "proc/self/mountinfo");
    while (mounts && getline(&line, &bytes, mounts) > 0) {
        int cores = read_mount(line, &tree) ? mounted_cores(root, &tree) : INT_MAX;
        least = cores < least ? cores : least;
    }
    free(line);
    if (mounts)
        fclose(mounts);
    return least;
}

static int scheduler_cores(void)
{
#ifdef __linux__
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        return CPU_COUNT(&cores);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > INT_MAX ? INT_MAX : (int)online;
}

int gsc__usable_cores(const char *root)
{
    int caller_errno = errno;
    int cores = scheduler_cores(), quota = gsc__quota_cores(root);
    errno = caller_errno;
    return cores < quota ? cores : quota;
}
