/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels.cpp: kernels, right and wrong ones, with which the stand-in itself is tested. */
#include "standin/test_kernels.h"

#include "base/half.h"
#include "cuda/device.h"
#include "standin/add_kernels.h"

#define TEST_KERNEL(name) static void name(const test_args args)

static size_t global_thread() { return (size_t)gsc__block() * gsc__block_threads() + gsc__thread(); }
static size_t all_threads() { return (size_t)gsc__grid_blocks() * gsc__block_threads(); }

TEST_KERNEL(fill)
{
    for (size_t i = global_thread(); i < args.count; i += all_threads())
        args.to[i] = args.value;
}

TEST_KERNEL(add)
{
    for (size_t i = global_thread(); i < args.count; i += all_threads())
        args.to[i] += args.from[i];
}

TEST_KERNEL(note_thread) { args.to[0] = (float)gsc__thread(); }
TEST_KERNEL(note_block) { args.to[0] = (float)gsc__block(); }

GSC_SHARED float cells[256];

TEST_KERNEL(rotate)
{
    cells[gsc__thread()] = args.from[global_thread()];
    gsc__block_barrier();
    args.to[global_thread()] = cells[(gsc__thread() + 1) % gsc__block_threads()];
}

TEST_KERNEL(rotate_carelessly)
{
    cells[gsc__thread()] = args.from[global_thread()];
    args.to[global_thread()] = cells[(gsc__thread() + 1) % gsc__block_threads()];
}

TEST_KERNEL(read_shared) { args.to[0] = cells[1]; }

TEST_KERNEL(warp_sum)
{
    float sum = args.from[global_thread()];
    for (unsigned mask = GSC_WARP / 2; mask > 0; mask /= 2)
        sum += gsc__bits_float(gsc__warp_xor_u32(gsc__float_bits(sum), mask));
    args.to[global_thread()] = sum;
}

TEST_KERNEL(warp_any) { args.to[global_thread()] = gsc__warp_any(args.from[global_thread()] > 0) ? 1.0F : 0.0F; }

TEST_KERNEL(count_threads) { gsc__atomic_add_u64(args.counter, 1); }

TEST_KERNEL(count_carelessly)
{
    uint64_t before = *args.counter;
    gsc__fence();
    *args.counter = before + 1;
}

TEST_KERNEL(leave_early)
{
    if (gsc__thread() == 0)
        return;
    gsc__block_barrier();
    args.to[0] = 0;
}

TEST_KERNEL(two_barriers)
{
    if (gsc__thread() % 2 == 0)
        gsc__block_barrier();
    else
        gsc__block_barrier();
    args.to[0] = 0;
}

TEST_KERNEL(two_warp_ops)
{
    bool any = gsc__thread() % 2 == 0 ? gsc__warp_any(true) : gsc__warp_xor_u32(0, 1) == 0;
    args.to[0] = any ? 1.0F : 0.0F;
}

TEST_KERNEL(lane_leaves)
{
    if (gsc__thread() == 5)
        return;
    args.to[0] = (float)gsc__warp_xor_u32(1, 1);
}

TEST_KERNEL(lane_leaves_sync)
{
    if (gsc__thread() == 5)
        return;
    gsc__warp_barrier();
    args.to[gsc__thread()] = 1;
}

TEST_KERNEL(warp_misses)
{
    if (gsc__thread() % 2 == 0)
        gsc__warp_barrier();
    gsc__block_barrier();
    args.to[0] = 0;
}

TEST_KERNEL(half_up)
{
    volatile float one = 1, little = 5.9604645e-8F;
    args.to[0] = one + little;
}

/* A member: clang checks no copies of whole structs, as gcc does. */
TEST_KERNEL(misaligned)
{
    args.to[0] = gsc__bits_float(((const gsc__vector *)(const void *)(args.from + 1))->words[0]);
}

/* A warp for every 4096 elements. */
TEST_KERNEL(largest)
{
    size_t item = global_thread() / GSC_WARP, begin = item * 4096;
    uint32_t most = 0;
    for (size_t i = begin + gsc__lane() * 4; i < begin + 4096 && i < args.count; i += 4 * GSC_WARP) {
        gsc__vector vector = *(const gsc__vector *)(const void *)(args.from + i);
        for (int k = 0; k < 4; k++) {
            uint32_t magnitude = vector.words[k] & 0x7fffffff;
            most = magnitude > most ? magnitude : most;
        }
    }
    for (unsigned mask = GSC_WARP / 2; mask > 0; mask /= 2) {
        uint32_t other = gsc__warp_xor_u32(most, mask);
        most = other > most ? other : most;
    }
    if (gsc__lane() == 0 && begin < args.count)
        args.to[item] = gsc__bits_float(most);
}

#define TEST_ENTRY(name) {#name, call_kernel<test_args, name>, sizeof(test_args)},

static const standin_kernel kernels[] = {TEST_KERNELS(TEST_ENTRY)};

__attribute__((constructor)) static void add_all() { add_kernels(kernels, sizeof kernels / sizeof *kernels); }
