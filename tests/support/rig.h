/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h: a scaler with an optimizer of one float32 parameter (0) and gradient, for nearly every test of the scaler.
 *
 *     rig r;
 *     rig_start(&r, 8);                             // scale 8, growth interval 2, everything else default
 *     assert_int_equal(rig_iterate(&r, 16), GSC_STEPPED);   // gradient 16, step, update
 *     rig_stop(&r);
 */
#ifndef GSC_TESTS_RIG_H
#define GSC_TESTS_RIG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "asserts.h"
#include "fake_optimizer.h"

static inline gsc_scaler *new_scaler(const gsc_scaler_options *options)
{
    gsc_scaler *scaler = NULL;
    assert_ok(gsc_scaler_create(options, &scaler));
    assert_non_null(scaler);
    return scaler;
}

static inline gsc_scaler_options options_of(double init_scale, int64_t growth_interval)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = init_scale;
    options.growth_interval = growth_interval;
    return options;
}

static inline gsc_scaler_state state_of(const gsc_scaler *scaler)
{
    gsc_scaler_state state;
    memset(&state, 0xff, sizeof state);
    assert_ok(gsc_scaler_state_dict(scaler, &state));
    return state;
}

static inline gsc_scaler_stats stats_of(const gsc_scaler *scaler)
{
    gsc_scaler_stats stats;
    memset(&stats, 0xff, sizeof stats);
    gsc_scaler_get_stats(scaler, &stats);
    return stats;
}

typedef struct rig {
    gsc_scaler *scaler;
    fake_optimizer optimizer;
    float param, grad;
} rig;

static inline void rig_start_with(rig *r, const gsc_scaler_options *options)
{
    r->scaler = new_scaler(options);
    r->param = 0;
    r->grad = 0;
    fake_init(&r->optimizer);
    fake_add(&r->optimizer, GSC_FLOAT32, &r->param, &r->grad, 1, "weight");
}

static inline void rig_start(rig *r, double init_scale)
{
    gsc_scaler_options options = options_of(init_scale, 2);
    rig_start_with(r, &options);
}

#define assert_schedule(r, expected_scale, expected_tracker)                                                           \
    do {                                                                                                               \
        const gsc_scaler_state state_ = state_of((r)->scaler);                                                         \
        assert_exact(gsc_scaler_get_scale((r)->scaler), (expected_scale));                                             \
        assert_exact(state_.scale, (expected_scale));                                                                  \
        assert_int_equal(state_.growth_tracker, (expected_tracker));                                                   \
    } while (0)

static inline void rig_stop(rig *r) { gsc_scaler_destroy(r->scaler); }

static inline gsc_outcome rig_step(rig *r, float scaled_grad)
{
    gsc_step_result result;
    r->grad = scaled_grad;
    assert_ok(gsc_scaler_step(r->scaler, &r->optimizer.base, NULL, &result));
    return result.outcome;
}

/* One whole iteration with this gradient, as the backward pass would have stored it. */
static inline gsc_outcome rig_iterate(rig *r, float scaled_grad)
{
    gsc_outcome outcome = rig_step(r, scaled_grad);
    assert_ok(gsc_scaler_update(r->scaler));
    return outcome;
}

/* A compact CPU tensor of `count` elements, or of one element and no dimension where count is NULL. */
static inline DLTensor tensor_of(DLDataType dtype, void *data, int64_t *count)
{
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = count == NULL ? 0 : 1, .dtype = dtype, .shape = count};
}

static inline float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif
