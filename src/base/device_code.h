/* SPDX-License-Identifier: Apache-2.0 */
/* device_code.h: for inline functions that device modules compile, too: GSC_INLINE in place of `static inline`, and
 * square roots, which every compiler has under another name. They are rounded once, as IEEE 754 has it. */
#ifndef GSC_BASE_DEVICE_CODE_H
#define GSC_BASE_DEVICE_CODE_H

#if defined(__CUDACC__) || defined(__CUDA__)
#define GSC_INLINE static __attribute__((host)) __attribute__((device)) inline
#else
#define GSC_INLINE static inline
#endif
#define GSC_ALWAYS_INLINE __attribute__((always_inline)) GSC_INLINE

#if defined(__CUDACC__) && !defined(__clang__)
#define gsc__sqrtf sqrtf
#define gsc__sqrt sqrt
#else /* builtins need no declaration of the C library, which clang does not have for devices */
#define gsc__sqrtf __builtin_sqrtf
#define gsc__sqrt __builtin_sqrt
#endif

#endif
