/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h: what the stand-in offers of the driver's interface beside the module's own list (cuda/driver.h): what programs
 * around the module call. Values are macros, so that driver.h may come to name the same ones. */
#ifndef GSC_TESTS_STANDIN_ABI_H
#define GSC_TESTS_STANDIN_ABI_H

#include <stddef.h>

#include "cuda/driver.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

#define CUDA_ERROR_DEINITIALIZED 4
#define CUDA_ERROR_INVALID_CONTEXT 201
#define CUDA_ERROR_INVALID_HANDLE 400
#define CUDA_ERROR_ILLEGAL_STATE 401
#define CUDA_ERROR_NOT_READY 600
#define CUDA_ERROR_ILLEGAL_ADDRESS 700
#define CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES 701
#define CUDA_ERROR_LAUNCH_TIMEOUT 702
#define CUDA_ERROR_CONTEXT_IS_DESTROYED 709
#define CUDA_ERROR_LAUNCH_FAILED 719
#define CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED 900
#define CUDA_ERROR_STREAM_CAPTURE_INVALIDATED 901
#define CUDA_ERROR_STREAM_CAPTURE_MERGE 902
#define CUDA_ERROR_STREAM_CAPTURE_UNMATCHED 903
#define CUDA_ERROR_STREAM_CAPTURE_UNJOINED 904
#define CUDA_ERROR_STREAM_CAPTURE_ISOLATION 905
#define CUDA_ERROR_STREAM_CAPTURE_IMPLICIT 906
#define CUDA_ERROR_CAPTURED_EVENT 907
#define CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD 908
#define CUDA_ERROR_UNKNOWN 999

#define CU_STREAM_PER_THREAD ((CUstream)2)
#define CU_STREAM_NON_BLOCKING 1
#define CU_STREAM_CAPTURE_STATUS_ACTIVE 1
#define CU_STREAM_CAPTURE_STATUS_INVALIDATED 2
#define CU_STREAM_CAPTURE_MODE_GLOBAL 0
#define CU_STREAM_CAPTURE_MODE_THREAD_LOCAL 1

#define CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK 0
#define CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES 1
#define CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES 3
#define CU_FUNC_ATTRIBUTE_NUM_REGS 4
#define CU_POINTER_ATTRIBUTE_MEMORY_TYPE 2
#define CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL 9
#define CU_MEMORYTYPE_HOST 1
#define CU_MEMORYTYPE_DEVICE 2

/* X(result, name, parameters), as GSC_CUDA_DRIVER_FUNCTIONS. */
#define STANDIN_FUNCTIONS(X)                                                                                           \
    X(CUresult, cuDevicePrimaryCtxReset_v2, (CUdevice device))                                                         \
    X(CUresult, cuCtxSetCurrent, (CUcontext context))                                                                  \
    X(CUresult, cuCtxGetCurrent, (CUcontext * context))                                                                \
    X(CUresult, cuCtxGetDevice, (CUdevice * device))                                                                   \
    X(CUresult, cuFuncGetAttribute, (int *value, int attribute, CUfunction function))                                  \
    X(CUresult, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                           \
      (int *blocks, CUfunction function, int block_size, size_t shared_bytes))                                         \
    X(CUresult, cuMemGetInfo_v2, (size_t * available, size_t * total))                                                 \
    X(CUresult, cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr address))                              \
    X(CUresult, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                                     \
    X(CUresult, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                                           \
    X(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))               \
    X(CUresult, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))               \
    X(CUresult, cuMemsetD32Async, (CUdeviceptr address, unsigned value, size_t count, CUstream stream))                \
    X(CUresult, cuStreamCreate, (CUstream * stream, unsigned flags))                                                   \
    X(CUresult, cuStreamDestroy_v2, (CUstream stream))                                                                 \
    X(CUresult, cuStreamQuery, (CUstream stream))                                                                      \
    X(CUresult, cuStreamBeginCapture_v2, (CUstream stream, int mode))                                                  \
    X(CUresult, cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                \
    X(CUresult, cuEventQuery, (CUevent event))                                                                         \
    X(CUresult, cuEventSynchronize, (CUevent event))                                                                   \
    X(CUresult, cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))            \
    X(CUresult, cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                    \
    X(CUresult, cuGraphExecDestroy, (CUgraphExec exec))                                                                \
    X(CUresult, cuGraphDestroy, (CUgraph graph))

#define STANDIN_DECLARE(result, name, parameters) __attribute__((visibility("default"))) result name parameters;
GSC_CUDA_DRIVER_FUNCTIONS(STANDIN_DECLARE)
STANDIN_FUNCTIONS(STANDIN_DECLARE)
#undef STANDIN_DECLARE

#endif
