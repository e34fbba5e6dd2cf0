/* SPDX-License-Identifier: Apache-2.0 */
/* optim_create.c: creating optimizers, and what they need of the device. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype_text.h"
#include "base/fpenv.h"
#include "base/try.h"
#include "cuda/optim.h"
#include "cuda/upload.h"

gsc_cuda_param_group gsc_cuda_param_group_default_sgd(DLTensor *const *params, DLTensor *const *grads, size_t count,
                                                      double lr)
{
    return (gsc_cuda_param_group){.params = params, .grads = grads, .count = count, .lr = lr};
}

gsc_cuda_param_group gsc_cuda_param_group_default_adam(DLTensor *const *params, DLTensor *const *grads, size_t count,
                                                       double lr)
{
    return (gsc_cuda_param_group){
        .params = params, .grads = grads, .count = count, .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

/* ---- On the host ---- */

typedef struct sizes {
    size_t shapes, names; /* of all parameters */
} sizes;

static sizes measure(const gsc_cuda_param_group *groups, size_t n)
{
    sizes total = {0};
    for (size_t g = 0; g < n; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            total.shapes += (size_t)groups[g].params[i]->ndim;
            if (groups[g].names && groups[g].names[i])
                total.names += strlen(groups[g].names[i]) + 1;
        }
    return total;
}

static void copy_param(const gsc_cuda_param_group *group, size_t g, size_t i, int64_t *shape, char *name,
                       gsc__cuda_parameter *out)
{
    DLTensor *tensor = group->params[i];
    *out = (gsc__cuda_parameter){.tensor = tensor,
                                 .grad = &group->grads[i],
                                 .group = g,
                                 .kind = gsc__kind_of(tensor->dtype),
                                 .elements = gsc__cuda_optim_elements(tensor),
                                 .ndim = tensor->ndim,
                                 .shape = shape};
    if (tensor->ndim > 0)
        memcpy(shape, tensor->shape, (size_t)tensor->ndim * sizeof *shape);
    if (group->names && group->names[i])
        out->name = memcpy(name, group->names[i], strlen(group->names[i]) + 1);
}

static void copy_groups(gsc_cuda_optim *optim, const gsc_cuda_param_group *groups)
{
    size_t index = 0;
    int64_t *shape = optim->shapes;
    char *name = optim->names;
    for (size_t g = 0; g < optim->group_count; g++) {
        optim->groups[g] = GSC_OPTIM_SETTINGS_OF(&groups[g]);
        for (size_t i = 0; i < groups[g].count; i++) {
            gsc__cuda_parameter *param = &optim->params[index++];
            copy_param(&groups[g], g, i, shape, name, param);
            shape += param->ndim;
            name += param->name ? strlen(param->name) + 1 : 0;
        }
    }
}

static gsc_status fill(gsc_cuda_optim *optim, const char *function, const gsc_cuda_param_group *groups)
{
    const sizes total = measure(groups, optim->group_count);
    optim->groups = calloc(optim->group_count, sizeof *optim->groups);
    optim->params = calloc(optim->param_count, sizeof *optim->params);
    optim->shapes = calloc(total.shapes + 1, sizeof *optim->shapes);
    optim->names = calloc(total.names + 1, 1);
    optim->sent = calloc(optim->param_count, sizeof *optim->sent);
    optim->found = calloc(optim->param_count, sizeof *optim->found);
    optim->step_counts = calloc(optim->param_count, sizeof *optim->step_counts);
    if (!optim->groups || !optim->params || !optim->shapes || !optim->names || !optim->sent || !optim->found ||
        !optim->step_counts)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for %zu parameters", function, optim->param_count);
    copy_groups(optim, groups);
    return GSC_OK;
}

/* ---- On the device ---- */

static_assert(sizeof(gsc__optim_settings) % 8 == 0 && sizeof(gsc__cuda_optim_param) % 8 == 0 &&
                  sizeof(gsc__cuda_optim_place) % 8 == 0,
              "they go up in words");

enum { ALIGNMENT = 128 }; /* of arrays: a cache line */

/* Where the arrays lie in the optimizer's memory, in bytes. */
typedef struct layout {
    size_t groups, params, places, factors, step_counts, new_step_counts, item_params, states, total;
} layout;

/* The place of `count` elements; *total becomes SIZE_MAX, and stays it, where that is too much. */
static size_t reserve(size_t *total, size_t count, size_t size)
{
    const size_t first = *total, left = SIZE_MAX - first - (first == SIZE_MAX ? 0 : ALIGNMENT);
    if (first == SIZE_MAX || (size > 0 && count > left / size))
        *total = SIZE_MAX;
    else
        *total = first + gsc__parts(count * size, ALIGNMENT) * ALIGNMENT;
    return first;
}

static layout lay_out(const gsc_cuda_optim *optim)
{
    layout out = {0};
    const size_t params = optim->param_count;
    out.groups = reserve(&out.total, optim->group_count, sizeof(gsc__optim_settings));
    out.params = reserve(&out.total, params, sizeof(gsc__cuda_optim_param));
    out.places = reserve(&out.total, params, sizeof(gsc__cuda_optim_place));
    out.factors = reserve(&out.total, params, sizeof(gsc__cuda_optim_factors));
    out.step_counts = reserve(&out.total, params, sizeof(int64_t));
    out.new_step_counts = reserve(&out.total, params, sizeof(int64_t));
    out.item_params = reserve(&out.total, optim->table.item_count, sizeof(uint32_t));
    out.states = out.total;
    for (size_t i = 0; i < params; i++) {
        const gsc__cuda_parameter *param = &optim->params[i];
        for (size_t s = 0; s < gsc__optim_state_count(optim->kind, &optim->groups[param->group]); s++)
            reserve(&out.total, param->elements, gsc__kind_size(param->kind));
    }
    return out;
}

/* An empty parameter has an item, too, which counts its steps. */
static uint64_t items_of(const gsc__cuda_parameter *param)
{
    return param->elements == 0 ? 1 : gsc__parts(param->elements, GSC_CUDA_OPTIM_ITEM);
}

static gsc_status count_items(gsc_cuda_optim *optim, const char *function)
{
    uint64_t items = 0;
    for (size_t i = 0; i < optim->param_count && items <= UINT32_MAX; i++)
        items += items_of(&optim->params[i]);
    if (items > UINT32_MAX)
        return gsc_fail(GSC_ERR_VALUE, "%s: the parameters have 2^42 elements or more; make several optimizers",
                        function);
    optim->table.item_count = (uint32_t)items;
    optim->table.param_count = (uint32_t)optim->param_count; /* an item each at least */
    optim->table.kind = (uint32_t)optim->kind;
    return GSC_OK;
}

static void point_into_memory(gsc_cuda_optim *optim, const layout *at)
{
    char *memory = (char *)(uintptr_t)optim->memory;
    gsc__cuda_optim_table *table = &optim->table;
    table->groups = (void *)(memory + at->groups);
    table->params = (void *)(memory + at->params);
    table->places = (void *)(memory + at->places);
    table->factors = (void *)(memory + at->factors);
    table->step_counts = (void *)(memory + at->step_counts);
    table->new_step_counts = (void *)(memory + at->new_step_counts);
    table->item_params = (void *)(memory + at->item_params);
    size_t next = at->states;
    for (size_t i = 0; i < optim->param_count; i++) {
        gsc__cuda_parameter *param = &optim->params[i];
        for (size_t s = 0; s < gsc__optim_state_count(optim->kind, &optim->groups[param->group]); s++)
            param->states[s] = (DLTensor){.data = memory + reserve(&next, param->elements, gsc__kind_size(param->kind)),
                                          .device = optim->device,
                                          .ndim = param->ndim,
                                          .dtype = gsc__kind_dtype(param->kind),
                                          .shape = param->shape};
    }
}

static gsc_status upload_params(gsc_cuda_optim *optim, const char *function)
{
    gsc__cuda_optim_param *params = calloc(optim->param_count, sizeof *params);
    if (!params)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for %zu parameters", function, optim->param_count);
    uint64_t items = 0;
    for (size_t i = 0; i < optim->param_count; i++) {
        const gsc__cuda_parameter *param = &optim->params[i];
        params[i] = (gsc__cuda_optim_param){
            .count = param->elements,
            .states = {(uintptr_t)param->states[0].data, (uintptr_t)param->states[1].data},
            .first_item = (uint32_t)items,
            .group = (uint32_t)param->group,
            .kind = (uint32_t)param->kind,
        };
        items += items_of(param);
    }
    gsc_status status = gsc__cuda_upload(optim->context, optim->stream, optim->table.params, params,
                                         optim->param_count * sizeof *params, "send the parameters");
    free(params);
    return status;
}

static gsc_status make_tables(gsc_cuda_optim *optim, const char *function, size_t bytes)
{
    GSC_CUDA_TRY("clear an optimizer's memory", cuMemsetD8Async, optim->memory, 0, bytes, optim->stream);
    GSC_TRY(gsc__cuda_upload(optim->context, optim->stream, optim->table.groups, optim->groups,
                             optim->group_count * sizeof *optim->groups, "send the settings"));
    GSC_TRY(upload_params(optim, function));
    const gsc__cuda_optim_items_args args = {.table = optim->table};
    GSC_TRY(gsc__cuda_optim_launch(optim, GSC_CUDA_KERNEL_optim_items, optim->table.item_count, &args,
                                   "make an optimizer's table"));
    GSC_CUDA_TRY("make an optimizer", cuStreamSynchronize, optim->stream);
    return GSC_OK;
}

static gsc_status make_on_device(gsc_cuda_optim *optim, const char *function)
{
    const layout at = lay_out(optim);
    if (at.total == SIZE_MAX)
        return gsc_fail(GSC_ERR_MEMORY, "%s: the optimizer's states are larger than the address space", function);
    GSC_CUDA_TRY("make an event", cuEventCreate, &optim->event, CU_EVENT_DISABLE_TIMING);
    gsc_status status = gsc__cuda_allocate(at.total, &optim->memory);
    if (status == GSC_ERR_MEMORY)
        return gsc_fail(status, "%s: no memory for %zu bytes of optimizer state on %s: %s", function, at.total,
                        gsc__describe_device(optim->device).text, gsc_last_error());
    GSC_TRY(status);
    point_into_memory(optim, &at);
    return make_tables(optim, function, at.total);
}

/* ---- Creation ---- */

static size_t interface_count(void *self) { return ((gsc_cuda_optim *)self)->param_count; }

static DLTensor *interface_grad(void *self, size_t index) { return *((gsc_cuda_optim *)self)->params[index].grad; }

static const char *interface_name(void *self, size_t index) { return ((gsc_cuda_optim *)self)->params[index].name; }

static gsc_status fill_and_make(gsc_cuda_optim *optim, const char *function, const gsc_cuda_param_group *groups)
{
    GSC_TRY(gsc__cuda_open(function, optim->device.device_id, &optim->context));
    GSC_TRY(fill(optim, function, groups));
    GSC_TRY(count_items(optim, function));
    GSC_TRY(gsc__cuda_enter(optim->context));
    gsc_status status = make_on_device(optim, function);
    gsc__cuda_leave();
    return status;
}

static gsc_status create(gsc__optim_kind kind, const char *function, const gsc_cuda_param_group *groups, size_t n,
                         gsc_cuda_optim **out)
{
    GSC_FPENV_SCOPE;
    if (!out)
        return gsc_fail(GSC_ERR_VALUE, "%s: out is NULL", function);
    size_t param_count;
    DLDevice device;
    GSC_TRY(gsc__cuda_optim_check_groups(kind, function, groups, n, &param_count, &device));
    gsc_cuda_optim *optim = calloc(1, sizeof *optim);
    if (!optim)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for the optimizer", function);
    optim->kind = kind;
    optim->group_count = n;
    optim->param_count = param_count;
    optim->device = device;
    optim->interface = (gsc_optimizer){.self = optim,
                                       .grad_count = interface_count,
                                       .grad = interface_grad,
                                       .name = interface_name,
                                       .step = gsc__cuda_optim_step_plain,
                                       .step_scaled = gsc__cuda_optim_step_scaled};
    gsc_status status = fill_and_make(optim, function, groups);
    if (status == GSC_OK)
        *out = optim;
    else
        gsc_cuda_optim_free(optim);
    return status;
}

gsc_status gsc_cuda_optim_create_sgd(const gsc_cuda_param_group *groups, size_t n, gsc_cuda_optim **out)
{
    return create(GSC_OPTIM_SGD, __func__, groups, n, out);
}

gsc_status gsc_cuda_optim_create_adam(const gsc_cuda_param_group *groups, size_t n, gsc_cuda_optim **out)
{
    return create(GSC_OPTIM_ADAM, __func__, groups, n, out);
}

gsc_status gsc_cuda_optim_create_adamw(const gsc_cuda_param_group *groups, size_t n, gsc_cuda_optim **out)
{
    return create(GSC_OPTIM_ADAMW, __func__, groups, n, out);
}

static void free_on_device(gsc_cuda_optim *optim)
{
    if (gsc__cuda_enter(optim->context) != GSC_OK)
        return; /* the device has lost it */
    gsc__cuda_free(optim->memory);
    if (optim->event)
        gsc__cuda()->cuEventDestroy_v2(optim->event);
    gsc__cuda_leave();
}

void gsc_cuda_optim_free(gsc_cuda_optim *optim)
{
    if (!optim)
        return;
    if (optim->context)
        free_on_device(optim);
    gsc__cuda_close(optim->context);
    free(optim->groups);
    free(optim->params);
    free(optim->shapes);
    free(optim->names);
    free(optim->sent);
    free(optim->found);
    free(optim->step_counts);
    free(optim);
}
