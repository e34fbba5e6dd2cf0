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

/* SGD, Adam and AdamW over parameters on one GPU: the optimizers of optim.h with the same formulas, defaults and
 * checks, and from the same gradients the same bits. A step is a few launches, however many parameters there are. With
 * a scaler the gradients are unscaled and clipped on the fly and stay as they are; after an overflow the device leaves
 * parameters, states and step counts unchanged, of which the host need not know.
 *
 * All memory is allocated at creation. Steps and setters only enqueue work: they wait for nothing and can be captured
 * in a graph. A captured step has the addresses of its parameters and gradients, and the absence of gradients, as they
 * were at the capture; step counts and learning rates are in device memory, so each replay counts on and uses the
 * learning rate set last.
 *
 * Every optimizer has one stream at a time: that which the scaler that stepped it last has for its device, or that of
 * gsc_cuda_optim_set_stream, at first the legacy default stream. Work on a new one comes after what the optimizer
 * enqueued on that before, which may be destroyed by then; but replays of graphs are the caller's to order, with
 * events. An optimizer belongs to one thread at a time. */
typedef struct gsc_cuda_param_group {
    DLTensor *const *params;  /* float32 or float64, compact, none in another's memory. The array is copied; the tensors
                                 are borrowed, must outlive the optimizer, and are read again at each step: data may
                                 move */
    DLTensor *const *grads;   /* grads[i] is the gradient of params[i], NULL: it has none now. The array is borrowed and
                                 read again at each step, and so are the tensors: compact, of the parameter's shape and
                                 dtype, with float32 parameters also bfloat16 or float16; converted exactly */
    const char *const *names; /* copied; NULL, or names[i] NULL: none */
    size_t count;             /* 0 is fine */
    double lr;                /* the settings are those of gsc_param_group (optim.h) */
    double weight_decay;
    double momentum, dampening;
    bool nesterov;
    double beta1, beta2, eps;
    uint64_t reserved[8];
} gsc_cuda_param_group;

/* The defaults of gsc_param_group_default_sgd and gsc_param_group_default_adam, without names. */
GSC_API gsc_cuda_param_group gsc_cuda_param_group_default_sgd(DLTensor *const *params, DLTensor *const *grads,
                                                              size_t count, double lr);
GSC_API gsc_cuda_param_group gsc_cuda_param_group_default_adam(DLTensor *const *params, DLTensor *const *grads,
                                                               size_t count, double lr);

typedef struct gsc_cuda_optim gsc_cuda_optim;
/* n >= 1 groups, with at least one parameter, all on one device {kDLCUDA, index}. Waits for the device. *out is set on
 * success only. Errors: GSC_ERR_VALUE naming the group, the field or parameter and what is allowed; GSC_ERR_DEVICE: a
 * parameter that is elsewhere, no driver, or the driver failed; GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_cuda_optim_create_sgd(const gsc_cuda_param_group *groups, size_t n, gsc_cuda_optim **out);
GSC_API gsc_status gsc_cuda_optim_create_adam(const gsc_cuda_param_group *groups, size_t n, gsc_cuda_optim **out);
GSC_API gsc_status gsc_cuda_optim_create_adamw(const gsc_cuda_param_group *groups, size_t n, gsc_cuda_optim **out);
/* Waits for the work enqueued. Graphs that hold a step must not run any more. NULL is fine. */
GSC_API void gsc_cuda_optim_free(gsc_cuda_optim *optim);

/* What a scaler takes; lives as long as the optim (gsc_scaler_forget it first). NULL for NULL. Its step calls the
 * closure, if any, once before the step and returns its loss, and works on args->stream, if any; its step_scaled
 * refuses a closure, works on scaling->stream and takes multiplier_dev and found_inf_dev where they are given,
 * multiplier where they are not. */
GSC_API const gsc_optimizer *gsc_cuda_optim_optimizer(gsc_cuda_optim *optim);
/* Enqueues one step with the gradients as they are, without a scaler. Nothing changes on errors: GSC_ERR_VALUE: a
 * gradient or parameter no longer has the dtype and shape that it had at creation; GSC_ERR_DEVICE: it is elsewhere, or
 * the driver failed; GSC_ERR_STATE as of set_stream. */
GSC_API gsc_status gsc_cuda_optim_step(gsc_cuda_optim *optim);
/* Work goes to this stream of the parameters' device from now on, as above; the setters and getters below need a stream
 * that exists. NULL: the legacy default stream. GSC_ERR_STATE: the new stream is capturing a graph, which cannot wait
 * for the old one; set it before the capture begins. */
GSC_API gsc_status gsc_cuda_optim_set_stream(gsc_cuda_optim *optim, struct CUstream_st *stream);
GSC_API size_t gsc_cuda_optim_group_count(const gsc_cuda_optim *optim);
/* Enqueued on the optimizer's stream: steps and replayed graphs that come after it use it. (During a capture it becomes
 * a part of the graph.) lr in [0, FLT_MAX]. GSC_ERR_VALUE: another lr, or no such group; GSC_ERR_DEVICE. */
GSC_API gsc_status gsc_cuda_optim_set_lr(gsc_cuda_optim *optim, size_t group, double lr);
/* The one set last; NaN with a message: no such group. */
GSC_API double gsc_cuda_optim_get_lr(const gsc_cuda_optim *optim, size_t group);
/* Parameters in the order of their groups. */
GSC_API size_t gsc_cuda_optim_param_count(const gsc_cuda_optim *optim);
/* NULL: it has none, or no such parameter. */
GSC_API const char *gsc_cuda_optim_param_name(const gsc_cuda_optim *optim, size_t param);
/* The index of the first parameter with this name; SIZE_MAX: none. */
GSC_API size_t gsc_cuda_optim_find_param(const gsc_cuda_optim *optim, const char *name);

/* All that decides how an optimizer goes on, beside its settings: the learning rates, and of each parameter the step
 * count and the states, as in optim.h. */

/* "sgd", "adam" or "adamw"; NULL for NULL. */
GSC_API const char *gsc_cuda_optim_kind_name(const gsc_cuda_optim *optim);
/* Steps that each parameter has made, skipped ones not counted, into counts[gsc_cuda_optim_param_count(optim)]. Waits
 * for the optimizer's stream. GSC_ERR_VALUE: NULL; GSC_ERR_DEVICE. */
GSC_API gsc_status gsc_cuda_optim_get_step_counts(gsc_cuda_optim *optim, int64_t *counts);
/* Enqueued on the optimizer's stream; each in [0, 2^62]. GSC_ERR_VALUE: another count, or NULL; GSC_ERR_DEVICE. */
GSC_API gsc_status gsc_cuda_optim_set_step_counts(gsc_cuda_optim *optim, const int64_t *counts);
/* A parameter's states: "momentum_buffer" (SGD with momentum), "exp_avg", "exp_avg_sq" (Adam, AdamW). NULL: no such
 * index or parameter. */
GSC_API const char *gsc_cuda_optim_state_name(const gsc_cuda_optim *optim, size_t param, size_t index);
/* Borrowed state of a parameter, of its shape and dtype, in memory of its device, zero before its first step; to be
 * read and set by work on the optimizer's stream. NULL: none of this name. */
GSC_API DLTensor *gsc_cuda_optim_state(gsc_cuda_optim *optim, size_t param, const char *name);

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
