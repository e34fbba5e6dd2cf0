/* SPDX-License-Identifier: Apache-2.0 */
/* files.h: files that replace an older one only when they are complete and on disk, and read-only mappings.
 *
 * Functions that take an open folder and a `path` use only the last part of the path, relative to that folder; messages
 * show the whole path. */
#ifndef GSC_TRAIN_IO_FILES_H
#define GSC_TRAIN_IO_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "gradscaler/status.h"

gsc_status gsc__folder_open(const char *path, int *out);
/* Opens the folder that contains `path`. GSC_ERR_VALUE: path does not end in a file's name. */
gsc_status gsc__folder_open_parent(const char *path, int *out);
/* Flushes names that were created, renamed or removed in the folder to disk. */
gsc_status gsc__folder_sync(int folder, const char *path);

/* The name of a file (a string literal) while it is being written. */
#define GSC_TEMPORARY_NAME(name) "." name ".tmp"

/* A file being written under its temporary name. What a killed process left under that name is overwritten. */
typedef struct gsc__file {
    int folder;       /* borrowed */
    const char *path; /* borrowed */
    int descriptor;
    char *temporary;
    uint64_t size;
    uint32_t crc; /* CRC-32 of what was written */
} gsc__file;

/* GSC_ERR_IO: cannot be created, or another process or thread is writing it. */
gsc_status gsc__file_create(int folder, const char *path, gsc__file *out);
gsc_status gsc__file_write(gsc__file *file, const void *data, size_t size);
/* `status` is that of the writes. GSC_OK: syncs the file and renames it to its final name; the rename is durable after
 * gsc__folder_sync. An error, also one of these steps, removes the temporary file. Returns the first error. */
gsc_status gsc__file_finish(gsc__file *file, gsc_status status);

/* The content of a regular file; data NULL for an empty one. */
typedef struct gsc__mapping {
    const uint8_t *data;
    size_t size;
} gsc__mapping;
/* `name` is relative to `folder`; `path` is for messages. */
gsc_status gsc__mapping_open(int folder, const char *name, const char *path, gsc__mapping *out);
void gsc__mapping_close(gsc__mapping *mapping); /* zeroed is fine */

/* The last part of a path. */
const char *gsc__path_name(const char *path);

#endif
