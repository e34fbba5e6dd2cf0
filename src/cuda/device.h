/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: what the kernels need of their compiler, under one set of names for three: nvcc, clang's CUDA mode without
 * a toolkit (__nvvm builtins), and the host's C++ compiler. Kernels that were compiled for the host run as fibers on
 * the stand-in for the driver (tests/cuda/standin), which defines the functions gsc__fiber_*.
 *
 * A kernel is GSC_CUDA_KERNEL(name) { … args … }: extern "C", one struct by value, blocks of at most
 * GSC_CUDA_MAX_THREADS threads in one dimension. All threads of a warp call gsc__warp_*, all of a block
 * gsc__block_barrier. */
#ifndef GSC_CUDA_DEVICE_H
#define GSC_CUDA_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define GSC_DEVICE static __device__ inline
#define GSC_DEVICE_INLINE static __device__ __forceinline__
#define GSC_DEVICE_RARE static __device__ __noinline__ /* keeps its registers out of its callers */
#define GSC_DEVICE_CONSTANT static __device__ const
#define GSC_SHARED __shared__
#if defined(__CUDA_ARCH__) || __CUDACC_VER_MAJOR__ >= 12
#define GSC_GRID_CONSTANT __grid_constant__
#endif
#define GSC_CUDA_ENTRY(threads) extern "C" __global__ void __launch_bounds__(threads)
#elif defined(__CUDA__)
#define GSC_DEVICE static __attribute__((device)) inline
#define GSC_DEVICE_INLINE static __attribute__((device)) __attribute__((always_inline)) inline
#define GSC_DEVICE_RARE static __attribute__((device)) __attribute__((noinline))
#define GSC_DEVICE_CONSTANT static __attribute__((device)) const
#define GSC_SHARED __attribute__((shared))
#define GSC_GRID_CONSTANT
#define GSC_CUDA_ENTRY(threads) extern "C" __attribute__((global)) __attribute__((launch_bounds(threads))) void
/* The inline functions of base and core call memcpy, which string.h declares for the host alone. (A device function of
 * that name would be called, not expanded.) */
#define memcpy __builtin_memcpy
#else
#define GSC_DEVICE static inline
#define GSC_DEVICE_INLINE static inline
#define GSC_DEVICE_RARE static __attribute__((noinline))
#define GSC_DEVICE_CONSTANT static const
#define GSC_SHARED static __attribute__((section("gsc_cuda_shared")))
#define GSC_GRID_CONSTANT
#define GSC_CUDA_ENTRY(threads) extern "C" void
#include "cuda/fiber.h"
#endif

/* Stands before a loop that is not to be unrolled, to save registers. */
#if defined(__CUDACC__) || defined(__CUDA__)
#define GSC_DEVICE_NO_UNROLL _Pragma("unroll 1")
#else
#define GSC_DEVICE_NO_UNROLL
#endif

#include "cuda/shared.h"

/* gsc__kernel_<name>(const gsc__cuda_<name>_args args), as cuda/kernel_list.h lists it. */
#define GSC_CUDA_KERNEL(name)                                                                                          \
    GSC_CUDA_ENTRY(GSC_CUDA_MAX_THREADS) gsc__kernel_##name(GSC_GRID_CONSTANT const gsc__cuda_##name##_args args)

/* Before a loop with few rounds: their arrays then need no memory. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define GSC_UNROLL _Pragma("GCC unroll 8")
#else
#define GSC_UNROLL _Pragma("unroll")
#endif

enum { GSC_WARP = 32 };

#if defined(__CUDACC__)

GSC_DEVICE_INLINE unsigned gsc__thread(void) { return threadIdx.x; }
GSC_DEVICE_INLINE unsigned gsc__block(void) { return blockIdx.x; }
GSC_DEVICE_INLINE unsigned gsc__block_threads(void) { return blockDim.x; }
GSC_DEVICE_INLINE unsigned gsc__grid_blocks(void) { return gridDim.x; }
GSC_DEVICE_INLINE void gsc__block_barrier(void) { __syncthreads(); }
GSC_DEVICE_INLINE void gsc__warp_barrier(void) { __syncwarp(); }
GSC_DEVICE_INLINE void gsc__fence(void) { __threadfence(); }
GSC_DEVICE_INLINE void gsc__fence_system(void) { __threadfence_system(); }
GSC_DEVICE_INLINE bool gsc__warp_any(bool condition) { return __any_sync(0xffffffffu, condition) != 0; }
GSC_DEVICE_INLINE uint32_t gsc__warp_xor_u32(uint32_t value, unsigned mask)
{
    return __shfl_xor_sync(0xffffffffu, value, (int)mask);
}
GSC_DEVICE_INLINE double gsc__divide(double a, double b) { return __ddiv_rn(a, b); }
GSC_DEVICE_INLINE double gsc__square_root(double x) { return __dsqrt_rn(x); }
GSC_DEVICE_INLINE uint64_t gsc__atomic_add_u64(uint64_t *at, uint64_t value) /* returns what was there */
{
    return atomicAdd((unsigned long long *)at, (unsigned long long)value);
}
GSC_DEVICE_INLINE void gsc__atomic_max_u64(uint64_t *at, uint64_t value)
{
    atomicMax((unsigned long long *)at, (unsigned long long)value);
}

#elif defined(__CUDA__)

GSC_DEVICE_INLINE unsigned gsc__thread(void) { return (unsigned)__nvvm_read_ptx_sreg_tid_x(); }
GSC_DEVICE_INLINE unsigned gsc__block(void) { return (unsigned)__nvvm_read_ptx_sreg_ctaid_x(); }
GSC_DEVICE_INLINE unsigned gsc__block_threads(void) { return (unsigned)__nvvm_read_ptx_sreg_ntid_x(); }
GSC_DEVICE_INLINE unsigned gsc__grid_blocks(void) { return (unsigned)__nvvm_read_ptx_sreg_nctaid_x(); }
GSC_DEVICE_INLINE void gsc__block_barrier(void) { __syncthreads(); }
/* clang has builtins for these three, but only where it has found a toolkit. */
GSC_DEVICE_INLINE void gsc__warp_barrier(void) { __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
GSC_DEVICE_INLINE void gsc__fence(void) { __nvvm_membar_gl(); }
GSC_DEVICE_INLINE void gsc__fence_system(void) { __nvvm_membar_sys(); }
GSC_DEVICE_INLINE bool gsc__warp_any(bool condition)
{
    uint32_t any;
    __asm__ volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.any.pred p, p, 0xffffffff; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(any)
                     : "r"((uint32_t)condition)
                     : "memory");
    return any != 0;
}
GSC_DEVICE_INLINE uint32_t gsc__warp_xor_u32(uint32_t value, unsigned mask)
{
    uint32_t out;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(out) : "r"(value), "r"(mask) : "memory");
    return out;
}
GSC_DEVICE_INLINE double gsc__divide(double a, double b) { return __nvvm_div_rn_d(a, b); }
GSC_DEVICE_INLINE double gsc__square_root(double x) { return __nvvm_sqrt_rn_d(x); }
GSC_DEVICE_INLINE uint64_t gsc__atomic_add_u64(uint64_t *at, uint64_t value)
{
    return (uint64_t)__nvvm_atom_add_gen_ll((long long *)at, (long long)value);
}
GSC_DEVICE_INLINE void gsc__atomic_max_u64(uint64_t *at, uint64_t value)
{
    __nvvm_atom_max_gen_ull((unsigned long long *)at, value);
}

#else

GSC_DEVICE_INLINE unsigned gsc__thread(void) { return gsc__fiber_thread(); }
GSC_DEVICE_INLINE unsigned gsc__block(void) { return gsc__fiber_block(); }
GSC_DEVICE_INLINE unsigned gsc__block_threads(void) { return gsc__fiber_block_threads(); }
GSC_DEVICE_INLINE unsigned gsc__grid_blocks(void) { return gsc__fiber_grid_blocks(); }
/* The caller's line tells barriers apart. */
GSC_DEVICE_INLINE void gsc__block_barrier(int line = __builtin_LINE()) { gsc__fiber_block_barrier(line); }
GSC_DEVICE_INLINE void gsc__warp_barrier(int line = __builtin_LINE()) { gsc__fiber_warp_barrier(line); }
GSC_DEVICE_INLINE void gsc__fence(void) { gsc__fiber_pause(); }
GSC_DEVICE_INLINE void gsc__fence_system(void) { gsc__fiber_pause(); }
GSC_DEVICE_INLINE bool gsc__warp_any(bool condition, int line = __builtin_LINE())
{
    return gsc__fiber_warp_any(condition, line);
}
GSC_DEVICE_INLINE uint32_t gsc__warp_xor_u32(uint32_t value, unsigned mask, int line = __builtin_LINE())
{
    return gsc__fiber_warp_xor(value, mask, line);
}
GSC_DEVICE_INLINE double gsc__divide(double a, double b) { return a / b; }
GSC_DEVICE_INLINE double gsc__square_root(double x) { return gsc__fiber_square_root(x); }
/* Only one fiber runs at a time. */
GSC_DEVICE_INLINE uint64_t gsc__atomic_add_u64(uint64_t *at, uint64_t value)
{
    gsc__fiber_pause();
    uint64_t before = *at;
    *at = before + value;
    return before;
}
GSC_DEVICE_INLINE void gsc__atomic_max_u64(uint64_t *at, uint64_t value)
{
    gsc__fiber_pause();
    *at = value > *at ? value : *at;
}

#endif

GSC_DEVICE_INLINE unsigned gsc__lane(void) { return gsc__thread() % GSC_WARP; }

GSC_DEVICE_INLINE uint64_t gsc__warp_xor_u64(uint64_t value, unsigned mask)
{
    uint32_t low = gsc__warp_xor_u32((uint32_t)value, mask), high = gsc__warp_xor_u32((uint32_t)(value >> 32), mask);
    return (uint64_t)high << 32 | low;
}

GSC_DEVICE_INLINE uint64_t gsc__double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

GSC_DEVICE_INLINE double gsc__bits_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

GSC_DEVICE_INLINE double gsc__warp_xor_f64(double value, unsigned mask)
{
    return gsc__bits_double(gsc__warp_xor_u64(gsc__double_bits(value), mask));
}

/* 16 bytes, aligned: one load, one store. */
struct alignas(16) gsc__vector {
    uint32_t words[4];
};

#if defined(__CUDA__) && !defined(__CUDACC__)
/* clang loads a struct word by word. */
typedef uint32_t gsc__vector_words __attribute__((ext_vector_type(4)));
GSC_DEVICE_INLINE gsc__vector gsc__load_vector(const gsc__vector *from)
{
    gsc__vector_words words = *(const gsc__vector_words *)(const void *)from;
    gsc__vector out = {{words.x, words.y, words.z, words.w}};
    return out;
}
GSC_DEVICE_INLINE void gsc__store_vector(gsc__vector *to, gsc__vector from)
{
    gsc__vector_words words = {from.words[0], from.words[1], from.words[2], from.words[3]};
    *(gsc__vector_words *)(void *)to = words;
}
#else
GSC_DEVICE_INLINE gsc__vector gsc__load_vector(const gsc__vector *from) { return *from; }
GSC_DEVICE_INLINE void gsc__store_vector(gsc__vector *to, gsc__vector from) { *to = from; }
#endif

#endif
