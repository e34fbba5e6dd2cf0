/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c: out = in * scale. The pairs go up with the kernel's argument, as many as fit. */
#include <string.h>

#include "cuda/module.h"

enum {
    PAIR_WORDS = sizeof(gsc__cuda_pair) / sizeof(uint64_t),
    DIM_WORDS = sizeof(gsc__cuda_pair_dim) / sizeof(uint64_t),
    WARPS = GSC_CUDA_MAX_THREADS / 32
};
_Static_assert(PAIR_WORDS + 64 * DIM_WORDS <= GSC_CUDA_UPLOAD_WORDS, "a pair of 64 dimensions must fit");

/* Pairs that go up together. */
typedef struct batch {
    gsc__cuda_pair pairs[GSC_CUDA_UPLOAD_WORDS / PAIR_WORDS];
    gsc__cuda_pair_dim dims[GSC_CUDA_UPLOAD_WORDS / DIM_WORDS];
    uint32_t pair_count, dim_count;
    uint64_t item_count;
} batch;

static int32_t dims_of(const gsc__device_tensor *in, const gsc__device_tensor *out)
{
    return in->ndim > out->ndim ? in->ndim : out->ndim;
}

static bool fits(const batch *b, const gsc__device_tensor *in, const gsc__device_tensor *out)
{
    return ((size_t)b->pair_count + 1) * PAIR_WORDS + (b->dim_count + (size_t)dims_of(in, out)) * DIM_WORDS <=
               GSC_CUDA_UPLOAD_WORDS &&
           b->item_count + gsc__cuda_items_of(in) <= UINT32_MAX;
}

/* The strides of a dense tensor in the dims of its partner, which are in row-major order, innermost first. */
static void add_dims(batch *b, const gsc__device_tensor *in, const gsc__device_tensor *out)
{
    int64_t dense = 1;
    for (int32_t d = 0; d < dims_of(in, out); d++) {
        const int64_t shape = in->ndim > 0 ? in->dims[d].shape : out->dims[d].shape;
        b->dims[b->dim_count++] = (gsc__cuda_pair_dim){.shape = shape,
                                                       .in_stride = in->ndim > 0 ? in->dims[d].stride : dense,
                                                       .out_stride = out->ndim > 0 ? out->dims[d].stride : dense};
        dense *= shape;
    }
}

static void add_pair(batch *b, const gsc__device_tensor *in, const gsc__device_tensor *out)
{
    b->pairs[b->pair_count++] = (gsc__cuda_pair){.in = (uint64_t)(uintptr_t)in->start,
                                                 .out = (uint64_t)(uintptr_t)out->start,
                                                 .count = in->count,
                                                 .first_item = (uint32_t)b->item_count,
                                                 .first_dim = (uint16_t)b->dim_count,
                                                 .ndim = (uint16_t)dims_of(in, out),
                                                 .in_kind = (uint16_t)in->kind,
                                                 .out_kind = (uint16_t)out->kind};
    add_dims(b, in, out);
    b->item_count += gsc__cuda_items_of(in);
}

static gsc_status launch(const gsc__device *device, const gsc__cuda_site *site, const batch *b)
{
    const float *scale = site == device->sites ? &device->state->schedule.scale : site->scale;
    gsc__cuda_scale_args args = {
        .scale = device->enabled ? scale : NULL, .pair_count = b->pair_count, .item_count = (uint32_t)b->item_count};
    memcpy(args.words, b->pairs, b->pair_count * sizeof *b->pairs);
    memcpy(args.words + (size_t)b->pair_count * PAIR_WORDS, b->dims, b->dim_count * sizeof *b->dims);
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status =
        gsc__cuda_launch(site->context, GSC_CUDA_KERNEL_scale, gsc__cuda_blocks(site->context, args.item_count, WARPS),
                         GSC_CUDA_MAX_THREADS, site->stream, &args, "scale tensors");
    gsc__cuda_leave();
    return status;
}

/* Tensors on one device. Returns how many pairs it was. */
static gsc_status scale_batch(gsc__device *device, const gsc__device_tensor *in, const gsc__device_tensor *out,
                              size_t n, size_t *done)
{
    batch b;
    gsc__cuda_site *site;
    GSC_TRY(gsc__cuda_site_get(device, in[0].device_id, &site));
    b.pair_count = b.dim_count = 0;
    b.item_count = 0;
    for (*done = 0; *done < n && in[*done].device_id == in[0].device_id && fits(&b, &in[*done], &out[*done]); ++*done)
        add_pair(&b, &in[*done], &out[*done]);
    if (*done == 0)
        return gsc_fail(GSC_ERR_VALUE, "CUDA: a tensor to scale has more than 2^32 blocks of %d elements",
                        GSC_CUDA_ITEM);
    return launch(device, site, &b);
}

gsc_status gsc__cuda_scale(gsc__device *device, const gsc__device_tensor *in, const gsc__device_tensor *out, size_t n)
{
    for (size_t i = 0; i < n && device->enabled; i++) { /* each other device's copy of the scale, once */
        gsc__cuda_site *site;
        bool is_first = true;
        for (size_t k = 0; k < i && is_first; k++)
            is_first = in[k].device_id != in[i].device_id;
        if (!is_first)
            continue;
        GSC_TRY(gsc__cuda_site_get(device, in[i].device_id, &site));
        if (site != device->sites)
            GSC_TRY(gsc__cuda_copy_scale(device, site));
    }
    for (size_t i = 0, done; i < n; i += done)
        GSC_TRY(scale_batch(device, in + i, out + i, n - i, &done));
    return GSC_OK;
}
