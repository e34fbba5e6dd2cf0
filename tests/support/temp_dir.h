/* SPDX-License-Identifier: Apache-2.0 */
/* temp_dir.h: a temporary folder for the files of one test. The test defines _XOPEN_SOURCE 700 before its first include
 * and includes cmocka first. */
#ifndef GSC_TESTS_TEMP_DIR_H
#define GSC_TESTS_TEMP_DIR_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder's path; temp_dir_remove frees it. */
static inline char *temp_dir_create(void)
{
    const char *parent = getenv("TMPDIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/gradscaler-test-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(path));
    char *copy = malloc(strlen(path) + 1);
    assert_non_null(copy);
    return strcpy(copy, path);
}

/* dir/name; valid for the next three calls. */
static inline const char *temp_path(const char *dir, const char *name)
{
    static char paths[4][1280];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static inline const char *temp_write(const char *dir, const char *name, const void *data, size_t size)
{
    const char *path = temp_path(dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* Removes the folder with its files and empty folders. */
static inline void temp_dir_remove(char *dir)
{
    DIR *open = opendir(dir);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            assert_int_equal(remove(temp_path(dir, entry->d_name)), 0);
    closedir(open);
    assert_int_equal(rmdir(dir), 0);
    free(dir);
}

#endif
