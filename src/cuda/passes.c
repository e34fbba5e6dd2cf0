/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c: a pass over the tensors of a record, on all their devices at the same time, and what it found, on the
 * scaler's. */
#include "cuda/module.h"

/* Blocks and threads of a launch over items. */
typedef struct shape {
    size_t blocks;
    unsigned threads;
} shape;

/* Few items are spread over all multiprocessors, a warp each, before these get more of them. */
static shape shape_for(const gsc__cuda_part *part, const gsc__cuda_run *run)
{
    const gsc__cuda_context *context = part->site->context;
    const size_t items = part->table.item_count, processors = (size_t)context->multiprocessors;
    const size_t per_warp = run->kernel == GSC_CUDA_KERNEL_sum ? 2 : 1;
    size_t warps = GSC_CUDA_MAX_THREADS / 32;
    while (warps > 1 && items < warps * per_warp * processors)
        warps /= 2;
    return (shape){.blocks = gsc__cuda_blocks(context, items, warps * per_warp), .threads = (unsigned)warps * 32};
}

/* Adds up the items' partials level by level. */
static gsc_status add_partials(const gsc__cuda_part *part, gsc__cuda_pass *pass)
{
    gsc__cuda_partial *from = (gsc__cuda_partial *)(uintptr_t)part->partials.address;
    uint32_t count = part->table.item_count;
    for (;;) {
        uint32_t nodes = 1;
        while (nodes <= count / 2)
            nodes *= 2;
        const uint32_t blocks = nodes <= GSC_CUDA_MAX_THREADS ? 1 : nodes / GSC_CUDA_MAX_THREADS;
        const gsc__cuda_tree_args args = {
            .from = from, .to = from + count, .pass = pass, .count = count, .nodes = nodes};
        GSC_TRY(gsc__cuda_launch(part->site->context, GSC_CUDA_KERNEL_tree, blocks, GSC_CUDA_MAX_THREADS,
                                 part->site->stream, &args, "add up a norm"));
        if (blocks == 1)
            return GSC_OK;
        from += count;
        count = blocks;
    }
}

static gsc_status launch_scan(const gsc__cuda_part *part, const gsc__cuda_run *run, shape launched)
{
    const gsc__cuda_scan_args args = {.table = part->table,
                                      .pass = &part->passes[run->pass],
                                      .counts =
                                          run->counts ? (gsc__cuda_count *)(uintptr_t)part->counts.address : NULL};
    return gsc__cuda_launch(part->site->context, run->kernel, launched.blocks, launched.threads, part->site->stream,
                            &args, run->what);
}

static gsc_status launch_sum(const gsc__cuda_part *part, const gsc__cuda_run *run, shape launched)
{
    const gsc__cuda_sum_args args = {.table = part->table,
                                     .pass = &part->passes[run->pass],
                                     .counts = run->counts ? (gsc__cuda_count *)(uintptr_t)part->counts.address : NULL,
                                     .partials = (gsc__cuda_partial *)(uintptr_t)part->partials.address,
                                     .p = run->p == 1.0 ? 1 : 2};
    return gsc__cuda_launch(part->site->context, run->kernel, launched.blocks, launched.threads, part->site->stream,
                            &args, run->what);
}

static gsc_status launch_power(const gsc__cuda_part *part, const gsc__cuda_run *run, shape launched)
{
    const gsc__cuda_power_args args = {.table = part->table,
                                       .pass = &part->passes[run->pass],
                                       .partials = (gsc__cuda_partial *)(uintptr_t)part->partials.address,
                                       .p = run->p};
    return gsc__cuda_launch(part->site->context, run->kernel, launched.blocks, launched.threads, part->site->stream,
                            &args, run->what);
}

/* Inside enter. */
static gsc_status launch_part(const gsc__cuda_part *part, const gsc__cuda_run *run)
{
    if (part->table.item_count == 0)
        return GSC_OK;
    const shape launched = shape_for(part, run);
    if (run->kernel == GSC_CUDA_KERNEL_scan)
        return launch_scan(part, run, launched);
    GSC_TRY(run->kernel == GSC_CUDA_KERNEL_sum ? launch_sum(part, run, launched) : launch_power(part, run, launched));
    return add_partials(part, &part->passes[run->pass]);
}

/* On the part's stream. Inside enter. */
static gsc_status copy_between(const gsc__cuda_part *part, const gsc__cuda_site *to_site, const void *to,
                               const gsc__cuda_site *from_site, const void *from, size_t bytes)
{
    return GSC_CUDA_CALL("copy results between devices", cuMemcpyPeerAsync, (CUdeviceptr)(uintptr_t)to,
                         to_site->context->handle, (CUdeviceptr)(uintptr_t)from, from_site->context->handle, bytes,
                         part->site->stream);
}

/* Copies the pass's beginning to another device, runs it there and brings the results back. Inside enter. */
static gsc_status run_elsewhere(const gsc__device_record *record, const gsc__cuda_part *part, const gsc__cuda_run *run)
{
    const gsc__cuda_site *home = record->device->sites, *site = part->site;
    const gsc__cuda_pass *beginning = &record->slot->passes[run->pass];
    gsc__cuda_pass *pass = &part->passes[run->pass];
    const size_t bytes = record->grad_count * sizeof(gsc__cuda_count);
    GSC_TRY(copy_between(part, site, pass, home, beginning, sizeof *pass));
    GSC_TRY(launch_part(part, run));
    if (!run->gathers)
        return GSC_OK;
    GSC_TRY(copy_between(part, home, part->home_pass, site, pass, sizeof *pass));
    if (!run->counts || bytes == 0)
        return GSC_OK;
    GSC_TRY(copy_between(part, home, (const void *)(uintptr_t)part->home_counts.address, site,
                         (const void *)(uintptr_t)part->counts.address, bytes));
    return GSC_CUDA_CALL("clear counts", cuMemsetD8Async, part->counts.address, 0, bytes, site->stream);
}

static gsc_status begin_elsewhere(const gsc__device_record *record, const gsc__cuda_part *part,
                                  const gsc__cuda_run *run)
{
    GSC_TRY(gsc__cuda_site_wait(part->site, record->device->sites));
    GSC_TRY(gsc__cuda_enter(part->site->context));
    gsc_status status = run_elsewhere(record, part, run);
    gsc__cuda_leave();
    return status;
}

/* The scaler's device waits for the others, also where it wants no results: it will write to what they read. */
static gsc_status end_elsewhere(const gsc__device_record *record, const gsc__cuda_part *part, const gsc__cuda_run *run)
{
    const gsc__cuda_site *home = record->device->sites;
    GSC_TRY(gsc__cuda_site_wait(home, part->site));
    if (!run->gathers)
        return GSC_OK;
    const gsc__cuda_gather_args args = {
        .into = &record->slot->passes[run->pass],
        .from = part->home_pass,
        .counts_into = run->counts ? (gsc__cuda_count *)(uintptr_t)record->parts->counts.address : NULL,
        .counts_from = (const gsc__cuda_count *)(uintptr_t)part->home_counts.address,
        .count = (uint32_t)record->grad_count};
    size_t blocks = run->counts ? gsc__cuda_blocks(home->context, record->grad_count, GSC_CUDA_MAX_THREADS) : 1;
    GSC_TRY(gsc__cuda_enter(home->context));
    gsc_status status = gsc__cuda_launch(home->context, GSC_CUDA_KERNEL_gather, blocks > 0 ? blocks : 1,
                                         GSC_CUDA_MAX_THREADS, home->stream, &args, "combine the devices' results");
    gsc__cuda_leave();
    return status;
}

static gsc_status run_home(const gsc__device_record *record, const gsc__cuda_run *run)
{
    GSC_TRY(gsc__cuda_enter(record->device->sites->context));
    gsc_status status = launch_part(record->parts, run);
    gsc__cuda_leave();
    return status;
}

gsc_status gsc__cuda_run_pass(gsc__device_record *record, const gsc__cuda_run *run)
{
    for (const gsc__cuda_part *part = record->parts->next; part; part = part->next)
        if (part->table.item_count > 0)
            GSC_TRY(begin_elsewhere(record, part, run));
    GSC_TRY(run_home(record, run));
    for (const gsc__cuda_part *part = record->parts->next; part; part = part->next)
        if (part->table.item_count > 0)
            GSC_TRY(end_elsewhere(record, part, run));
    return GSC_OK;
}

gsc_status gsc__cuda_launch_one(const gsc__device *device, int kernel, const void *args, const char *what)
{
    const gsc__cuda_site *home = device->sites;
    GSC_TRY(gsc__cuda_enter(home->context));
    gsc_status status = gsc__cuda_launch(home->context, kernel, 1, 32, home->stream, args, what);
    gsc__cuda_leave();
    return status;
}
