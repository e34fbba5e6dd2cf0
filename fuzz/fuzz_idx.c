/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_idx.c: the input is a file. Unless it is gzipped, gsc_idx_read must agree with the few lines of reference(). */
#include <string.h>

#include "gradscaler/data.h"
#include "support.h"

/* A second description of the format: returns whether the bytes are a whole IDX file of unsigned bytes. */
static bool reference(const uint8_t *data, size_t size, gsc_idx *out)
{
    if (size < 4 || data[0] != 0 || data[1] != 0 || data[2] != 8 || data[3] < 1 || data[3] > GSC_IDX_MAX_DIMS)
        return false;
    size_t header = 4 + 4 * (size_t)data[3];
    if (size < header)
        return false;
    out->ndim = data[3];
    double count = 1; /* exact where it matters: a product beyond 2^53 is too large for any input */
    for (int32_t i = 0; i < out->ndim; i++) {
        input in = {data + 4 + 4 * (size_t)i, 4};
        uint32_t reversed = take_u32(&in);
        out->shape[i] =
            (int64_t)(reversed >> 24 | (reversed >> 8 & 0xff00) | (reversed & 0xff00) << 8 | (reversed & 0xff) << 24);
        count *= (double)out->shape[i];
    }
    out->count = size - header;
    return count == (double)out->count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    bool gzipped = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
    gsc_idx idx, untouched, expected = {0};
    memset(&idx, 0xa5, sizeof idx);
    memset(&untouched, 0xa5, sizeof untouched);
    forget_message();
    gsc_status status = gsc_idx_read(path, &idx);
    require(gzipped || reference(data, size, &expected) == (status == GSC_OK),
            "valid files are read, others are refused");
    if (status != GSC_OK) {
        require(status == GSC_ERR_VALUE, "a file is refused for its content, not with %s", gsc_status_name(status));
        require(memcmp(&idx, &untouched, sizeof idx) == 0, "a refusal leaves the output alone");
        require_message(path);
        return 0;
    }
    if (!gzipped) {
        require(idx.ndim == expected.ndim && memcmp(idx.shape, expected.shape, sizeof idx.shape) == 0, "the shape");
        require(idx.count == expected.count, "the count");
        require(memcmp(idx.data, data + (size - idx.count), idx.count) == 0, "the elements");
    }
    gsc_idx_free(&idx);
    return 0;
}
