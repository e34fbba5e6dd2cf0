/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h: the struct behind gsc_cuda_optim. optim_create.c creates optimizers, optim_check.c checks what they are
 * created from and step with, optim_step.c steps them, optim.c has their streams and
 * properties. */
#ifndef GSC_CUDA_OPTIM_H
#define GSC_CUDA_OPTIM_H

#include "base/blocks.h"
#include "base/optim_settings.h"
#include "cuda/context.h"
#include "cuda/optim_shared.h"
#include "cuda/shared.h"
#include "gradscaler/cuda.h"

typedef struct gsc__cuda_parameter {
    DLTensor *tensor;      /* borrowed */
    DLTensor *const *grad; /* where the pointer to its gradient is; borrowed */
    const char *name;      /* in gsc_cuda_optim.names, or NULL */
    size_t group;
    gsc__kind kind; /* GSC_F32 or GSC_F64 */
    uint64_t elements;
    int32_t ndim; /* the shape at creation; steps check that it is still the same */
    int64_t *shape;
    DLTensor states[GSC_OPTIM_STATES]; /* data NULL: no such state */
} gsc__cuda_parameter;

struct gsc_cuda_optim {
    gsc_optimizer interface;
    gsc__optim_kind kind;
    size_t group_count, param_count;
    gsc__optim_settings *groups;
    gsc__cuda_parameter *params;
    int64_t *shapes; /* of all parameters */
    char *names;     /* also */
    DLDevice device;
    gsc__cuda_context *context;
    CUdeviceptr memory; /* the table's arrays and the states, one block */
    gsc__cuda_optim_table table;
    CUstream stream;
    CUevent event;                /* after the last work that is not in a graph: another stream waits for it, since the
                                     stream may be gone by then */
    bool enqueued;                /* such work may not have finished */
    bool marked;                  /* the event was recorded after it */
    bool capturing;               /* the work between begin and end becomes a part of a graph */
    bool in_graph;                /* as did some work since the last change of the stream */
    gsc__cuda_optim_place *sent;  /* what the device has, where it is known */
    gsc__cuda_optim_place *found; /* by the step at work */
    bool sent_unknown;            /* an upload has failed */
    bool captured;                /* a graph sends its own places, whenever it is replayed */
    int64_t *step_counts;         /* scratch for reading them */
};

/* ` ("0.weight")` for messages; empty for a parameter without a name. */
typedef struct gsc__cuda_name_text {
    char text[128];
} gsc__cuda_name_text;
gsc__cuda_name_text gsc__cuda_optim_name(const char *name);

/* `function` begins the messages; *param_count is the total over the groups, *device that of all parameters. */
gsc_status gsc__cuda_optim_check_groups(gsc__optim_kind kind, const char *function, const gsc_cuda_param_group *groups,
                                        size_t n, size_t *param_count, DLDevice *device);
/* 0 where a size is 0. Of a tensor that was checked. */
uint64_t gsc__cuda_optim_elements(const DLTensor *tensor);
/* Whether parameter and gradient (not NULL) can take part in a step. */
gsc_status gsc__cuda_optim_check_step(const gsc_cuda_optim *optim, size_t index, const DLTensor *grad);

/* Enqueues a kernel of so many threads at least. Inside of enter and leave. */
static inline gsc_status gsc__cuda_optim_launch(const gsc_cuda_optim *optim, int kernel, size_t threads,
                                                const void *args, const char *what)
{
    return gsc__cuda_launch(optim->context, kernel, gsc__parts(threads, GSC_CUDA_MAX_THREADS), GSC_CUDA_MAX_THREADS,
                            optim->stream, args, what);
}

/* Work is enqueued between these two, on that stream, which becomes the optimizer's; `end` follows where `begin` has
 * succeeded, whatever became of the work. `api` begins messages. They enter and leave the context. */
gsc_status gsc__cuda_optim_begin(gsc_cuda_optim *optim, CUstream stream, const char *api);
void gsc__cuda_optim_end(gsc_cuda_optim *optim);
/* The callbacks of `interface`. */
gsc_status gsc__cuda_optim_step_plain(void *self, const gsc_step_args *args, double *value, bool *has_value);
gsc_status gsc__cuda_optim_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                       double *value, bool *has_value);

#endif
