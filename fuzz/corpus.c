/* SPDX-License-Identifier: Apache-2.0 */
/* corpus.c: fuzz-corpus converts between the inputs of a text file (entries.h) and files with one input each, which
 * libFuzzer reads and writes. Exit status 1: a file cannot be read or written, or a line has an unknown escape. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entries.h"

static const char usage[] = "usage: fuzz-corpus unpack TEXT FOLDER   writes each entry of TEXT to FOLDER/<line>\n"
                            "       fuzz-corpus add TEXT FILE...     appends to TEXT each FILE that it does not have\n";

_Noreturn static void fail(const char *path)
{
    fprintf(stderr, "fuzz-corpus: %s: %s\n", path, strerror(errno));
    exit(1);
}

static void unpack_entry(void *folder, int line, const uint8_t *data, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", (const char *)folder, line);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        fail(path);
}

typedef struct search {
    const uint8_t *data;
    size_t size;
    bool found;
} search;

static void compare_entry(void *ctx, int line, const uint8_t *data, size_t size)
{
    (void)line;
    search *s = ctx;
    s->found = s->found || (size == s->size && memcmp(data, s->data, size) == 0);
}

static size_t read_input(const char *path, uint8_t *data, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path);
    size_t size = fread(data, 1, capacity, file);
    if (ferror(file))
        fail(path);
    if (fgetc(file) != EOF) {
        errno = EFBIG;
        fail(path);
    }
    fclose(file);
    return size;
}

static void append_entry(const char *text, const uint8_t *data, size_t size)
{
    FILE *file = fopen(text, "a");
    if (!file)
        fail(text);
    entries_write(file, data, size);
    if (fclose(file) != 0)
        fail(text);
}

static bool add_file(const char *text, const char *path)
{
    static uint8_t data[1 << 20];
    search s = {.data = data, .size = read_input(path, data, sizeof data)};
    if (!entries_visit(text, compare_entry, &s))
        return false;
    if (!s.found)
        append_entry(text, s.data, s.size);
    return true;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "unpack") == 0)
        return entries_visit(argv[2], unpack_entry, argv[3]) ? 0 : 1;
    if (argc < 4 || strcmp(argv[1], "add") != 0) {
        fputs(usage, stderr);
        return 2;
    }
    for (int i = 3; i < argc; i++)
        if (!add_file(argv[2], argv[i]))
            return 1;
    return 0;
}
