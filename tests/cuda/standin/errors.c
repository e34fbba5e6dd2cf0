/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c: names and texts of the driver's errors. */
#include "call.h"

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text},
    ERROR(CUDA_SUCCESS, "no error") ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument") ERROR(
        CUDA_ERROR_OUT_OF_MEMORY, "out of memory") ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error")
        ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down") ERROR(CUDA_ERROR_NO_DEVICE,
                                                                      "no CUDA-capable device is detected")
            ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal") ERROR(
                CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid") ERROR(CUDA_ERROR_INVALID_CONTEXT,
                                                                                  "invalid device context")
                ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device") ERROR(
                    CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                    "the provided PTX was compiled with an unsupported toolchain.") ERROR(CUDA_ERROR_INVALID_HANDLE,
                                                                                          "invalid resource handle")
                    ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state") ERROR(
                        CUDA_ERROR_NOT_FOUND, "named symbol not found") ERROR(CUDA_ERROR_NOT_READY, "device not ready")
                        ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")
                            ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")
                                ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated") ERROR(
                                    CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")
                                    ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure") ERROR(
                                        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                        "operation not permitted when stream is capturing")
                                        ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                                              "operation failed due to a previous error during capture")
                                            ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE,
                                                  "operation would result in a merge of separate capture sequences")
                                                ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                                                      "capture was not ended in the same stream as it began")
                                                    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                                                          "capturing stream has unjoined work")
                                                        ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                                                              "dependency created on uncaptured work in another stream")
                                                            ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                                                                  "operation would make the legacy stream depend on a "
                                                                  "capturing blocking stream")
                                                                ERROR(CUDA_ERROR_CAPTURED_EVENT,
                                                                      "operation not permitted on an event last "
                                                                      "recorded in a capturing stream")
                                                                    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                                                                          "attempt to terminate a thread-local capture "
                                                                          "sequence from another thread")
                                                                        ERROR(CUDA_ERROR_UNKNOWN, "unknown error")
#undef ERROR
};

static CUresult find(CUresult error, const char **out, bool wants_name)
{
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) {
            *out = wants_name ? errors[i].name : errors[i].text;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **text) { CALL(cuGetErrorName, find(error, text, true)); }
CUresult cuGetErrorString(CUresult error, const char **text) { CALL(cuGetErrorString, find(error, text, false)); }
