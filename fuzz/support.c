/* SPDX-License-Identifier: Apache-2.0 */
/* support.c: what the fuzz targets share. */
#define _GNU_SOURCE /* memfd_create */
#include "support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "skipped.h"

void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    fprintf(stderr, "%s:%d: %s does not hold: ", file, line, condition);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nlast message: %s\n", gsc_last_error());
    abort();
}

static const char old_message[] = "an old message";

void forget_message(void) { gsc_fail(GSC_OK, "%s", old_message); }

void require_message(const char *start)
{
    require(strncmp(gsc_last_error(), start, strlen(start)) == 0, "the message begins with %s", start);
    require(strlen(gsc_last_error()) > strlen(start) + 2, "the message goes on");
}

uint8_t take_byte(input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

static uint64_t take_bytes(input *in, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint64_t)take_byte(in) << 8 * i;
    return value;
}

uint32_t take_u32(input *in) { return (uint32_t)take_bytes(in, 4); }

uint64_t take_u64(input *in) { return take_bytes(in, 8); }

double take_double(input *in)
{
    uint64_t bits = take_u64(in);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

size_t take_below(input *in, size_t n) { return take_byte(in) % n; }

const char *fuzz_file(int slot, const void *data, size_t size)
{
    static int descriptors[FUZZ_FILES];
    static char paths[FUZZ_FILES][64];
    if (descriptors[slot] == 0) {
        if (access("/proc/self/fd", F_OK) != 0) {
            note_skipped(__FILE__, __func__, "no /proc, through which files in memory have a path");
            exit(77);
        }
        descriptors[slot] = memfd_create("fuzz", MFD_CLOEXEC);
        require(descriptors[slot] > 0, "a file in memory can be created");
        snprintf(paths[slot], sizeof paths[slot], "/proc/self/fd/%d", descriptors[slot]);
    }
    require(ftruncate(descriptors[slot], 0) == 0, "the file can be emptied");
    require(pwrite(descriptors[slot], data, size, 0) == (ssize_t)size, "the file can be written");
    return paths[slot];
}
