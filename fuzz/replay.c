/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c: the main of targets that are built without libFuzzer: fuzz_<topic> FILE|FOLDER... gives the target each
 * file, and each file of a folder. Exit status 0: all was as it must be; a finding ends the program. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support.h"

enum { LARGEST = 1 << 20 };

static bool complain(const char *path)
{
    fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
    return false;
}

/* The target gets a copy of its own of just this size, so that memory checkers see reads beyond it. */
static void give(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    require(copy, "there is memory");
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static bool replay_file(const char *path, int *count)
{
    static uint8_t data[LARGEST];
    FILE *file = fopen(path, "rb");
    if (!file)
        return complain(path);
    size_t size = fread(data, 1, sizeof data, file);
    bool whole = feof(file) && !ferror(file);
    fclose(file);
    if (!whole) {
        errno = EFBIG;
        return complain(path);
    }
    fprintf(stderr, "replay: %s\n", path); /* the last one is at fault when the target ends the program */
    give(data, size);
    ++*count;
    return true;
}

static bool replay_folder(const char *path, int *count)
{
    DIR *folder = opendir(path);
    if (!folder)
        return complain(path);
    bool good = true;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char file[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        good = replay_file(file, count) && good;
    }
    closedir(folder);
    return good;
}

int main(int argc, char **argv)
{
    int count = 0;
    bool good = true;
    for (int i = 1; i < argc; i++) {
        struct stat about;
        if (stat(argv[i], &about) != 0)
            good = complain(argv[i]);
        else
            good = (S_ISDIR(about.st_mode) ? replay_folder : replay_file)(argv[i], &count) && good;
    }
    printf("%d inputs replayed\n", count);
    if (count == 0)
        fprintf(stderr, "usage: %s FILE|FOLDER...; no input was found\n", argv[0]);
    return good && count > 0 ? 0 : 1;
}
