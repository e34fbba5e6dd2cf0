/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c: the IDX format (http://yann.lecun.com/exdb/mnist/): two zero bytes, a type code, the number of dimensions, a
 * big-endian 32-bit size for each, then the elements. */
#define _POSIX_C_SOURCE 200809L /* fstat, fdopen */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "gradscaler/data.h"

enum {
    TYPE_UBYTE = 0x08,
    MAX_DEFLATE_RATIO = 1032,  /* deflate's: 258 bytes from 2 bits */
    GZIP_WINDOW_BITS = 15 + 16 /* inflateInit2's way of asking for the gzip format */
};

/* The bytes of a file, inflated where it is gzipped. */
typedef struct source {
    const char *path;
    FILE *file;
    uint64_t size; /* of the file */
    bool gzipped;
    bool at_member_end; /* the gzip member has been inflated and its checksum was right */
    z_stream stream;
    uint8_t input[1 << 16];
} source;

static gsc_status open_file(source *from)
{
    /* Without O_NONBLOCK the open of a pipe would wait for a writer before it can be refused. */
    int descriptor = open(from->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return gsc_fail(GSC_ERR_IO, "%s: cannot be opened: %s", from->path, strerror(errno));
    struct stat about;
    int failed = fstat(descriptor, &about);
    if (failed || !S_ISREG(about.st_mode)) {
        gsc_fail(GSC_ERR_IO, "%s: %s", from->path,
                 failed                   ? strerror(errno)
                 : S_ISDIR(about.st_mode) ? "is a directory, expected an IDX file"
                                          : "is not a regular file");
        close(descriptor);
        return GSC_ERR_IO;
    }
    from->size = (uint64_t)about.st_size;
    from->file = fdopen(descriptor, "rb");
    if (!from->file) {
        close(descriptor);
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", from->path);
    }
    return GSC_OK;
}

static gsc_status read_error(const source *from)
{
    return gsc_fail(GSC_ERR_IO, "%s: cannot be read: %s", from->path, strerror(errno));
}

/* Looks for gzip's magic number in the first two bytes. */
static gsc_status start_source(source *from)
{
    uint8_t magic[2];
    size_t got = fread(magic, 1, sizeof magic, from->file);
    if (ferror(from->file) || fseek(from->file, 0, SEEK_SET) != 0)
        return read_error(from);
    if (got == 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: is empty, expected an IDX file", from->path);
    if (got < 2 || magic[0] != 0x1f || magic[1] != 0x8b)
        return GSC_OK;
    if (inflateInit2(&from->stream, GZIP_WINDOW_BITS) != Z_OK)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", from->path);
    from->gzipped = true;
    return GSC_OK;
}

static void close_source(source *from)
{
    if (from->gzipped)
        inflateEnd(&from->stream);
    if (from->file)
        fclose(from->file);
    free(from);
}

static gsc_status open_source(const char *path, source **out)
{
    source *from = calloc(1, sizeof *from);
    if (!from)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    from->path = path;
    gsc_status status = open_file(from);
    if (status == GSC_OK)
        status = start_source(from);
    if (status == GSC_OK)
        *out = from;
    else
        close_source(from);
    return status;
}

/* Inflates until the output is full or the file ends, which it may do only after a whole member. */
static gsc_status inflate_some(source *from)
{
    z_stream *stream = &from->stream;
    while (stream->avail_out > 0) {
        if (stream->avail_in == 0) {
            stream->next_in = from->input;
            stream->avail_in = (uInt)fread(from->input, 1, sizeof from->input, from->file);
            if (ferror(from->file))
                return read_error(from);
            if (stream->avail_in == 0)
                return from->at_member_end ? GSC_OK
                                           : gsc_fail(GSC_ERR_VALUE, "%s: the gzip stream is truncated", from->path);
        }
        if (from->at_member_end) { /* anything but another member is then an error in its header */
            inflateReset(stream);
            from->at_member_end = false;
        }
        int result = inflate(stream, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR)
            return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", from->path);
        if (result != Z_OK && result != Z_STREAM_END)
            return gsc_fail(GSC_ERR_VALUE, "%s: the gzip stream is corrupt: %s", from->path,
                            stream->msg ? stream->msg : "it needs a dictionary");
        from->at_member_end = result == Z_STREAM_END;
    }
    return GSC_OK;
}

/* Reads n bytes, or fewer (*got) where the content ends. */
static gsc_status read_bytes(source *from, uint8_t *out, size_t n, size_t *got)
{
    *got = 0;
    if (!from->gzipped) {
        *got = fread(out, 1, n, from->file);
        return ferror(from->file) ? read_error(from) : GSC_OK;
    }
    while (*got < n) {
        uInt wanted = n - *got < (1u << 30) ? (uInt)(n - *got) : 1u << 30; /* zlib counts in unsigned int */
        from->stream.next_out = out + *got;
        from->stream.avail_out = wanted;
        gsc_status status = inflate_some(from);
        if (status != GSC_OK)
            return status;
        *got += wanted - from->stream.avail_out;
        if (from->stream.avail_out > 0)
            break;
    }
    return GSC_OK;
}

static gsc_status read_header_bytes(source *from, uint8_t *out, size_t n, const char *field)
{
    size_t got;
    gsc_status status = read_bytes(from, out, n, &got);
    if (status == GSC_OK && got < n)
        status = gsc_fail(GSC_ERR_VALUE, "%s: the header ends within the %s: found %zu bytes of it, expected %zu",
                          from->path, field, got, n);
    return status;
}

static const char *type_name(uint8_t code)
{
    switch (code) {
    case 0x09: return "signed byte";
    case 0x0B: return "short";
    case 0x0C: return "int";
    case 0x0D: return "float";
    case 0x0E: return "double";
    default: return "unknown";
    }
}

static gsc_status read_magic(source *from, int32_t *ndim)
{
    uint8_t magic[4];
    gsc_status status = read_header_bytes(from, magic, sizeof magic, "magic number");
    if (status != GSC_OK)
        return status;
    if (magic[0] != 0 || magic[1] != 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: is not an IDX file: it begins with bytes 0x%02x 0x%02x, expected 0x00 0x00",
                        from->path, (unsigned)magic[0], (unsigned)magic[1]);
    if (magic[2] != TYPE_UBYTE)
        return gsc_fail(GSC_ERR_VALUE, "%s: the type code is 0x%02x (%s), expected 0x08 (unsigned byte)", from->path,
                        (unsigned)magic[2], type_name(magic[2]));
    if (magic[3] < 1 || magic[3] > GSC_IDX_MAX_DIMS)
        return gsc_fail(GSC_ERR_VALUE, "%s: the number of dimensions is %u, expected 1 to %d", from->path,
                        (unsigned)magic[3], GSC_IDX_MAX_DIMS);
    *ndim = magic[3];
    return GSC_OK;
}

static gsc_status read_sizes(source *from, gsc_idx *idx)
{
    for (int32_t i = 0; i < idx->ndim; i++) {
        uint8_t bytes[4];
        gsc_status status = read_header_bytes(from, bytes, sizeof bytes, "sizes");
        if (status != GSC_OK)
            return status;
        idx->shape[i] = (int64_t)bytes[0] << 24 | (int64_t)bytes[1] << 16 | (int64_t)bytes[2] << 8 | (int64_t)bytes[3];
    }
    return GSC_OK;
}

/* A header can claim anything: nothing is believed that a file of this size cannot hold. */
static gsc_status count_elements(const source *from, gsc_idx *idx)
{
    uint64_t limit = from->size;
    if (from->gzipped)
        limit = from->size < UINT64_MAX / MAX_DEFLATE_RATIO ? from->size * MAX_DEFLATE_RATIO : UINT64_MAX;
    for (int32_t i = 0; i < idx->ndim; i++) {
        if (idx->shape[i] == 0) {
            idx->count = 0;
            return GSC_OK;
        }
    }
    uint64_t count = 1;
    for (int32_t i = 0; i < idx->ndim; i++) {
        uint64_t size = (uint64_t)idx->shape[i];
        if (count > limit / size)
            return gsc_fail(GSC_ERR_VALUE,
                            "%s: the size of dimension %d is %llu: more elements than a %s of %llu bytes can hold",
                            from->path, (int)i, (unsigned long long)size, from->gzipped ? "gzip file" : "file",
                            (unsigned long long)from->size);
        count *= size;
    }
    if (count > SIZE_MAX)
        return gsc_fail(GSC_ERR_MEMORY, "%s: %llu elements do not fit into memory", from->path,
                        (unsigned long long)count);
    idx->count = (size_t)count;
    return GSC_OK;
}

static gsc_status read_elements(source *from, gsc_idx *idx)
{
    idx->data = malloc(idx->count > 0 ? idx->count : 1);
    if (!idx->data)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for %zu elements", from->path, idx->count);
    size_t got;
    gsc_status status = read_bytes(from, idx->data, idx->count, &got);
    if (status == GSC_OK && got < idx->count)
        status = gsc_fail(GSC_ERR_VALUE, "%s: the data is too short: found %zu bytes, expected %zu by the header",
                          from->path, got, idx->count);
    uint8_t extra;
    if (status == GSC_OK)
        status = read_bytes(from, &extra, 1, &got); /* which also takes a gzip stream to its checksum */
    if (status == GSC_OK && got > 0)
        status =
            gsc_fail(GSC_ERR_VALUE, "%s: the data is too long: it goes on after the %zu bytes expected by the header",
                     from->path, idx->count);
    return status;
}

gsc_status gsc_idx_read(const char *path, gsc_idx *out)
{
    if (!path || !out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_idx_read: %s is NULL", path ? "out" : "path");
    source *from = NULL;
    gsc_status status = open_source(path, &from);
    if (status != GSC_OK)
        return status;
    gsc_idx idx = {0};
    status = read_magic(from, &idx.ndim);
    if (status == GSC_OK)
        status = read_sizes(from, &idx);
    if (status == GSC_OK)
        status = count_elements(from, &idx);
    if (status == GSC_OK)
        status = read_elements(from, &idx);
    close_source(from);
    if (status == GSC_OK)
        *out = idx;
    else
        free(idx.data);
    return status;
}

void gsc_idx_free(gsc_idx *idx)
{
    if (!idx)
        return;
    free(idx->data);
    *idx = (gsc_idx){0};
}
