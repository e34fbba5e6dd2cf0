/* SPDX-License-Identifier: Apache-2.0 */
/* buckets.c: a list of tensors cut into buckets: large compact ones into pieces that travel from where they are, the
 * others packed together, a dtype at a time. The cut depends on dtypes, sizes, and which tensors are compact nowhere:
 * what one rank packs another may send directly, since only the number of elements of each bucket counts. */
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "mpi/internal.h"

/* Copying less than this costs little beside a message. */
#define DIRECT_BYTES ((size_t)1 << 17)

static gsc_status grow(void **items, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return GSC_OK;
    const size_t wanted = *capacity ? *capacity * 2 : 16;
    void *grown = realloc(*items, wanted * size);
    if (!grown)
        return gsc_fail(GSC_ERR_MEMORY, "no memory for the list of %zu buckets", wanted);
    *items = grown;
    *capacity = wanted;
    return GSC_OK;
}

static gsc_status add_bucket(gsc__mpi_plan *plan, const gsc__mpi_view *view)
{
    void *items = plan->buckets;
    GSC_TRY(grow(&items, &plan->bucket_capacity, plan->bucket_count, sizeof *plan->buckets));
    plan->buckets = items;
    plan->buckets[plan->bucket_count++] =
        (gsc__mpi_bucket){.kind = view->kind, .size = view->size, .piece = plan->piece_count};
    return GSC_OK;
}

/* Adds elements to the last bucket. */
static gsc_status add_piece(gsc__mpi_plan *plan, size_t view, size_t first, size_t count)
{
    void *items = plan->pieces;
    GSC_TRY(grow(&items, &plan->piece_capacity, plan->piece_count, sizeof *plan->pieces));
    plan->pieces = items;
    plan->pieces[plan->piece_count++] = (gsc__mpi_piece){.view = view, .first = first, .count = count};
    gsc__mpi_bucket *bucket = &plan->buckets[plan->bucket_count - 1];
    bucket->piece_count++;
    bucket->count += count;
    return GSC_OK;
}

static bool is_wanted(const gsc__mpi_view *view) { return view->tensor && !view->skip && view->count > 0; }

/* Sizes alone decide, as they are the same on every rank. */
static bool is_large(const gsc__mpi_view *view, size_t bucket_bytes)
{
    const size_t bytes = view->count * view->size;
    return bytes >= DIRECT_BYTES || bytes >= bucket_bytes;
}

static gsc_status add_large(gsc__mpi_plan *plan, const gsc__mpi_views *views, size_t index, size_t bucket_bytes)
{
    const gsc__mpi_view *view = &views->items[index];
    const size_t most = bucket_bytes / view->size;
    for (size_t first = 0; first < view->count; first += most) {
        const size_t count = view->count - first < most ? view->count - first : most;
        GSC_TRY(add_bucket(plan, view));
        GSC_TRY(add_piece(plan, index, first, count));
        if (view->compact)
            plan->buckets[plan->bucket_count - 1].direct = view->data + first * view->size;
    }
    return GSC_OK;
}

/* Packs the small tensors of the same dtype as `index`, from there on. */
static gsc_status add_small(gsc__mpi_plan *plan, const gsc__mpi_views *views, size_t index, size_t bucket_bytes,
                            bool *planned)
{
    const gsc__mpi_view *sample = &views->items[index];
    const size_t most = bucket_bytes / sample->size;
    bool is_open = false;
    for (size_t i = index; i < views->count; i++) {
        const gsc__mpi_view *view = &views->items[i];
        if (planned[i] || !is_wanted(view) || view->kind != sample->kind || view->size != sample->size ||
            is_large(view, bucket_bytes))
            continue;
        if (!is_open || plan->buckets[plan->bucket_count - 1].count + view->count > most)
            GSC_TRY(add_bucket(plan, view));
        is_open = true;
        GSC_TRY(add_piece(plan, i, 0, view->count));
        planned[i] = true;
    }
    return GSC_OK;
}

static gsc_status make(const gsc__mpi_views *views, size_t bucket_bytes, bool *planned, gsc__mpi_plan *plan)
{
    for (size_t i = 0; i < views->count; i++) {
        if (planned[i] || !is_wanted(&views->items[i]))
            continue;
        if (is_large(&views->items[i], bucket_bytes))
            GSC_TRY(add_large(plan, views, i, bucket_bytes));
        else
            GSC_TRY(add_small(plan, views, i, bucket_bytes, planned));
    }
    return GSC_OK;
}

gsc_status gsc__mpi_plan_make(const gsc__mpi_views *views, size_t bucket_bytes, gsc__mpi_plan *out)
{
    *out = (gsc__mpi_plan){.buckets = NULL};
    bool *planned = calloc(views->count + 1, sizeof *planned);
    if (!planned)
        return gsc_fail(GSC_ERR_MEMORY, "no memory to plan the buckets of %zu tensors", views->count);
    gsc_status status = make(views, bucket_bytes, planned, out);
    free(planned);
    if (status != GSC_OK)
        gsc__mpi_plan_free(out);
    return status;
}

void gsc__mpi_plan_free(gsc__mpi_plan *plan)
{
    free(plan->buckets);
    free(plan->pieces);
    *plan = (gsc__mpi_plan){.buckets = NULL};
}

void gsc__mpi_bucket_pack(const gsc__mpi_group *group, const gsc__mpi_bucket *bucket, char *out)
{
    for (size_t i = 0; i < bucket->piece_count; i++) {
        const gsc__mpi_piece *piece = &group->plan.pieces[bucket->piece + i];
        gsc__mpi_pack(&group->views.items[piece->view], piece->first, piece->count, out);
        out += piece->count * bucket->size;
    }
}

void gsc__mpi_bucket_unpack(const gsc__mpi_group *group, const gsc__mpi_bucket *bucket, const char *in)
{
    for (size_t i = 0; i < bucket->piece_count; i++) {
        const gsc__mpi_piece *piece = &group->plan.pieces[bucket->piece + i];
        gsc__mpi_unpack(&group->views.items[piece->view], piece->first, piece->count, in);
        in += piece->count * bucket->size;
    }
}
