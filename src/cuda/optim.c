/* SPDX-License-Identifier: Apache-2.0 */
/* optim.c: an optimizer's stream, and its properties: learning rates, names, step counts, states. */
#include <math.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/try.h"
#include "cuda/optim.h"
#include "cuda/upload.h"

/* ---- The stream ---- */

/* The stream until now may have been destroyed: only the event tells of it. */
static gsc_status follow(const gsc_cuda_optim *optim, CUstream stream, const char *api)
{
    bool capturing = false;
    GSC_TRY(gsc__cuda_is_capturing(stream, &capturing));
    if (capturing)
        return gsc_fail(GSC_ERR_STATE,
                        "%s: the stream is capturing a graph, which cannot wait for the stream that the optimizer used "
                        "until now; call gsc_cuda_optim_set_stream with it before the capture begins",
                        api);
    if (!optim->enqueued)
        return GSC_OK;
    if (!optim->marked)
        return gsc__cuda_check(gsc__cuda()->cuCtxSynchronize(), "cuCtxSynchronize", "wait for an optimizer's work");
    return GSC_CUDA_CALL("wait for another stream", cuStreamWaitEvent, stream, optim->event, 0);
}

/* Makes it the optimizer's stream. */
static gsc_status use_stream(gsc_cuda_optim *optim, CUstream stream, const char *api)
{
    if (stream == optim->stream)
        return GSC_OK;
    if (optim->enqueued || optim->in_graph)
        GSC_TRY(follow(optim, stream, api));
    optim->stream = stream;
    optim->in_graph = false;
    return GSC_OK;
}

gsc_status gsc_cuda_optim_set_stream(gsc_cuda_optim *optim, struct CUstream_st *stream)
{
    if (!optim)
        return gsc_fail(GSC_ERR_VALUE, "%s: optim is NULL", __func__);
    GSC_TRY(gsc__cuda_enter(optim->context));
    gsc_status status = use_stream(optim, stream, __func__);
    gsc__cuda_leave();
    return status;
}

static gsc_status begin(gsc_cuda_optim *optim, CUstream stream, const char *api)
{
    GSC_TRY(use_stream(optim, stream, api));
    GSC_TRY(gsc__cuda_is_capturing(stream, &optim->capturing));
    optim->in_graph |= optim->capturing;
    if (!optim->capturing) {
        optim->enqueued = true;
        optim->marked = false;
    }
    return GSC_OK;
}

gsc_status gsc__cuda_optim_begin(gsc_cuda_optim *optim, CUstream stream, const char *api)
{
    GSC_TRY(gsc__cuda_enter(optim->context));
    gsc_status status = begin(optim, stream, api);
    if (status != GSC_OK)
        gsc__cuda_leave();
    return status;
}

/* The work stays done where its end cannot be marked. */
void gsc__cuda_optim_end(gsc_cuda_optim *optim)
{
    if (!optim->capturing)
        optim->marked = gsc__cuda()->cuEventRecord(optim->event, optim->stream) == CUDA_SUCCESS;
    gsc__cuda_leave();
}

/* ---- Properties ---- */

const gsc_optimizer *gsc_cuda_optim_optimizer(gsc_cuda_optim *optim) { return optim ? &optim->interface : NULL; }

size_t gsc_cuda_optim_group_count(const gsc_cuda_optim *optim) { return optim ? optim->group_count : 0; }

static gsc_status check_group_index(const char *function, const gsc_cuda_optim *optim, size_t group)
{
    if (!optim)
        return gsc_fail(GSC_ERR_VALUE, "%s: optim is NULL", function);
    if (group >= optim->group_count)
        return gsc_fail(GSC_ERR_VALUE, "%s: group is %zu, but the optimizer has %zu groups", function, group,
                        optim->group_count);
    return GSC_OK;
}

static gsc_status send_lr(gsc_cuda_optim *optim, size_t group, double lr)
{
    GSC_TRY(gsc__cuda_optim_begin(optim, optim->stream, "gsc_cuda_optim_set_lr"));
    gsc_status status = gsc__cuda_upload(optim->context, optim->stream, &optim->table.groups[group].lr, &lr, sizeof lr,
                                         "set a learning rate");
    gsc__cuda_optim_end(optim);
    return status;
}

gsc_status gsc_cuda_optim_set_lr(gsc_cuda_optim *optim, size_t group, double lr)
{
    GSC_FPENV_SCOPE;
    GSC_TRY(check_group_index(__func__, optim, group));
    GSC_TRY(gsc__optim_check_lr(__func__, group, lr));
    GSC_TRY(send_lr(optim, group, lr));
    optim->groups[group].lr = lr;
    return GSC_OK;
}

double gsc_cuda_optim_get_lr(const gsc_cuda_optim *optim, size_t group)
{
    return check_group_index(__func__, optim, group) == GSC_OK ? optim->groups[group].lr : (double)NAN;
}

size_t gsc_cuda_optim_param_count(const gsc_cuda_optim *optim) { return optim ? optim->param_count : 0; }

const char *gsc_cuda_optim_param_name(const gsc_cuda_optim *optim, size_t param)
{
    return optim && param < optim->param_count ? optim->params[param].name : NULL;
}

size_t gsc_cuda_optim_find_param(const gsc_cuda_optim *optim, const char *name)
{
    for (size_t i = 0; optim && name && i < optim->param_count; i++)
        if (optim->params[i].name && strcmp(optim->params[i].name, name) == 0)
            return i;
    return SIZE_MAX;
}

const char *gsc_cuda_optim_kind_name(const gsc_cuda_optim *optim)
{
    return optim ? gsc__optim_kind_name(optim->kind) : NULL;
}

/* ---- Step counts ---- */

static gsc_status check_counts(const char *function, const gsc_cuda_optim *optim, const int64_t *counts)
{
    if (optim && counts)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", function, optim ? "counts" : "optim");
}

/* Into optim->step_counts. */
static gsc_status read_counts(gsc_cuda_optim *optim, const char *function)
{
    bool capturing;
    GSC_TRY(gsc__cuda_is_capturing(optim->stream, &capturing));
    if (capturing)
        return gsc_fail(GSC_ERR_STATE,
                        "%s: the optimizer's stream is capturing a graph, which has not run; call it after "
                        "the capture",
                        function);
    GSC_CUDA_TRY("read step counts", cuMemcpyDtoHAsync_v2, optim->step_counts, (uintptr_t)optim->table.step_counts,
                 optim->param_count * sizeof *optim->step_counts, optim->stream);
    GSC_CUDA_TRY("read step counts", cuStreamSynchronize, optim->stream);
    optim->enqueued = false;
    return GSC_OK;
}

gsc_status gsc_cuda_optim_get_step_counts(gsc_cuda_optim *optim, int64_t *counts)
{
    GSC_TRY(check_counts(__func__, optim, counts));
    GSC_TRY(gsc__cuda_enter(optim->context));
    gsc_status status = read_counts(optim, __func__);
    gsc__cuda_leave();
    if (status == GSC_OK)
        memcpy(counts, optim->step_counts, optim->param_count * sizeof *counts);
    return status;
}

/* All of them, or none: the last launch sets them. */
static gsc_status send_counts(gsc_cuda_optim *optim, const int64_t *counts)
{
    GSC_TRY(gsc__cuda_upload(optim->context, optim->stream, optim->table.new_step_counts, counts,
                             optim->param_count * sizeof *counts, "send step counts"));
    const gsc__cuda_optim_counts_args args = {.table = optim->table};
    return gsc__cuda_optim_launch(optim, GSC_CUDA_KERNEL_optim_counts, optim->param_count, &args, "set step counts");
}

gsc_status gsc_cuda_optim_set_step_counts(gsc_cuda_optim *optim, const int64_t *counts)
{
    GSC_TRY(check_counts(__func__, optim, counts));
    for (size_t i = 0; i < optim->param_count; i++)
        GSC_TRY(gsc__optim_check_step_count(__func__, i, counts[i]));
    GSC_TRY(gsc__cuda_optim_begin(optim, optim->stream, __func__));
    gsc_status status = send_counts(optim, counts);
    gsc__cuda_optim_end(optim);
    return status;
}

/* ---- States ---- */

const char *gsc_cuda_optim_state_name(const gsc_cuda_optim *optim, size_t param, size_t index)
{
    if (!optim || param >= optim->param_count ||
        index >= gsc__optim_state_count(optim->kind, &optim->groups[optim->params[param].group]))
        return NULL;
    return gsc__optim_state_name(optim->kind, index);
}

DLTensor *gsc_cuda_optim_state(gsc_cuda_optim *optim, size_t param, const char *name)
{
    const char *state_name;
    for (size_t s = 0; name && (state_name = gsc_cuda_optim_state_name(optim, param, s)); s++)
        if (strcmp(name, state_name) == 0)
            return &optim->params[param].states[s];
    return NULL;
}
