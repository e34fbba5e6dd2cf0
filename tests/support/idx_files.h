/* SPDX-License-Identifier: Apache-2.0 */
/* idx_files.h: IDX files for the tests of idx and dataset, and gzip files made by hand (stored blocks), so that tests
 * can damage each byte. */
#ifndef GSC_TESTS_IDX_FILES_H
#define GSC_TESTS_IDX_FILES_H

#include <stdint.h>
#include <string.h>

typedef struct bytes {
    size_t size;
    uint8_t data[4096];
} bytes;

static inline void append(bytes *to, const void *data, size_t size)
{
    assert_true(to->size + size <= sizeof to->data);
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

static inline bytes idx_bytes(uint8_t ndim, const uint32_t *shape, const uint8_t *data, size_t count)
{
    bytes out = {0};
    append(&out, (const uint8_t[]){0, 0, 8, ndim}, 4);
    for (uint8_t i = 0; i < ndim; i++)
        append(&out,
               (const uint8_t[]){(uint8_t)(shape[i] >> 24), (uint8_t)(shape[i] >> 16), (uint8_t)(shape[i] >> 8),
                                 (uint8_t)shape[i]},
               4);
    append(&out, data, count);
    return out;
}

static inline void append_little_endian(bytes *to, uint32_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        append(to, &(uint8_t){(uint8_t)(value >> 8 * i)}, 1);
}

/* One gzip member with one stored block: 10 bytes of header, 5 of block header, the content, CRC-32, size. */
static inline bytes gzip_bytes(const bytes *content)
{
    bytes out = {0};
    append(&out, (const uint8_t[]){0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1}, 11);
    append_little_endian(&out, (uint32_t)content->size, 2);
    append_little_endian(&out, ~(uint32_t)content->size, 2);
    append(&out, content->data, content->size);
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < content->size; i++) {
        crc ^= content->data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    append_little_endian(&out, ~crc, 4);
    append_little_endian(&out, (uint32_t)content->size, 4);
    return out;
}

#endif
