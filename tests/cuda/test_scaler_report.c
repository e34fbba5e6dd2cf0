/* SPDX-License-Identifier: Apache-2.0 */
/* What overflowed, found on the device and fetched when it is asked for; events, which arrive late. */
#include "scaler_rig.h"

enum { LOG = 256, MOST_EVENTS = LOG + 32 }; /* LOG: as many events wait to be told */
static gsc_event events[MOST_EVENTS];
static int event_count;

static void observe(void *ctx, const gsc_event *event)
{
    (void)ctx;
    assert_true(event_count < MOST_EVENTS);
    events[event_count++] = *event;
}

static void start(rig *r)
{
    gsc_scaler_options options = device_options();
    options.observer = observe;
    event_count = 0;
    rig_start(r, &options);
}

/* rule 17.5 */
static void a_report_names_gradients_and_counts(void **state)
{
    (void)state;
    rig r;
    gsc_overflow found[4];
    start(&r);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 5000, "embedding");
    add_grad(&r.optimizer, 0, GSC_BFLOAT16, 3, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT64, 2, "fine");
    for (uint64_t repeats = 1; repeats < 3; repeats++) {
        static double large[5000];
        large[4500] = large[4800] = (double)INFINITY;
        large[4600] = (double)NAN;
        set_grad(&r.optimizer, 0, large);
        set_grad(&r.optimizer, 1, (double[]){1, 2, (double)NAN});
        set_grad(&r.optimizer, 2, (double[]){1, 2});
        assert_waits(0, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, NULL, 0), 2);
        assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, found, 4), 2);
        assert_true(found[0].index == 0 && found[0].inf_count == 2 && found[0].nan_count == 1);
        assert_int_equal(found[0].first_index, 4500);
        assert_string_equal(found[0].name, "embedding");
        assert_true(found[1].index == 1 && found[1].inf_count == 0 && found[1].nan_count == 1);
        assert_int_equal(found[1].first_index, 2);
        assert_null(found[1].name);
        assert_true(found[0].repeats == repeats && found[1].repeats == repeats);
        assert_ok(gsc_scaler_update(r.scaler));
    }
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, found, 1), 2); /* also after update */
    assert_string_equal(found[0].name, "embedding");
    rig_stop(&r);
}

static void a_scale_aware_step_reports_too(void **state)
{
    (void)state;
    rig r;
    gsc_overflow found;
    start(&r);
    r.optimizer.base.step_scaled = optimizer_step_scaled;
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 4, "a");
    set_grad(&r.optimizer, 0, (double[]){1, 2, -(double)INFINITY, 4});
    assert_waits(0, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &found, 1), 1);
    assert_true(found.inf_count == 1 && found.first_index == 2);
    rig_stop(&r);
}

/* The tensor's elements in memory are m[0], m[1], …; which of them is the first in row-major order? */
typedef struct strided_case {
    int ndim;
    int64_t shape[3], strides[3];
    uint64_t byte_offset;
    int infinite[2]; /* in memory, in float32 elements from data on; -1: none */
    uint64_t first;  /* row-major */
    size_t memory;
} strided_case;

/* rule 17.5 */
static void first_indices_are_row_major(void **state)
{
    (void)state;
    static const strided_case cases[] = {
        {2, {2, 3}, {1, 2}, 0, {1, -1}, 3, 6},                 /* transposed: (1, 0) */
        {2, {2, 3}, {1, 2}, 0, {1, 2}, 1, 6},                  /* (1, 0) and (0, 1) */
        {1, {4}, {-1}, 3 * sizeof(float), {0, -1}, 3, 4},      /* backwards */
        {1, {3}, {2}, 0, {4, -1}, 2, 6},                       /* every second one */
        {2, {2, 2}, {-4, 1}, 4 * sizeof(float), {1, 5}, 1, 8}, /* rows backwards: m[5] is (0, 1) */
        {3, {2, 2, 2}, {1, 4, 2}, 0, {5, -1}, 6, 8},           /* permuted: m[5] is (1, 1, 0) */
        {2, {3, 2}, {4, 1}, 0, {9, -1}, 5, 12},                /* rows with a gap */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const strided_case *given = &cases[c];
        rig r;
        gsc_overflow found;
        float memory[12] = {0};
        start(&r);
        device_grad *grad = add_grad(&r.optimizer, 0, GSC_FLOAT32, 12, "strided");
        grad->tensor.ndim = given->ndim;
        memcpy(grad->shape, given->shape, sizeof grad->shape);
        memcpy(grad->strides, given->strides, sizeof grad->strides);
        grad->tensor.strides = grad->strides;
        grad->tensor.byte_offset = given->byte_offset;
        for (int i = 0; i < 2; i++)
            if (given->infinite[i] >= 0)
                memory[given->infinite[i]] = INFINITY;
        memory[0] = memory[0] == 0.0f ? 16.0f : memory[0];
        write_grad(grad, memory, sizeof memory);
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &found, 1), 1);
        if (found.first_index != given->first)
            print_error("case %zu: %d instead of %d\n", c, (int)found.first_index, (int)given->first);
        assert_int_equal(found.first_index, given->first);
        assert_int_equal(found.inf_count, given->infinite[1] >= 0 ? 2 : 1);
        read_grad(grad, memory, sizeof memory);
        if (given->infinite[0] != 0)
            assert_exact((double)memory[0], c == 2 || c == 4 ? (c == 2 ? 2 : 2) : 2);
        gsc_scaler_destroy(r.scaler);
        optimizer_free_grads(&r.optimizer);
    }
}

/* rule 17.4 */
static void events_lag_and_are_told_once_in_order(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    needs_late_work();
    start(&r);
    r.optimizer.base.step_scaled = optimizer_step_scaled;
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "a");
    const double grads[] = {1, 1, (double)INFINITY};
    for (int i = 0; i < 3; i++) {
        fill_grad(&r.optimizer, 0, grads[i]);
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
        assert_ok(gsc_scaler_update(r.scaler));
    }
    const int before = event_count;
    assert_true(before <= 1); /* growth, of the second update, may have arrived */
    assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    assert_int_equal(event_count, 3);
    assert_true(events[0].kind == GSC_EVENT_GROWTH && events[0].update == 1);
    assert_true(events[0].scale_before == 8 && events[0].scale == 16 && events[0].scaler == r.scaler);
    assert_true(events[1].kind == GSC_EVENT_OVERFLOW && events[1].update == 2);
    assert_ptr_equal(events[1].optimizer, &r.optimizer.base);
    assert_true(events[1].scale_before == 16 && events[1].scale == 16);
    assert_true(events[2].kind == GSC_EVENT_BACKOFF && events[2].update == 2 && events[2].optimizer == NULL);
    assert_true(events[2].scale_before == 16 && events[2].scale == 8);
    assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    assert_int_equal(event_count, 3);
    rig_stop(&r);
}

/* The device overwrites the first of 256 events that nobody has looked at before it shows the 257th. */
static void an_event_that_is_overwritten_is_lost(void **state)
{
    (void)state;
    rig r;
    needs_late_work();
    gsc_scaler_options options = device_options();
    options.observer = observe;
    options.hysteresis = 1000; /* an update has no event */
    rig_start(&r, &options);
    event_count = 0;
    r.optimizer.base.step_scaled = optimizer_step_scaled;
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "a");
    fill_grad(&r.optimizer, 0, (double)INFINITY);
    for (int i = 0; i < LOG; i++) {
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
        assert_ok(gsc_scaler_update(r.scaler));
    }
    assert_int_equal(event_count, 0);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    standin_run_all();
    assert_ok(gsc_scaler_update(r.scaler));
    assert_int_equal(event_count, LOG - 1);
    gsc_step_result result;
    assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    assert_int_equal(event_count, LOG);
    for (int i = 0; i < event_count; i++)
        assert_int_equal(events[i].update, i + 1);
    rig_stop(&r);
}

/* rule 17.4 */
static void a_getter_brings_numbers_without_waiting(void **state)
{
    (void)state;
    rig r;
    needs_late_work();
    start(&r);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "a");
    fill_grad(&r.optimizer, 0, (double)INFINITY);
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    const uint64_t waits = standin_synchronisations();
    assert_exact(gsc_scaler_get_scale(r.scaler), 8);
    standin_run_all();
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    gsc_scaler_stats stats;
    gsc_scaler_get_stats(r.scaler, &stats);
    assert_int_equal(stats.updates, 1);
    assert_int_equal(standin_synchronisations(), waits);
    rig_stop(&r);
}

static void a_gradient_listed_twice_is_reported_once(void **state)
{
    (void)state;
    rig r;
    gsc_overflow found[2];
    start(&r);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "a");
    r.optimizer.grads[1] = r.optimizer.grads[0];
    r.optimizer.grads[1].tensor.shape = r.optimizer.grads[1].shape;
    r.optimizer.count = 2;
    set_grad(&r.optimizer, 0, (double[]){8, (double)NAN});
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact(grad_at(&r.optimizer, 0, 0), 1);
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, found, 2), 1);
    assert_int_equal(found[0].index, 0);
    r.optimizer.count = 1;
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_names_gradients_and_counts),
        cmocka_unit_test(a_scale_aware_step_reports_too),
        cmocka_unit_test(first_indices_are_row_major),
        cmocka_unit_test(events_lag_and_are_told_once_in_order),
        cmocka_unit_test(an_event_that_is_overwritten_is_lost),
        cmocka_unit_test(a_getter_brings_numbers_without_waiting),
        cmocka_unit_test(a_gradient_listed_twice_is_reported_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
