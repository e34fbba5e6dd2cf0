/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h: scalers and gradients on NVIDIA GPUs (libgradscaler-cuda): docs/gpu.md.
 *
 * Neither CUDA's nor NCCL's headers are needed: streams and communicators are declared as the structs that
 * cudaStream_t, CUstream and ncclComm_t point to. The library finds the driver (libcuda.so.1) and NCCL (libnccl.so.2)
 * at their first use, so a program that links it starts on any machine. */
#ifndef GRADSCALER_CUDA_H
#define GRADSCALER_CUDA_H

#include "gradscaler/scaler.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct ncclComm;

/* For gsc_scaler_options.backend, with device {kDLCUDA, index}. Never NULL; lives as long as the process. Where there
 * is no driver or no such device, gsc_scaler_create returns GSC_ERR_DEVICE and says what to do. */
GSC_API const gsc_backend *gsc_cuda_backend(void);

/* For gsc_scaler_options.comm: ranks that agree through NCCL, on the device, without waiting (docs/ranks.md).
 *
 * comm: this rank's communicator, on the scaler's device; borrowed, it must outlive the scaler. stream: where the
 * collectives run; they and the scaler's stream wait for each other by events. NULL: on the scaler's own stream.
 *
 * The first is for gradients that are the same on every rank (data parallelism, after they were averaged), the second
 * for gradients of which each rank holds a shard: norms and clipping are then those of all shards.
 *
 * Where NCCL cannot be loaded, comm is NULL or memory lacks, the result is all zero and gsc_last_error says what to do;
 * gsc_scaler_create refuses it. Free it after the scalers that use it. */
GSC_API gsc_comm gsc_nccl_comm(struct ncclComm *comm, struct CUstream_st *stream);
GSC_API gsc_comm gsc_nccl_comm_sharded(struct ncclComm *comm, struct CUstream_st *stream);
/* What these two have returned; not the communicator. All zero afterwards. NULL and all zero are fine. */
GSC_API void gsc_nccl_comm_free(gsc_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
