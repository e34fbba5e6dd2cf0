/* SPDX-License-Identifier: Apache-2.0 */
/* page_helpers.h: what the tests of the reference pages share beyond rig.h: scalers of a few kinds, and optimizers
 * apart from their scaler, since the pages speak of several on one. */
#ifndef GSC_TESTS_PAGE_HELPERS_H
#define GSC_TESTS_PAGE_HELPERS_H

#include "rig.h"

static inline gsc_scaler *new_scaler_with(double init_scale, int64_t growth_interval)
{
    gsc_scaler_options options = options_of(init_scale, growth_interval);
    return new_scaler(&options);
}

static inline gsc_scaler *new_disabled_scaler(void)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    options.enabled = false;
    return new_scaler(&options);
}

/* An optimizer of one float32 parameter with one element. */
typedef struct single {
    float param, grad;
    fake_optimizer fake;
} single;

static inline const gsc_optimizer *single_init(single *one, float param, float grad)
{
    one->param = param;
    one->grad = grad;
    fake_init(&one->fake);
    fake_add(&one->fake, GSC_FLOAT32, &one->param, &one->grad, 1, "weight");
    return &one->fake.base;
}

/* step and update with the gradient `grad`; returns whether the step was made. */
static inline bool iterate(gsc_scaler *scaler, single *one, float grad)
{
    int steps = one->fake.steps;
    one->grad = grad;
    assert_ok(gsc_scaler_step(scaler, &one->fake.base, NULL, NULL));
    assert_ok(gsc_scaler_update(scaler));
    return one->fake.steps != steps;
}

#endif
