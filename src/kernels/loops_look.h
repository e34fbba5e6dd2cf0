/* SPDX-License-Identifier: Apache-2.0 */
/* loops_look.h: the largest magnitude of elements as they are, at the price of an or. A part of loops_scan.h. Each
 * element is looked at through an integer of its size; of float64, the upper half is. */

INLINE int64_t scan_one_look32(uint32_t *x, float unused, bool store)
{
    (void)unused, (void)store;
    return *(bits32 *)x & INT32_MAX;
}

INLINE void scan_vector_look32(uint32_t *x, float unused, bool store, seen_f32 *seen, size_t v)
{
    (void)unused, (void)store;
    bits_f32 y;
    memcpy(&y, x, sizeof y);
    seen->max[v] = larger_f32(y & INT32_MAX, seen->max[v]);
}

INLINE int64_t scan_one_look64(uint64_t *x, float unused, bool store)
{
    (void)unused, (void)store;
    return (int64_t)(*(bits64 *)x & INT64_MAX) >> 32;
}

INLINE void scan_vector_look64(uint64_t *x, float unused, bool store, seen_f32 *seen, size_t v)
{
    (void)unused, (void)store;
    bits_f64 y;
    memcpy(&y, x, sizeof y);
    seen->max[v] = larger_f32((bits_f32)(y & (int64_t)0x7fffffff00000000), seen->max[v]);
}

INLINE int64_t scan_one_look16(uint16_t *x, float unused, bool store)
{
    (void)unused, (void)store;
    return *x & INT16_MAX;
}

INLINE void scan_vector_look16(uint16_t *x, float unused, bool store, seen_bf16 *seen, size_t v)
{
    (void)unused, (void)store;
    halves y;
    memcpy(&y, x, sizeof y);
    seen->max[v] = larger_halves(y & INT16_MAX, seen->max[v]);
}

typedef seen_f32 seen_look32, seen_look64;
typedef seen_bf16 seen_look16;
DEFINE_SCAN_RUNS(look32, uint32_t, float, 8192)
DEFINE_SCAN_RUNS(look64, uint64_t, float, 8192)
DEFINE_SCAN_RUNS(look16, uint16_t, float, 8192)

INLINE uint64_t look32(const gsc__run *runs, size_t n_runs)
{
    seen_f32 seen = {.max = {{0}}};
    int64_t max = scan_runs_look32(runs, n_runs, 1, false, &seen), seen_max = max_f32(seen.max);
    return (uint64_t)(seen_max > max ? seen_max : max);
}

INLINE uint64_t look64(const gsc__run *runs, size_t n_runs)
{
    seen_f32 seen = {.max = {{0}}};
    int64_t max = scan_runs_look64(runs, n_runs, 1, false, &seen), seen_max = max_f32(seen.max);
    return (uint64_t)(seen_max > max ? seen_max : max) << 32;
}

INLINE uint64_t look16(const gsc__run *runs, size_t n_runs)
{
    seen_bf16 seen = {.max = {{0}}};
    int64_t max = scan_runs_look16(runs, n_runs, 1, false, &seen), seen_max = max_halves(seen.max);
    return (uint64_t)(seen_max > max ? seen_max : max);
}

INLINE uint64_t look(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    (void)factor, (void)partials;
    switch (kind) {
    case GSC_F32: return look32(runs, n_runs);
    case GSC_F64: return look64(runs, n_runs);
    default: return look16(runs, n_runs);
    }
}
