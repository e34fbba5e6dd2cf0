/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h: the part of CUDA's driver API that the module uses, declared here (facts of its ABI, as CUDA 12 and 13 have
 * it) and found in libcuda.so.1 at the first use: so that building needs no CUDA header, linking no CUDA library, and
 * a program starts where there is no driver. */
#ifndef GSC_CUDA_DRIVER_H
#define GSC_CUDA_DRIVER_H

#include <stddef.h>

#include "gradscaler/status.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream; /* the runtime's cudaStream_t, too */
typedef struct CUevent_st *CUevent;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,

    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,

    CU_MEMHOSTALLOC_PORTABLE = 1,
    CU_MEMHOSTALLOC_DEVICEMAP = 2,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2
};

#define CU_STREAM_LEGACY ((CUstream)1) /* the same as NULL, but where that means the per-thread default stream */

/* X(result, name, parameters): each function under the name that the library exports. */
#define GSC_CUDA_DRIVER_FUNCTIONS(X)                                                                                   \
    X(CUresult, cuInit, (unsigned flags))                                                                              \
    X(CUresult, cuDriverGetVersion, (int *version))                                                                    \
    X(CUresult, cuGetErrorName, (CUresult error, const char **text))                                                   \
    X(CUresult, cuGetErrorString, (CUresult error, const char **text))                                                 \
    X(CUresult, cuDeviceGetCount, (int *count))                                                                        \
    X(CUresult, cuDeviceGet, (CUdevice * device, int ordinal))                                                         \
    X(CUresult, cuDeviceGetName, (char *name, int length, CUdevice device))                                            \
    X(CUresult, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                                    \
    X(CUresult, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                      \
    X(CUresult, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                       \
    X(CUresult, cuCtxPushCurrent_v2, (CUcontext context))                                                              \
    X(CUresult, cuCtxPopCurrent_v2, (CUcontext * context))                                                             \
    X(CUresult, cuCtxSynchronize, (void))                                                                              \
    X(CUresult, cuModuleLoadData, (CUmodule * module, const void *image))                                              \
    X(CUresult, cuModuleUnload, (CUmodule module))                                                                     \
    X(CUresult, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                       \
    X(CUresult, cuLaunchKernel,                                                                                        \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra))                     \
    X(CUresult, cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                                  \
    X(CUresult, cuMemFree_v2, (CUdeviceptr address))                                                                   \
    X(CUresult, cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))                                        \
    X(CUresult, cuMemHostGetDevicePointer_v2, (CUdeviceptr * device_address, void *address, unsigned flags))           \
    X(CUresult, cuMemFreeHost, (void *address))                                                                        \
    X(CUresult, cuMemsetD8Async, (CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream))            \
    X(CUresult, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                     \
    X(CUresult, cuMemcpyPeerAsync,                                                                                     \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)) \
    X(CUresult, cuStreamSynchronize, (CUstream stream))                                                                \
    X(CUresult, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                   \
    X(CUresult, cuStreamIsCapturing, (CUstream stream, int *status))                                                   \
    X(CUresult, cuThreadExchangeStreamCaptureMode, (int *mode))                                                        \
    X(CUresult, cuEventCreate, (CUevent * event, unsigned flags))                                                      \
    X(CUresult, cuEventDestroy_v2, (CUevent event))                                                                    \
    X(CUresult, cuEventRecord, (CUevent event, CUstream stream))

/* The functions, by name. */
typedef struct gsc__cuda_driver {
#define GSC_CUDA_DECLARE_FUNCTION(result, name, parameters) result(*name) parameters;
    GSC_CUDA_DRIVER_FUNCTIONS(GSC_CUDA_DECLARE_FUNCTION)
#undef GSC_CUDA_DECLARE_FUNCTION
} gsc__cuda_driver;

/* Loads the driver and calls cuInit, once; from any thread. GSC_ERR_DEVICE: there is none, it is too old, or it does
 * not start; the message begins with `api` and says what to do. A driver that was not there is looked for again. */
gsc_status gsc__cuda_driver_load(const char *api);
/* After gsc__cuda_driver_load has returned GSC_OK. */
const gsc__cuda_driver *gsc__cuda(void);

/* GSC_ERR_DEVICE with the message "CUDA: could not <what>: <function>: <name of the error>: <the driver's text>";
 * GSC_OK where result is CUDA_SUCCESS. */
gsc_status gsc__cuda_check(CUresult result, const char *function, const char *what);
/* The same of a function that allocates: GSC_ERR_MEMORY where there is no memory left. */
gsc_status gsc__cuda_check_allocation(CUresult result, const char *function, const char *what);

/* Calls a function of the driver and returns its failure from the calling function. */
#define GSC_CUDA_CALL(what, name, ...) gsc__cuda_check(gsc__cuda()->name(__VA_ARGS__), #name, what)
#define GSC_CUDA_TRY(what, name, ...) GSC_TRY(GSC_CUDA_CALL(what, name, __VA_ARGS__))

#endif
