/* SPDX-License-Identifier: Apache-2.0 */
/* random.h: a counter-based random generator (Philox4x32-10, Salmon et al., SC'11): value i of a stream depends on
 * seed, stream and i alone, so results are the same for every thread count and can be resumed from three numbers.
 *
 * Draw i is half i % 2 of block i / 2: the first or the last two of its 32-bit words, low word first. The block's
 * counter is (stream low, stream high, block low, block high), its key (seed low, seed high). `counter` tells how many
 * draws were made; it wraps at 2^64.
 *
 * A gsc_random belongs to one thread at a time. NULL for it: a drawing function returns 0 and leaves a message. */
#ifndef GRADSCALER_RANDOM_H
#define GRADSCALER_RANDOM_H

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gsc_random {
    uint64_t seed;
    uint64_t stream;  /* independent sequences of one seed */
    uint64_t counter; /* values drawn so far */
} gsc_random;

/* The beginning of a stream: the same as a zero-initialised gsc_random with its seed and stream set. Streams from 2^63
 * on are the library's own (gsc_loader shuffles with them). */
GSC_API gsc_random gsc_random_init(uint64_t seed, uint64_t stream);
GSC_API uint64_t gsc_random_bits(gsc_random *random);  /* 64 random bits; one draw */
GSC_API double gsc_random_uniform(gsc_random *random); /* in [0, 1): the top 53 bits of one draw */
/* Mean 0, variance 1; two draws a, b: sqrt(-2 ln a) cos(2 pi b) in double, a in (0, 1], b in [0, 1) (Box and Muller,
 * 1958). The magnitude is below 8.6. */
GSC_API double gsc_random_normal(gsc_random *random);
/* In [0, bound), unbiased: one draw, hardly ever more. 0 without a draw for bound 0. */
GSC_API uint64_t gsc_random_below(gsc_random *random, uint64_t bound);

/* Fill a compact float32 or float64 tensor on the CPU, in row-major order, with what drawing one by one gives: the
 * same bits for every thread count. GSC_ERR_VALUE, nothing drawn or written: another dtype, layout or device; a bound,
 * mean or deviation that is not finite. */

/* low + uniform * (high - low), computed in double, rounded once to the dtype and kept in [low, high) there; low where
 * low == high. Also GSC_ERR_VALUE: low > high, high - low overflows, a bound outside of the dtype's range, or no
 * float32 between them. */
GSC_API gsc_status gsc_random_fill_uniform(gsc_random *random, DLTensor *out, double low, double high);
/* mean + deviation * normal, computed in double, rounded once to the dtype. Also GSC_ERR_VALUE: deviation < 0, or
 * values would leave the dtype's range. */
GSC_API gsc_status gsc_random_fill_normal(gsc_random *random, DLTensor *out, double mean, double deviation);

/* A uniformly random order of the n numbers at `values`: Fisher-Yates from the end, one gsc_random_below a number. NULL
 * values: nothing happens. */
GSC_API void gsc_random_shuffle(gsc_random *random, int64_t *values, size_t n);

#ifdef __cplusplus
}
#endif
#endif
