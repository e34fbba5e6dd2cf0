/* SPDX-License-Identifier: Apache-2.0 */
/* device_code.h: for inline functions that device modules compile, too: GSC_INLINE in place of `static inline`. */
#ifndef GSC_BASE_DEVICE_CODE_H
#define GSC_BASE_DEVICE_CODE_H

#if defined(__CUDACC__) || defined(__CUDA__)
#define GSC_INLINE static __attribute__((host)) __attribute__((device)) inline
#else
#define GSC_INLINE static inline
#endif

#endif
