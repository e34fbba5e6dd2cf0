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

#include "base/try.h"
#include "gradscaler/data.h"

enum {
    TYPE_UBYTE = 0x08,
    MAX_DEFLATE_RATIO = 1032,  /* deflate makes at most 258 bytes of 2 bits */
    GZIP_WINDOW_BITS = 15 + 16 /* for inflateInit2: the largest window, in the gzip format */
};

/* The content of a file, inflated if it is gzipped. */
typedef struct source {
    const char *path;
    FILE *file;
    uint64_t size; /* of the file, in bytes */
    bool gzipped;
    bool at_member_end; /* a gzip member was inflated, and its checksum was right */
    z_stream stream;
    uint8_t input[1 << 16];
} source;

static gsc_status open_file(source *in)
{
    /* O_NONBLOCK: opening a named pipe would otherwise wait for a writer. */
    int descriptor = open(in->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return gsc_fail(GSC_ERR_IO, "%s: cannot be opened: %s", in->path, strerror(errno));
    struct stat about;
    int failed = fstat(descriptor, &about);
    if (failed || !S_ISREG(about.st_mode)) {
        gsc_fail(GSC_ERR_IO, "%s: %s", in->path,
                 failed                   ? strerror(errno)
                 : S_ISDIR(about.st_mode) ? "is a directory, expected an IDX file"
                                          : "is not a regular file");
        close(descriptor);
        return GSC_ERR_IO;
    }
    in->size = (uint64_t)about.st_size;
    in->file = fdopen(descriptor, "rb");
    if (!in->file) {
        close(descriptor);
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", in->path);
    }
    return GSC_OK;
}

static gsc_status read_error(const source *in)
{
    return gsc_fail(GSC_ERR_IO, "%s: cannot be read: %s", in->path, strerror(errno));
}

/* Gzipped files begin with a magic number. */
static gsc_status detect_gzip(source *in)
{
    uint8_t magic[2];
    size_t got = fread(magic, 1, sizeof magic, in->file);
    if (ferror(in->file) || fseek(in->file, 0, SEEK_SET) != 0)
        return read_error(in);
    if (got == 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: is empty, expected an IDX file", in->path);
    if (got < 2 || magic[0] != 0x1f || magic[1] != 0x8b)
        return GSC_OK;
    if (inflateInit2(&in->stream, GZIP_WINDOW_BITS) != Z_OK)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", in->path);
    in->gzipped = true;
    return GSC_OK;
}

static void close_source(source *in)
{
    if (in->gzipped)
        inflateEnd(&in->stream);
    if (in->file)
        fclose(in->file);
    free(in);
}

static gsc_status open_source(const char *path, source **out)
{
    source *in = calloc(1, sizeof *in);
    if (!in)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    in->path = path;
    gsc_status status = open_file(in);
    if (status == GSC_OK)
        status = detect_gzip(in);
    if (status == GSC_OK)
        *out = in;
    else
        close_source(in);
    return status;
}

/* Inflates until the output is full or the file ends. The file may end only after a complete member. */
static gsc_status inflate_some(source *in)
{
    z_stream *stream = &in->stream;
    while (stream->avail_out > 0) {
        if (stream->avail_in == 0) {
            stream->next_in = in->input;
            stream->avail_in = (uInt)fread(in->input, 1, sizeof in->input, in->file);
            if (ferror(in->file))
                return read_error(in);
            if (stream->avail_in == 0)
                return in->at_member_end ? GSC_OK
                                         : gsc_fail(GSC_ERR_VALUE, "%s: the gzip stream is truncated", in->path);
        }
        if (in->at_member_end) { /* more bytes must be another member */
            inflateReset(stream);
            in->at_member_end = false;
        }
        int result = inflate(stream, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR)
            return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", in->path);
        if (result != Z_OK && result != Z_STREAM_END)
            return gsc_fail(GSC_ERR_VALUE, "%s: the gzip stream is corrupt: %s", in->path,
                            stream->msg ? stream->msg : "it needs a dictionary");
        in->at_member_end = result == Z_STREAM_END;
    }
    return GSC_OK;
}

/* Reads n bytes; *got is less if the content ends before. */
static gsc_status read_bytes(source *in, uint8_t *out, size_t n, size_t *got)
{
    *got = 0;
    if (!in->gzipped) {
        *got = fread(out, 1, n, in->file);
        return ferror(in->file) ? read_error(in) : GSC_OK;
    }
    while (*got < n) {
        uInt wanted = n - *got < (1u << 30) ? (uInt)(n - *got) : 1u << 30; /* zlib counts in unsigned int */
        in->stream.next_out = out + *got;
        in->stream.avail_out = wanted;
        GSC_TRY(inflate_some(in));
        *got += wanted - in->stream.avail_out;
        if (in->stream.avail_out > 0)
            break;
    }
    return GSC_OK;
}

static gsc_status read_header_bytes(source *in, uint8_t *out, size_t n, const char *field)
{
    size_t got;
    GSC_TRY(read_bytes(in, out, n, &got));
    if (got < n)
        return gsc_fail(GSC_ERR_VALUE, "%s: the header ends within the %s: found %zu bytes of it, expected %zu",
                        in->path, field, got, n);
    return GSC_OK;
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

static gsc_status read_magic(source *in, int32_t *ndim)
{
    uint8_t magic[4];
    GSC_TRY(read_header_bytes(in, magic, sizeof magic, "magic number"));
    if (magic[0] != 0 || magic[1] != 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: is not an IDX file: it begins with bytes 0x%02x 0x%02x, expected 0x00 0x00",
                        in->path, (unsigned)magic[0], (unsigned)magic[1]);
    if (magic[2] != TYPE_UBYTE)
        return gsc_fail(GSC_ERR_VALUE, "%s: the type code is 0x%02x (%s), expected 0x08 (unsigned byte)", in->path,
                        (unsigned)magic[2], type_name(magic[2]));
    if (magic[3] < 1 || magic[3] > GSC_IDX_MAX_DIMS)
        return gsc_fail(GSC_ERR_VALUE, "%s: the number of dimensions is %u, expected 1 to %d", in->path,
                        (unsigned)magic[3], GSC_IDX_MAX_DIMS);
    *ndim = magic[3];
    return GSC_OK;
}

static gsc_status read_sizes(source *in, gsc_idx *idx)
{
    for (int32_t i = 0; i < idx->ndim; i++) {
        uint8_t bytes[4];
        GSC_TRY(read_header_bytes(in, bytes, sizeof bytes, "sizes"));
        idx->shape[i] = (int64_t)bytes[0] << 24 | (int64_t)bytes[1] << 16 | (int64_t)bytes[2] << 8 | (int64_t)bytes[3];
    }
    return GSC_OK;
}

/* Refuses headers that claim more elements than a file of this size can hold. */
static gsc_status count_elements(const source *in, gsc_idx *idx)
{
    uint64_t limit = in->size;
    if (in->gzipped)
        limit = in->size < UINT64_MAX / MAX_DEFLATE_RATIO ? in->size * MAX_DEFLATE_RATIO : UINT64_MAX;
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
                            in->path, (int)i, (unsigned long long)size, in->gzipped ? "gzip file" : "file",
                            (unsigned long long)in->size);
        count *= size;
    }
    if (count > SIZE_MAX)
        return gsc_fail(GSC_ERR_MEMORY, "%s: %llu elements do not fit into memory", in->path,
                        (unsigned long long)count);
    idx->count = (size_t)count;
    return GSC_OK;
}

static gsc_status read_elements(source *in, gsc_idx *idx)
{
    idx->data = malloc(idx->count > 0 ? idx->count : 1);
    if (!idx->data)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for %zu elements", in->path, idx->count);
    size_t got;
    GSC_TRY(read_bytes(in, idx->data, idx->count, &got));
    if (got < idx->count)
        return gsc_fail(GSC_ERR_VALUE, "%s: the data is too short: found %zu bytes, expected %zu by the header",
                        in->path, got, idx->count);
    uint8_t extra;
    GSC_TRY(read_bytes(in, &extra, 1, &got)); /* also reads a gzip stream to its end, which verifies the checksum */
    if (got > 0)
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: the data is too long: it goes on after the %zu bytes expected by the header", in->path,
                        idx->count);
    return GSC_OK;
}

static gsc_status read_idx(source *in, gsc_idx *idx)
{
    GSC_TRY(read_magic(in, &idx->ndim));
    GSC_TRY(read_sizes(in, idx));
    GSC_TRY(count_elements(in, idx));
    return read_elements(in, idx);
}

gsc_status gsc_idx_read(const char *path, gsc_idx *out)
{
    if (!path || !out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_idx_read: %s is NULL", path ? "out" : "path");
    source *in = NULL;
    GSC_TRY(open_source(path, &in));
    gsc_idx idx = {0};
    gsc_status status = read_idx(in, &idx);
    close_source(in);
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
