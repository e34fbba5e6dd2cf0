/* SPDX-License-Identifier: Apache-2.0 */
/* misuse.c: memory that two optimizers would divide, and gradients that are not those that were checked.
 *
 * Each check makes a claim on the memory of its gradients. While an optimizer's gradients stay where they were, only
 * options.strict compares its claim with those of others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/entry.h"
#include "gradients/fast_view.h"

bool gsc__strict_environment(void)
{
    const char *value = getenv("GSC_STRICT");
    return value && strcmp(value, "1") == 0;
}

/* A public function that checks gradients, as the caller writes it. */
static const char *call_words(const char *api)
{
    static const struct {
        const char *c, *python;
    } names[] = {{"gsc_scaler_unscale", "unscale_"},
                 {"gsc_scaler_step", "step"},
                 {"gsc_scaler_clip_grad_norm", "clip_grad_norm_"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(api, names[i].c) == 0)
            return GSC_WORDS(names[i].c, names[i].python);
    return api;
}

/* Of the call that is running. */
static gsc__gradient_text describe_gradient(gsc_scaler *scaler, const gsc_optimizer *optimizer, size_t index)
{
    gsc__callback_begin(scaler);
    gsc__gradient_text out =
        gsc__describe_gradient(index, optimizer->name ? optimizer->name(optimizer->self, index) : NULL);
    gsc__callback_end(scaler);
    return out;
}

typedef struct record_text {
    char text[48];
} record_text;

/* What the caller knows a record by. */
static record_text describe_other(const gsc__record *record)
{
    record_text out;
    const char *what = record->use == GSC_USED_WITH_BUFFERS ? "the key" : "the optimizer at";
    if (GSC_WORDS(false, true)) /* an address means nothing there */
        snprintf(out.text, sizeof out.text, "another optimizer");
    else
        snprintf(out.text, sizeof out.text, "%s %p", what, record->key);
    return out;
}

/* One extent of a record, against the claims of others. */
typedef struct search {
    const gsc_scaler *scaler;
    const gsc__record *record;
    size_t position;
    const gsc__record *other; /* found: it has claimed some of that memory, */
    size_t other_position;    /* with this extent of its own */
} search;

static bool is_shared(void *ctx, const gsc__claim *claim)
{
    search *s = ctx;
    if (claim->key == s->record->key)
        return false;
    const gsc__record *other = gsc__record_find(s->scaler, claim->key); /* it may be forgotten */
    if (!other || other->claim != claim->number)
        return false;
    if (other->stage != GSC_STAGE_UNSCALED && !s->scaler->options.strict)
        return false;
    s->other = other;
    s->other_position = claim->position;
    return gsc__extents_share(&s->record->extents, s->position, &other->extents, claim->position);
}

static gsc_status refuse_shared(gsc_scaler *scaler, const search *found, const char *api)
{
    const gsc__record *other = found->other;
    bool stepped = other->stage != GSC_STAGE_UNSCALED;
    return gsc_fail(
        GSC_ERR_STATE, "%s: %s shares memory with gradient %zu of %s, which %s has %s since the last update; %s", api,
        describe_gradient(scaler, found->record->optimizer, found->record->extents.list[found->position].index).text,
        other->extents.list[found->other_position].index, describe_other(other).text, call_words(other->claimed_by),
        stepped ? "checked" : "unscaled",
        stepped ? "strict: a gradient belongs to one optimizer an iteration; call " GSC_WORDS_UPDATE
                  " before its memory is used again"
                : "it would be divided twice: use the same optimizer for unscale and step, and give each gradient to "
                  "one optimizer");
}

static gsc_status check_shared(gsc_scaler *scaler, const gsc__record *record, const char *api)
{
    search s = {.scaler = scaler, .record = record};
    for (; s.position < record->extents.count; s.position++) {
        const gsc__extent *extent = &record->extents.list[s.position];
        if (gsc__claims_visit(&scaler->claims, extent->start, extent->end, is_shared, &s))
            return refuse_shared(scaler, &s, api);
    }
    return GSC_OK;
}

/* The UNSCALED records whose memory is not among the claims yet are the last ones that became UNSCALED. */
static gsc_status add_unscaled(gsc_scaler *scaler)
{
    gsc__record *oldest = NULL;
    for (gsc__record *other = scaler->records.unscaled; other; other = other->next_unscaled) {
        if (other->claim != 0 && other->claim_added)
            break;
        oldest = other;
    }
    for (gsc__record *other = oldest; other; other = other->previous_unscaled) {
        if (other->claim == 0)
            continue; /* gsc_scaler_record: its memory is not known */
        GSC_TRY(gsc__claims_add(&scaler->claims, &other->extents, other->key, other->claim));
        other->claim_added = true;
    }
    return GSC_OK;
}

/* Of a record whose last checked list may still be in scaler->list. */
static gsc_status take_extents(gsc_scaler *scaler, gsc__record *record)
{
    if (record->extents.valid)
        return GSC_OK;
    if (!gsc__extents_match(&record->extents, &scaler->list))
        GSC_TRY(gsc__extents_take(&record->extents, &scaler->list));
    record->extents.valid = record->extents.distinct = true; /* a list that was not copied at once ascends */
    return GSC_OK;
}

gsc_status gsc__keep_extents(gsc_scaler *scaler)
{
    gsc__record *record = scaler->list_record;
    bool is_unscaled = record && record->iteration == scaler->records.iteration && record->stage == GSC_STAGE_UNSCALED;
    return is_unscaled ? take_extents(scaler, record) : GSC_OK;
}

/* The extents have been taken, unless the list is the last one. */
static gsc_status check_others(gsc_scaler *scaler, gsc__record *record, const char *api)
{
    gsc__claims_begin(&scaler->claims, scaler->records.iteration);
    if (scaler->list_is_last)
        GSC_TRY(take_extents(scaler, record));
    if (!scaler->options.strict)
        GSC_TRY(add_unscaled(scaler));
    return check_shared(scaler, record, api);
}

gsc_status gsc__claim_gradients(gsc_scaler *scaler, gsc__record *record, const char *api)
{
    bool strict = scaler->options.strict, checks = !scaler->list_is_last && scaler->records.unscaled;
    if (strict || checks) {
        gsc_status status = check_others(scaler, record, api);
        if (status == GSC_OK && strict)
            status = gsc__claims_add(&scaler->claims, &record->extents, record->key, scaler->claim_count + 1);
        if (status != GSC_OK) {
            scaler->list_record = NULL; /* the next one is compared again, even if it is the same */
            return status;
        }
    }
    record->extents.valid |= scaler->list_is_copied;
    record->claim = ++scaler->claim_count;
    record->claim_added = strict;
    record->claimed_by = api;
    record->step_failed = false; /* that was with other gradients */
    record->claimed_count = record->grad_count;
    record->claimed_present = scaler->list_present;
    return GSC_OK;
}

/* A walk over an UNSCALED optimizer's gradients, before its step. */
typedef struct comparison {
    const gsc__extents *checked; /* what they were */
    size_t position;             /* the first extent whose gradient has not been passed */
    bool refuses_added;
    bool refuses_moved;
    const gsc__served *served;
    bool compares_size; /* elements and dtype, not addresses: arrays may lie elsewhere in each call */
} comparison;

static bool has_elements(const DLTensor *tensor)
{
    if (!tensor)
        return false;
    if (tensor->ndim > GSC_MAX_NDIM || !tensor->shape)
        return true; /* a scalar, or bad input, which differs from what was checked */
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] == 0)
            return false;
    return true;
}

/* Whether a gradient is where the extent at c->position says, or as large as it. */
static bool is_same(const comparison *c, const DLTensor *tensor)
{
    const gsc__view_rules rules = {.allow_fp16 = true, .served = c->served};
    const gsc__message_subject subject = {.api = "", .what = ""};
    const gsc__extent *extent = &c->checked->list[c->position];
    gsc__view view;
    if (gsc__view_make(tensor, &rules, &subject, &view) != GSC_OK)
        return false;
    if (!c->compares_size)
        return gsc__extent_is(c->checked, c->position, &view);
    return extent->kind == view.kind && extent->end - extent->start == view.count * gsc__kind_size(view.kind);
}

typedef enum change { UNCHANGED, ADDED, MOVED, REMOVED } change;

/* Whether the check saw a gradient with this index. The indices that are asked for ascend. */
static bool was_present(comparison *c, size_t index)
{
    const gsc__extents *checked = c->checked;
    while (c->position < checked->count && checked->list[c->position].index < index)
        c->position++;
    return c->position < checked->count && checked->list[c->position].index == index;
}

static change compare(comparison *c, const DLTensor *tensor, size_t index)
{
    if (!has_elements(tensor))
        return c->compares_size && was_present(c, index) ? REMOVED : UNCHANGED;
    if (!was_present(c, index))
        return c->refuses_added ? ADDED : UNCHANGED;
    return (c->refuses_moved || c->compares_size) && !is_same(c, tensor) ? MOVED : UNCHANGED;
}

static gsc_status refuse_change(gsc_scaler *scaler, const gsc__record *record, size_t index, change what,
                                const char *api)
{
    const char *call = call_words(record->claimed_by);
    if (what == REMOVED)
        return gsc_fail(GSC_ERR_STATE,
                        "%s: gradient %zu, which %s has checked, is missing; pass the same arrays in the same order, "
                        "or " GSC_WORDS_DROP_BATCH,
                        api, index, call);
    gsc__gradient_text gradient = describe_gradient(scaler, record->optimizer, index);
    if (what == ADDED)
        return gsc_fail(GSC_ERR_STATE,
                        "%s: %s was absent when %s checked this optimizer's gradients, so it is still scaled; make all "
                        "gradients before, or " GSC_WORDS_DROP_BATCH,
                        api, gradient.text, call);
    if (record->use == GSC_USED_WITH_BUFFERS)
        return gsc_fail(GSC_ERR_STATE,
                        "%s: %s has another dtype or number of elements than when %s checked it; pass the same "
                        "gradients, or " GSC_WORDS_DROP_BATCH,
                        api, gradient.text, call);
    return gsc_fail(GSC_ERR_STATE,
                    "%s: %s is not the one that %s has unscaled%s; is it scaled? For gradients made anew " GSC_WORDS(
                        "call gsc_scaler_rearm",
                        "call update (or, in the same iteration, rearm)") " first, or " GSC_WORDS_DROP_BATCH,
                    api, gradient.text, call, record->step_failed ? " before the step that failed" : " (strict)");
}

/* Asks for each gradient that may have changed. */
static gsc_status walk(gsc_scaler *scaler, const gsc__record *record, size_t n, comparison *c, const char *api)
{
    const gsc_optimizer *optimizer = record->optimizer;
    const bool all = c->refuses_moved || c->compares_size;
    const gsc__list_source source = {.self = optimizer->self, .name = optimizer->name};
    uint64_t messages = gsc__message_count();
    change found = UNCHANGED;
    gsc_status failure = GSC_OK;
    gsc__callback_begin(scaler);
    size_t index = 0;
    for (; index < n && found == UNCHANGED; index++) {
        if (!all && was_present(c, index))
            continue;
        const DLTensor *tensor = optimizer->grad(optimizer->self, index);
        if (tensor && tensor == GSC_GRAD_FAILED) {
            failure = gsc__list_tensor_failed(&source, index, api, gsc__message_count() != messages);
            break;
        }
        found = compare(c, tensor, index);
    }
    gsc__callback_end(scaler);
    if (failure != GSC_OK)
        return failure;
    if (found != UNCHANGED)
        return refuse_change(scaler, record, index - 1, found, api);
    (void)was_present(c, n); /* passes the extents before n */
    if (c->compares_size && c->position < c->checked->count)
        return refuse_change(scaler, record, c->checked->list[c->position].index, REMOVED, api);
    return GSC_OK;
}

gsc_status gsc__check_same_gradients(gsc_scaler *scaler, gsc__record *record, const char *api)
{
    const bool strict = scaler->options.strict, buffers = record->use == GSC_USED_WITH_BUFFERS;
    comparison c = {.checked = &record->extents,
                    .served = scaler->served,
                    .refuses_added = GSC_WORDS(true, false) || strict || record->step_failed,
                    .refuses_moved = !buffers && (strict || record->step_failed),
                    .compares_size = buffers};
    if (record->claim == 0 || !(c.refuses_added || c.compares_size))
        return GSC_OK;
    size_t n = gsc__count_gradients(scaler, record->optimizer);
    bool none_can_be_added = n == record->claimed_count && record->claimed_present == n;
    if (none_can_be_added && !c.refuses_moved && !c.compares_size)
        return GSC_OK;
    if (scaler->list_record == record)
        GSC_TRY(take_extents(scaler, record));
    return walk(scaler, record, n, &c, api);
}
