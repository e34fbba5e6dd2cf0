/* SPDX-License-Identifier: Apache-2.0 */
/* files.h: files that replace what was there only when they are complete and on the disk, and read-only mappings. */
#ifndef GSC_TRAIN_IO_FILES_H
#define GSC_TRAIN_IO_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "gradscaler/status.h"

/* Messages name `path`; the file itself is the last part of it, within `folder`, an open folder. */
gsc_status gsc__folder_open(const char *path, int *out);
/* The folder that `path` is in. GSC_ERR_VALUE: path does not end in a name. */
gsc_status gsc__folder_open_parent(const char *path, int *out);
/* Makes what was created, renamed and removed in the folder last. */
gsc_status gsc__folder_sync(int folder, const char *path);

/* A file being written, under a temporary name: ".NAME.tmp". What a killed process has left there is written over. */
typedef struct gsc__file {
    int folder;       /* borrowed */
    const char *path; /* borrowed */
    int descriptor;
    char *temporary;
    uint64_t size;
    uint32_t crc; /* CRC-32 of what was written */
} gsc__file;

/* GSC_ERR_IO: cannot be created, or is being written by somebody else. */
gsc_status gsc__file_create(int folder, const char *path, gsc__file *out);
gsc_status gsc__file_write(gsc__file *file, const void *data, size_t size);
/* After success so far: syncs the file and gives it its name, which lasts from the folder's next sync on. Otherwise,
 * and on failure, removes it. Returns the first error. */
gsc_status gsc__file_finish(gsc__file *file, gsc_status so_far);

/* The whole of a regular file, readable; data NULL for an empty one. `name` is its path from `folder`. */
typedef struct gsc__mapping {
    const uint8_t *data;
    size_t size;
} gsc__mapping;
gsc_status gsc__mapping_open(int folder, const char *name, const char *path, gsc__mapping *out);
void gsc__mapping_close(gsc__mapping *mapping);

/* The last part of a path. */
const char *gsc__path_name(const char *path);

#endif
