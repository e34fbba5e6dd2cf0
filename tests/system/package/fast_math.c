/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of a library that was built with -ffast-math in CFLAGS. Compares bits: this file may be built so too,
 * and then its own arithmetic flushes subnormals (FAST_MATH). */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <gradscaler/gradscaler.h>

static int failures;

static void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        failures++;
    }
}

/* Unscales one float32 given by its bits; returns the result's bits. */
static uint32_t unscale(uint32_t bits, double scale, bool *found_inf)
{
    int64_t shape[1] = {1};
    DLTensor gradient = {&bits, {kDLCPU, 0}, 1, GSC_FLOAT32, shape, NULL, 0};
    DLTensor *list[1] = {&gradient};
    expect(gsc_unscale_grads(list, 1, scale, found_inf) == GSC_OK, "gsc_unscale_grads succeeds");
    return bits;
}

int main(void)
{
    bool found_inf = false;
    unscale(0x7fc00000u, 2.0, &found_inf);
    expect(found_inf, "NaN is found");
    unscale(0x7f800000u, 2.0, &found_inf);
    expect(found_inf, "infinity is found");
    unscale(0x7f000000u, 0.25, &found_inf);
    expect(found_inf, "an overflow of the division is found");
    expect(unscale(0x3f800000u, 4.0, &found_inf) == 0x3e800000u && !found_inf, "1 / 4 is 0.25");
    expect(unscale(0x00400000u, 2.0, &found_inf) == 0x00200000u, "a subnormal is halved, not flushed");
    expect(unscale(0x00800000u, 4.0, &found_inf) == 0x00200000u, "a result that is subnormal is kept");
#ifndef FAST_MATH
    volatile float smallest = 0x1p-126f;
    float half = smallest / 2;
    uint32_t bits;
    memcpy(&bits, &half, sizeof bits);
    expect(bits == 0x00400000u, "loading the library leaves the process's floating-point mode alone");
#endif
    return failures != 0;
}
