/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: durable replacement of files (temporary name, sync, rename), and read-only mappings. */
#define _DEFAULT_SOURCE /* flock, openat, fsync */
#include "train/io/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Linux writes at most about 2 GiB in one call. */
#define MAX_WRITE ((size_t)1 << 30)

static gsc_status io_error(const char *path, const char *what)
{
    return gsc_fail(GSC_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

const char *gsc__path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

gsc_status gsc__folder_open(const char *path, int *out)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return io_error(path, "the folder cannot be opened");
    *out = folder;
    return GSC_OK;
}

gsc_status gsc__folder_open_parent(const char *path, int *out)
{
    const char *name = gsc__path_name(path);
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return gsc_fail(GSC_ERR_VALUE, "\"%s\" does not end in the name of a file", path);
    if (name == path)
        return gsc__folder_open(".", out);
    char *parent = strndup(path, (size_t)(name - path));
    if (!parent)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    gsc_status status = gsc__folder_open(parent, out);
    free(parent);
    return status;
}

gsc_status gsc__folder_sync(int folder, const char *path)
{
    if (fsync(folder) == 0 || errno == EINVAL) /* EINVAL: this file system cannot sync folders */
        return GSC_OK;
    return io_error(path, "the folder cannot be synced");
}

/* Whether the name still leads to the open file. */
static bool is_named(int descriptor, int folder, const char *name)
{
    struct stat opened, named;
    return fstat(descriptor, &opened) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* Opens the temporary file and locks it, so that two writers of one file do not mix their bytes. Between our open and
 * our lock another writer may have renamed the file to its final name: then the loop opens a new one. */
static gsc_status open_temporary(gsc__file *file)
{
    for (;;) {
        int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
        file->descriptor = openat(file->folder, file->temporary, flags, 0666);
        if (file->descriptor < 0)
            return io_error(file->path, "a temporary file beside it cannot be created");
        bool busy = flock(file->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!busy && is_named(file->descriptor, file->folder, file->temporary))
            return GSC_OK;
        close(file->descriptor);
        if (busy)
            return gsc_fail(GSC_ERR_IO, "%s: is being written by another process or thread", file->path);
    }
}

gsc_status gsc__file_create(int folder, const char *path, gsc__file *out)
{
    const char *name = gsc__path_name(path);
    size_t size = strlen(name) + sizeof GSC_TEMPORARY_NAME("");
    gsc__file file = {.folder = folder, .path = path, .temporary = malloc(size), .crc = (uint32_t)crc32_z(0, NULL, 0)};
    if (!file.temporary)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    snprintf(file.temporary, size, GSC_TEMPORARY_NAME("%s"), name);
    gsc_status status = open_temporary(&file);
    if (status != GSC_OK) {
        free(file.temporary);
        return status;
    }
    *out = file;
    if (ftruncate(file.descriptor, 0) != 0) /* a killed process may have left bytes in it */
        return gsc__file_finish(out, io_error(path, "a temporary file beside it cannot be emptied"));
    return GSC_OK;
}

gsc_status gsc__file_write(gsc__file *file, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t done = 0; done < size;) {
        size_t part = size - done < MAX_WRITE ? size - done : MAX_WRITE;
        ssize_t written = write(file->descriptor, bytes + done, part);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return io_error(file->path, "cannot be written");
        file->crc = (uint32_t)crc32_z(file->crc, bytes + done, (size_t)written);
        done += (size_t)written;
    }
    file->size += size;
    return GSC_OK;
}

static gsc_status publish(const gsc__file *file)
{
    if (fsync(file->descriptor) != 0)
        return io_error(file->path, "cannot be synced");
    if (renameat(file->folder, file->temporary, file->folder, gsc__path_name(file->path)) != 0)
        return io_error(file->path, "cannot be given its name");
    return GSC_OK;
}

gsc_status gsc__file_finish(gsc__file *file, gsc_status status)
{
    if (status == GSC_OK)
        status = publish(file);
    if (status != GSC_OK)
        unlinkat(file->folder, file->temporary, 0);
    close(file->descriptor); /* also releases the lock; after fsync there is no error left to report */
    free(file->temporary);
    return status;
}

static gsc_status map(int descriptor, const char *path, gsc__mapping *out)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0)
        return io_error(path, "cannot be read");
    if (!S_ISREG(about.st_mode))
        return gsc_fail(GSC_ERR_IO, "%s: is not a regular file", path);
    if ((uint64_t)about.st_size > (uint64_t)PTRDIFF_MAX)
        return gsc_fail(GSC_ERR_MEMORY, "%s: its %lld bytes do not fit in memory", path, (long long)about.st_size);
    gsc__mapping mapping = {.size = (size_t)about.st_size};
    if (mapping.size > 0) {
        void *data = mmap(NULL, mapping.size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (data == MAP_FAILED && errno == ENOMEM)
            return gsc_fail(GSC_ERR_MEMORY, "%s: no memory to map its %zu bytes", path, mapping.size);
        if (data == MAP_FAILED)
            return io_error(path, "cannot be mapped");
        mapping.data = data;
    }
    *out = mapping;
    return GSC_OK;
}

gsc_status gsc__mapping_open(int folder, const char *name, const char *path, gsc__mapping *out)
{
    /* O_NONBLOCK: opening a named pipe would otherwise wait for a writer. */
    int descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return io_error(path, "cannot be opened");
    gsc_status status = map(descriptor, path, out);
    close(descriptor); /* the mapping stays */
    return status;
}

void gsc__mapping_close(gsc__mapping *mapping)
{
    if (mapping->data)
        munmap((void *)(uintptr_t)mapping->data, mapping->size);
    *mapping = (gsc__mapping){0};
}
