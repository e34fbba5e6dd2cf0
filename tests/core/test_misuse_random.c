/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 18 against a model that marks cells of memory: several optimizers whose lists change, strict or not. */
#include "layouts.h"
#include "rig.h"

enum { CELLS = 48, OPTIMIZERS = 5, MOST = 4, CALLS = 400, RUNS = 300 };

/* What a model knows of an optimizer; sets of cells are bits. */
typedef struct user {
    gsc_optimizer base;
    DLTensor tensors[MOST];
    int64_t shape[MOST], stride[MOST];
    bool absent[MOST];
    size_t n;
    gsc_stage stage;
    uint64_t cells;     /* of the gradients as they are now */
    uint64_t claimed;   /* of those that the last check of this iteration saw */
    bool failed, fails; /* a step failed since the check; the next one will */
    DLTensor checked[MOST];
    int64_t checked_shape[MOST], checked_stride[MOST];
    bool was_absent[MOST];
    size_t checked_n;
} user;

static float memory[CELLS];
static double exact[CELLS]; /* what memory should hold */

static size_t grad_count(void *self) { return ((user *)self)->n; }

static DLTensor *grad(void *self, size_t index)
{
    user *u = self;
    return u->absent[index] ? NULL : &u->tensors[index];
}

static gsc_status step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    return ((user *)self)->fails ? gsc_fail(GSC_ERR_IO, "asked to fail") : GSC_OK;
}

static uint64_t cells_of(const user *u, size_t i)
{
    uint64_t cells = 0;
    for (int64_t k = 0; k < u->shape[i]; k++)
        cells |= UINT64_C(1) << ((float *)u->tensors[i].data - memory + k * u->stride[i]);
    return cells;
}

/* New gradients, disjoint among themselves. */
static void change_list(user *u, uint64_t *seed)
{
    u->n = 1 + next_random(seed) % MOST;
    u->cells = 0;
    for (size_t i = 0; i < u->n; i++) {
        u->stride[i] = 1 + (int64_t)(next_random(seed) % 2);
        u->shape[i] = 1 + (int64_t)(next_random(seed) % 4);
        u->absent[i] = next_random(seed) % 8 == 0;
        size_t first = next_random(seed) % (CELLS - 8);
        u->tensors[i] = tensor_over(memory + first, GSC_FLOAT32, 1, &u->shape[i], &u->stride[i]);
        if (cells_of(u, i) & u->cells)
            u->absent[i] = true;
        if (!u->absent[i])
            u->cells |= cells_of(u, i);
    }
}

static void note_check(user *u)
{
    u->claimed = u->cells;
    u->failed = false;
    u->checked_n = u->n;
    memcpy(u->checked, u->tensors, sizeof u->checked);
    memcpy(u->checked_shape, u->shape, sizeof u->shape);
    memcpy(u->checked_stride, u->stride, sizeof u->stride);
    memcpy(u->was_absent, u->absent, sizeof u->absent);
    for (int c = 0; c < CELLS; c++)
        if (u->cells >> c & 1)
            exact[c] /= 2;
}

/* Of the gradients that are there now: some was absent at the check; some lies elsewhere. */
static void compare_with_check(const user *u, bool *added, bool *moved)
{
    *added = *moved = false;
    for (size_t i = 0; i < u->n; i++) {
        if (u->absent[i])
            continue;
        bool there = i < u->checked_n && !u->was_absent[i];
        bool same_stride = u->shape[i] == 1 || u->stride[i] == u->checked_stride[i];
        *added |= !there;
        *moved |=
            there && (u->tensors[i].data != u->checked[i].data || u->shape[i] != u->checked_shape[i] || !same_stride);
    }
}

typedef struct world {
    gsc_scaler *scaler;
    user users[OPTIMIZERS];
    bool strict;
    int shared, changed, accepted; /* refusals of each kind, and checks that passed */
} world;

/* The memory that a check of this optimizer must keep off. */
static uint64_t forbidden(const world *w, const user *u)
{
    uint64_t cells = 0;
    for (int i = 0; i < OPTIMIZERS; i++) {
        const user *other = &w->users[i];
        if (other != u && (w->strict || other->stage == GSC_STAGE_UNSCALED))
            cells |= other->claimed;
    }
    return cells;
}

/* Returns whether the gradients were checked. */
static bool check(world *w, user *u, gsc_status status)
{
    bool shared = (forbidden(w, u) & u->cells) != 0;
    status = status == GSC_ERR_OPTIMIZER ? GSC_OK : status; /* of the step that follows */
    if (shared && status == GSC_OK)
        assert_false(w->strict); /* allowed by default where the list was this optimizer's last one */
    else
        assert_status(status, shared ? GSC_ERR_STATE : GSC_OK);
    w->shared += status == GSC_ERR_STATE;
    if (status == GSC_ERR_STATE) {
        assert_message("shares memory");
        return false;
    }
    w->accepted++;
    note_check(u);
    return true;
}

static void unscale(world *w, user *u)
{
    gsc_status status = gsc_scaler_unscale(w->scaler, &u->base);
    if (u->stage != GSC_STAGE_READY)
        assert_status(status, GSC_ERR_STATE);
    else if (check(w, u, status))
        u->stage = GSC_STAGE_UNSCALED;
}

static void make_step(world *w, user *u, uint64_t *seed)
{
    u->fails = next_random(seed) % 4 == 0;
    gsc_status status = gsc_scaler_step(w->scaler, &u->base, NULL, NULL),
               expected = u->fails ? GSC_ERR_OPTIMIZER : GSC_OK;
    if (u->stage == GSC_STAGE_STEPPED) {
        assert_status(status, GSC_ERR_STATE);
        return;
    }
    if (u->stage == GSC_STAGE_UNSCALED) {
        bool added, moved;
        compare_with_check(u, &added, &moved);
        if (added || (moved && (w->strict || u->failed))) {
            assert_status(status, GSC_ERR_STATE);
            assert_message(u->failed || w->strict ? "gsc_scaler_update" : "was absent");
            w->changed++;
            return;
        }
        assert_status(status, expected);
    } else if (!check(w, u, status)) {
        return;
    }
    u->failed |= status != GSC_OK;
    u->stage = status == GSC_OK ? GSC_STAGE_STEPPED : GSC_STAGE_UNSCALED;
}

static void forget_claim(user *u)
{
    u->stage = GSC_STAGE_READY;
    u->claimed = 0;
    u->failed = false;
}

static void call(world *w, uint64_t *seed)
{
    user *u = &w->users[next_random(seed) % OPTIMIZERS];
    switch (next_random(seed) % 12) {
    case 0:
    case 1:
    case 2: unscale(w, u); break;
    case 3:
    case 4:
    case 5: make_step(w, u, seed); break;
    case 6:
    case 7: change_list(u, seed); break;
    case 8:
        if (gsc_scaler_skip(w->scaler, &u->base) == GSC_OK)
            u->stage = GSC_STAGE_STEPPED;
        break;
    case 9:
        assert_ok(gsc_scaler_rearm(w->scaler, &u->base));
        forget_claim(u);
        break;
    case 10:
        assert_ok(gsc_scaler_forget(w->scaler, &u->base));
        forget_claim(u);
        break;
    default:
        if (gsc_scaler_update_to(w->scaler, 2) == GSC_OK)
            for (int i = 0; i < OPTIMIZERS; i++)
                forget_claim(&w->users[i]);
        break;
    }
    for (int c = 0; c < CELLS; c++)
        assert_true(memory[c] == (float)exact[c]);
}

/* trial T1, T3, T4, rule 18.1, 18.2, 18.3 */
static void test_random_calls_against_marks(void **state)
{
    (void)state;
    uint64_t seed = 5;
    int shared[2] = {0, 0}, changed[2] = {0, 0}, accepted[2] = {0, 0};
    for (int run = 0; run < RUNS; run++) {
        gsc_scaler_options options = options_of(2, 1000000);
        world w = {.strict = run % 2 == 1};
        options.strict = w.strict;
        w.scaler = new_scaler(&options);
        for (int i = 0; i < OPTIMIZERS; i++) {
            user *u = &w.users[i];
            u->base = (gsc_optimizer){.self = u, .grad_count = grad_count, .grad = grad, .step = step};
            change_list(u, &seed);
        }
        for (int c = 0; c < CELLS; c++)
            exact[c] = memory[c] = 1;
        for (int i = 0; i < CALLS; i++) {
            call(&w, &seed);
            for (int c = 0; c < CELLS; c++)
                exact[c] = memory[c] = exact[c] < 0x1p-60 ? 1 : memory[c]; /* far from subnormal */
        }
        shared[w.strict] += w.shared;
        changed[w.strict] += w.changed;
        accepted[w.strict] += w.accepted;
        gsc_scaler_destroy(w.scaler);
    }
    for (int strict = 0; strict < 2; strict++) {
        assert_in_range(shared[strict], 100, 100000);
        assert_in_range(changed[strict], 100, 100000);
        assert_in_range(accepted[strict], 100, 100000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_calls_against_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
