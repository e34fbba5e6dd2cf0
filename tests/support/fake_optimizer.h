/* SPDX-License-Identifier: Apache-2.0 */
/* fake_optimizer.h: an optimizer for tests: p -= lr * g over the caller's arrays, with counters and a failing switch.
 *
 *     float p[2] = {1, 1}, g[2] = {65536, 0};
 *     fake_optimizer fake;
 *     fake_init(&fake);                                  // counters 0, lr 1, no parameter
 *     fake_add(&fake, GSC_FLOAT32, p, g, 2, "weight");   // arrays are borrowed
 *     gsc_scaler_step(scaler, &fake.base, NULL, NULL);
 *
 * Every field may be changed at any time, e.g. fake.params[0].absent = true: no gradient now. The struct must not move
 * after fake_init. */
#ifndef GSC_TESTS_FAKE_OPTIMIZER_H
#define GSC_TESTS_FAKE_OPTIMIZER_H

#include <string.h>

#include "elements.h"
#include "gradscaler/gradscaler.h"

#define FAKE_MAX_PARAMS 16

typedef struct fake_param {
    DLTensor param, grad; /* 1-d, compact, of one dtype; param.data may be NULL for a parameter that is never stepped */
    int64_t shape[1];
    bool absent;
    const char *name;
} fake_param;

typedef struct fake_optimizer {
    gsc_optimizer base;
    fake_param params[FAKE_MAX_PARAMS];
    size_t count;
    double lr;
    bool failing;                  /* a step changes nothing and fails with "the fake step failed" */
    bool has_value;                /* a step returns `value`; with a closure it returns the closure's */
    double value;                  /* may be changed at any time */
    int steps, scaled_steps;       /* calls of each kind, failed ones included */
    gsc_step_args last_args;       /* of the last call */
    gsc_grad_scaling last_scaling; /* of the last scaled call */
} fake_optimizer;

static inline size_t fake_grad_count(void *self) { return ((fake_optimizer *)self)->count; }

static inline DLTensor *fake_grad(void *self, size_t index)
{
    fake_param *param = &((fake_optimizer *)self)->params[index];
    return param->absent ? NULL : &param->grad;
}

static inline const char *fake_name(void *self, size_t index) { return ((fake_optimizer *)self)->params[index].name; }

static inline gsc_status fake_apply(fake_optimizer *fake, const gsc_step_args *args, double multiplier, double *value,
                                    bool *has_value)
{
    fake->last_args = *args;
    if (fake->failing)
        return gsc_fail(GSC_ERR_VALUE, "the fake step failed");
    *has_value = fake->has_value || args->closure != NULL;
    *value = args->closure != NULL ? args->closure(args->closure_ctx) : fake->value;
    for (size_t i = 0; i < fake->count; i++) {
        fake_param *p = &fake->params[i];
        for (size_t j = 0; !p->absent && p->param.data != NULL && j < (size_t)p->shape[0]; j++)
            element_set(&p->param, j, element_get(&p->param, j) - fake->lr * (element_get(&p->grad, j) * multiplier));
    }
    return GSC_OK;
}

static inline gsc_status fake_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    fake_optimizer *fake = self;
    fake->steps++;
    return fake_apply(fake, args, 1, value, has_value);
}

static inline gsc_status fake_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                          double *value, bool *has_value)
{
    fake_optimizer *fake = self;
    fake->scaled_steps++;
    fake->last_scaling = *scaling;
    return fake_apply(fake, args, scaling->multiplier, value, has_value);
}

/* For a scale-aware step: fake.base.step_scaled = fake_step_scaled. */
static inline void fake_init(fake_optimizer *fake)
{
    memset(fake, 0, sizeof *fake);
    fake->base = (gsc_optimizer){
        .self = fake, .grad_count = fake_grad_count, .grad = fake_grad, .name = fake_name, .step = fake_step};
    fake->lr = 1;
}

/* Appends a parameter and returns it: compact arrays of `count` elements of one dtype. */
static inline fake_param *fake_add(fake_optimizer *fake, DLDataType dtype, void *param, void *grad, int64_t count,
                                   const char *name)
{
    fake_param *added = &fake->params[fake->count++];
    added->shape[0] = count;
    added->param = (DLTensor){.data = param, .device = {kDLCPU, 0}, .ndim = 1, .dtype = dtype, .shape = added->shape};
    added->grad = added->param;
    added->grad.data = grad;
    added->name = name;
    return added;
}

#endif
