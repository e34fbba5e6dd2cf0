/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 13: what the observer is told, in which order. */
#include <float.h>

#include "rig.h"

typedef struct log_book {
    gsc_event events[32];
    size_t count;
} log_book;

static void write_down(void *ctx, const gsc_event *event)
{
    log_book *book = ctx;
    if (book->count < 32)
        book->events[book->count++] = *event;
}

static void start(rig *r, log_book *book, gsc_scaler_options options)
{
    book->count = 0;
    options.observer = write_down;
    options.observer_ctx = book;
    rig_start_with(r, &options);
}

/* Every event written down since the last call: "O" overflow, "B" backoff, "G" growth, "M" at the minimum. */
static void assert_kinds(const rig *r, log_book *book, const char *kinds)
{
    char seen[33] = "";
    for (size_t i = 0; i < book->count; i++) {
        seen[i] = "OBGM"[book->events[i].kind];
        assert_ptr_equal(book->events[i].scaler, r->scaler);
        assert_reserved_zero(book->events[i]);
        if (book->events[i].kind != GSC_EVENT_OVERFLOW)
            assert_null(book->events[i].optimizer);
        else
            assert_non_null(book->events[i].optimizer);
    }
    assert_string_equal(seen, kinds);
    book->count = 0;
}

/* rule 1.5, 13.3 */
static void test_overflow_then_backoff(void **state)
{
    (void)state;
    log_book book;
    rig r;
    start(&r, &book, options_of(8, 2));
    r.grad = INFINITY;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_int_equal(book.count, 1); /* told at once */
    assert_ptr_equal(book.events[0].optimizer, &r.optimizer.base);
    assert_exact(book.events[0].scale, 8);
    assert_int_equal(book.events[0].update, 0);
    assert_kinds(&r, &book, "O");
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_kinds(&r, &book, ""); /* once only */
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(book.events[0].scale, 4); /* after the event */
    assert_int_equal(book.events[0].update, 0);
    assert_kinds(&r, &book, "B");
    rig_stop(&r);
}

/* rule 13.1, 13.3 */
static void test_updates_are_numbered(void **state)
{
    (void)state;
    log_book book;
    rig r;
    start(&r, &book, options_of(8, 2));
    rig_iterate(&r, 1);
    assert_kinds(&r, &book, "");
    rig_iterate(&r, 1);
    assert_exact(book.events[0].scale, 16);
    assert_int_equal(book.events[0].update, 1); /* one update was completed before */
    assert_kinds(&r, &book, "G");
    rig_iterate(&r, NAN);
    assert_int_equal(book.events[0].update, 2);
    assert_int_equal(book.events[1].update, 2);
    assert_exact(book.events[0].scale, 16);
    assert_exact(book.events[1].scale, 8);
    assert_kinds(&r, &book, "OB");
    rig_stop(&r);
}

/* rule 13.3 */
static void test_each_optimizer_that_overflows(void **state)
{
    (void)state;
    log_book book;
    rig r, other;
    start(&r, &book, options_of(8, 2));
    rig_start(&other, 1);
    rig_step(&r, NAN);
    other.grad = INFINITY;
    assert_ok(gsc_scaler_step(r.scaler, &other.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_ptr_equal(book.events[0].optimizer, &r.optimizer.base);
    assert_ptr_equal(book.events[1].optimizer, &other.optimizer.base);
    assert_kinds(&r, &book, "OOB");
    rig_stop(&r);
    rig_stop(&other);
}

/* rule 13.3 */
static void test_the_fused_path_tells_too(void **state)
{
    (void)state;
    log_book book;
    rig r;
    start(&r, &book, options_of(8, 1));
    r.optimizer.base.step_scaled = fake_step_scaled;
    rig_iterate(&r, NAN);
    assert_kinds(&r, &book, "OB");
    rig_iterate(&r, 1);
    assert_kinds(&r, &book, "G");
    rig_stop(&r);
}

/* rule 13.4, 13.5, case 3 */
static void test_at_the_minimum(void **state)
{
    (void)state;
    log_book book;
    rig r;
    gsc_scaler_options options = options_of(4, 1);
    options.min_scale = 1;
    start(&r, &book, options);
    rig_iterate(&r, NAN);
    assert_kinds(&r, &book, "OB"); /* 4 -> 2 */
    rig_iterate(&r, NAN);
    assert_exact(book.events[2].scale, 1);
    assert_kinds(&r, &book, "OBM"); /* 2 -> 1 */
    for (int i = 0; i < 2; i++) {
        rig_iterate(&r, NAN);
        assert_exact(book.events[1].scale, 1);
        assert_kinds(&r, &book, "OM"); /* no backoff where the scale did not change */
    }
    assert_int_equal(stats_of(r.scaler).backoffs, 2);
    rig_iterate(&r, 1);
    assert_kinds(&r, &book, "G");
    rig_stop(&r);
}

/* rule 13.4, case 102 */
static void test_a_static_scale_has_no_minimum_to_tell_of(void **state)
{
    (void)state;
    log_book book;
    rig r;
    gsc_scaler_options options = options_of(128, 1);
    options.min_scale = options.max_scale = 128;
    start(&r, &book, options);
    rig_iterate(&r, NAN);
    assert_kinds(&r, &book, "O");
    rig_iterate(&r, 1);
    assert_kinds(&r, &book, "");
    assert_exact(gsc_scaler_get_scale(r.scaler), 128);
    assert_int_equal(stats_of(r.scaler).backoffs + stats_of(r.scaler).growths, 0);
    rig_stop(&r);
    options.max_scale = 1024; /* min == init: the scale has not fallen */
    start(&r, &book, options);
    rig_iterate(&r, NAN);
    assert_kinds(&r, &book, "O");
    rig_stop(&r);
}

/* rule 13.5 */
static void test_blocked_growth_is_none(void **state)
{
    (void)state;
    log_book book;
    rig r;
    gsc_scaler_options options = options_of(100, 1);
    options.max_scale = 150;
    start(&r, &book, options);
    for (int i = 0; i < 4; i++)
        rig_iterate(&r, 1);
    assert_kinds(&r, &book, "");
    assert_int_equal(stats_of(r.scaler).growths, 0);
    rig_stop(&r);
}

/* rule 13.4, case 9 */
static void test_held_by_hysteresis(void **state)
{
    (void)state;
    log_book book;
    rig r;
    gsc_scaler_options options = options_of(8, 2);
    options.hysteresis = 2;
    options.min_scale = 8;
    options.init_scale = 16;
    start(&r, &book, options);
    rig_iterate(&r, NAN);
    assert_kinds(&r, &book, "O"); /* no backoff was due */
    rig_iterate(&r, NAN);
    assert_kinds(&r, &book, "OBM");
    rig_stop(&r);
}

/* A factor so near to 1 that the scale, rounded to float32, does not move. */
/* rule 13.5 */
static void test_a_factor_without_effect(void **state)
{
    (void)state;
    log_book book;
    rig r;
    gsc_scaler_options options = options_of(8, 1);
    options.growth_factor = 1 + 1e-12;
    options.backoff_factor = 1 - 1e-12;
    start(&r, &book, options);
    rig_iterate(&r, 1);
    assert_kinds(&r, &book, "");
    rig_iterate(&r, NAN);
    assert_kinds(&r, &book, "O");
    assert_int_equal(stats_of(r.scaler).backoffs + stats_of(r.scaler).growths, 0);
    rig_stop(&r);
}

/* rule 13.3 */
static void test_nothing_is_told_of_refused_calls_and_update_to(void **state)
{
    (void)state;
    log_book book;
    rig r;
    start(&r, &book, options_of(8, 1));
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(r.scaler));
    assert_ok(gsc_scaler_update_to(r.scaler, 2));
    assert_kinds(&r, &book, "");
    r.optimizer.params[0].grad.dtype = GSC_FLOAT16;
    r.grad = NAN;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_kinds(&r, &book, "");
    rig_stop(&r);
}

/* rule 13.3 */
static void test_a_disabled_scaler_is_silent(void **state)
{
    (void)state;
    log_book book;
    rig r;
    gsc_scaler_options options = options_of(8, 1);
    options.enabled = false;
    start(&r, &book, options);
    r.grad = NAN;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    rig_iterate(&r, NAN);
    assert_kinds(&r, &book, "");
    rig_stop(&r);
}

/* trial T24 */
static void test_scale_before(void **state)
{
    (void)state;
    log_book book;
    rig r;
    start(&r, &book, options_of(8, 1));
    rig_iterate(&r, INFINITY);
    rig_iterate(&r, 8);
    assert_int_equal(book.count, 3);
    const double before[] = {8, 8, 4}, after[] = {8, 4, 8}; /* overflow, backoff, growth */
    for (size_t i = 0; i < 3; i++) {
        assert_exact(book.events[i].scale_before, before[i]);
        assert_exact(book.events[i].scale, after[i]);
    }
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow_then_backoff),
        cmocka_unit_test(test_updates_are_numbered),
        cmocka_unit_test(test_each_optimizer_that_overflows),
        cmocka_unit_test(test_the_fused_path_tells_too),
        cmocka_unit_test(test_at_the_minimum),
        cmocka_unit_test(test_a_static_scale_has_no_minimum_to_tell_of),
        cmocka_unit_test(test_blocked_growth_is_none),
        cmocka_unit_test(test_held_by_hysteresis),
        cmocka_unit_test(test_a_factor_without_effect),
        cmocka_unit_test(test_nothing_is_told_of_refused_calls_and_update_to),
        cmocka_unit_test(test_a_disabled_scaler_is_silent),
        cmocka_unit_test(test_scale_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
