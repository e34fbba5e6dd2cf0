/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_gzip.c: gzip files with valid checksums, which random bytes would not have. The input tells how to compress and
 * what to damage; the rest of it is the content. The gzipped content must be read like the plain content; if damaged,
 * it must be read like it or refused. (fuzz_idx.c reads files of any bytes.) */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "gradscaler/data.h"
#include "support.h"

/* The smallest window and memory level, since allocating them takes most of the time. */
enum { GZIP_WINDOW_BITS = 9 + 16, MIN_MEMORY_LEVEL = 1, MAX_MEMBERS = 3, SPARE = 64 };

typedef struct buffer {
    uint8_t *data;
    size_t size, capacity;
} buffer;

static void add_member(buffer *to, const uint8_t *data, size_t size, int level, int strategy)
{
    z_stream stream = {0};
    require(deflateInit2(&stream, level, Z_DEFLATED, GZIP_WINDOW_BITS, MIN_MEMORY_LEVEL, strategy) == Z_OK,
            "zlib starts");
    stream.next_in = (z_const Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)size;
    stream.next_out = to->data + to->size;
    stream.avail_out = (uInt)(to->capacity - to->size);
    require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "the buffer is large enough");
    to->size += stream.total_out;
    deflateEnd(&stream);
}

/* Cuts the content into members of about equal size. */
static buffer compress_content(input *in, int level, int strategy, size_t members)
{
    buffer out = {.capacity = compressBound((uLong)in->size) + 2 * in->size + MAX_MEMBERS * 64 + SPARE};
    out.data = malloc(out.capacity);
    require(out.data, "there is memory");
    size_t done = 0;
    for (size_t i = 0; i < members; i++) {
        size_t end = in->size * (i + 1) / members;
        add_member(&out, in->data + done, end - done, level, strategy);
        done = end;
    }
    return out;
}

typedef enum damage { DAMAGE_NONE, DAMAGE_BYTE, DAMAGE_END, DAMAGE_BEYOND, DAMAGES } damage;

static void apply_damage(damage kind, size_t place, uint8_t byte, buffer *file)
{
    place %= file->size;
    if (kind == DAMAGE_BYTE)
        file->data[place] ^= byte;
    if (kind == DAMAGE_END)
        file->size = place;
    if (kind == DAMAGE_BEYOND) {
        size_t extra = 1 + place % SPARE;
        memset(file->data + file->size, byte, extra);
        file->size += extra;
    }
}

static gsc_status read_file(int slot, const uint8_t *data, size_t size, gsc_idx *out)
{
    gsc_idx untouched;
    memset(out, 0xa5, sizeof *out);
    memset(&untouched, 0xa5, sizeof untouched);
    const char *path = fuzz_file(slot, data, size);
    forget_message();
    gsc_status status = gsc_idx_read(path, out);
    if (status != GSC_OK) {
        require(status == GSC_ERR_VALUE, "a file is refused for its content, not with %s", gsc_status_name(status));
        require(memcmp(out, &untouched, sizeof *out) == 0, "a refusal leaves the output alone");
        require_message(path);
        *out = (gsc_idx){0};
    }
    return status;
}

static void require_equal(const gsc_idx *one, const gsc_idx *other)
{
    require(one->ndim == other->ndim && memcmp(one->shape, other->shape, sizeof one->shape) == 0, "the shape");
    require(one->count == other->count && memcmp(one->data, other->data, one->count) == 0, "the elements");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    int level = (int)take_below(&in, 10), strategy = (int)take_below(&in, 5);
    size_t members = 1 + take_below(&in, MAX_MEMBERS);
    damage kind = (damage)take_below(&in, DAMAGES);
    size_t place = take_u32(&in);
    uint8_t byte = take_byte(&in);

    gsc_idx plain, gzipped;
    gsc_status status = read_file(0, in.data, in.size, &plain);
    bool is_gzip = in.size >= 2 && in.data[0] == 0x1f && in.data[1] == 0x8b; /* the reader inflates only once */
    buffer file = compress_content(&in, level, strategy, members);
    apply_damage(kind, place, byte, &file);
    gsc_status again = read_file(1, file.data, file.size, &gzipped);
    if (is_gzip)
        require(again != GSC_OK, "a gzip file in a gzip file is not an IDX file");
    else if (kind == DAMAGE_NONE)
        require(again == status, "gzip changes nothing");
    else if (kind != DAMAGE_END || members == 1) /* a file that ends between two members is whole and may be valid */
        require(again != GSC_OK || status == GSC_OK, "damage does not make an invalid file valid");
    if (kind == DAMAGE_END && members == 1)
        require(again != GSC_OK, "a file without its end is refused");
    if (again == GSC_OK && status == GSC_OK)
        require_equal(&plain, &gzipped);
    gsc_idx_free(&plain);
    gsc_idx_free(&gzipped);
    free(file.data);
    return 0;
}
