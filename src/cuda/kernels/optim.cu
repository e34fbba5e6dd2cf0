/* SPDX-License-Identifier: Apache-2.0 */
/* optim.cu: one step of SGD, Adam or AdamW over all parameters of an optimizer, with the formulas of
 * base/optim_rules.h. */
#include "cuda/kernels/items.h"
#include "cuda/optim_shared.h"

GSC_DEVICE_INLINE uint64_t gsc__optim_thread(void)
{
    return (uint64_t)gsc__block() * gsc__block_threads() + gsc__thread();
}

GSC_CUDA_KERNEL(optim_items)
{
    const uint64_t item = gsc__optim_thread();
    if (item < args.table.item_count)
        args.table.item_params[item] = gsc__owner_of_item(args.table.params, args.table.param_count, (uint32_t)item);
}

GSC_CUDA_KERNEL(optim_counts)
{
    const uint64_t index = gsc__optim_thread();
    if (index < args.table.param_count)
        args.table.step_counts[index] = args.table.new_step_counts[index];
}

/* ---- Factors ---- */

GSC_DEVICE double gsc__optim_multiplier(const gsc__cuda_optim_prepare_args *args)
{
    if (args->multiplier64_dev)
        return *args->multiplier64_dev;
    return args->multiplier_dev ? (double)*args->multiplier_dev : args->multiplier;
}

GSC_CUDA_KERNEL(optim_prepare)
{
    const gsc__cuda_optim_table *table = &args.table;
    const uint64_t index = gsc__optim_thread();
    if (index >= table->param_count || table->places[index].grad == 0)
        return;
    const gsc__cuda_optim_param *param = &table->params[index];
    const gsc__optim_kind kind = (gsc__optim_kind)table->kind;
    const gsc__optim_rule rule = gsc__optim_rule_of(kind, &table->groups[param->group], table->step_counts[index] + 1);
    const gsc__multiplier whole = {gsc__optim_multiplier(&args), 1};
    gsc__cuda_optim_factors *out = &table->factors[index];
    if (param->kind == GSC_F64) {
        if (kind == GSC_OPTIM_SGD)
            out->sgd_f64 = gsc__sgd_factors_of_f64(&rule.sgd, whole);
        else
            out->adam_f64 = gsc__adam_factors_of_f64(&rule.adam, whole);
    } else {
        const gsc__multiplier split = gsc__split_multiplier(whole.multiplier);
        if (kind == GSC_OPTIM_SGD)
            out->sgd_f32 = gsc__sgd_factors_of_f32(&rule.sgd, split);
        else
            out->adam_f32 = gsc__adam_factors_of_f32(&rule.adam, split);
    }
}

/* ---- Elements ---- */

struct gsc__optim_bf16 {
    uint16_t bits;
};
struct gsc__optim_f16 {
    uint16_t bits;
};

GSC_DEVICE_INLINE float gsc__optim_widen(float x) { return x; }
GSC_DEVICE_INLINE double gsc__optim_widen(double x) { return x; }
GSC_DEVICE_INLINE float gsc__optim_widen(gsc__optim_bf16 x) { return gsc__bf16_to_f32(x.bits); }
GSC_DEVICE_INLINE float gsc__optim_widen(gsc__optim_f16 x) { return gsc__f16_to_f32(x.bits); }

/* The formulas under one name; which one it is follows from the factors and the states. */
GSC_DEVICE_INLINE float gsc__optim_formula(const gsc__sgd_factors_f32 &factors, float p, float g)
{
    return gsc__sgd_f32(p, g, &factors);
}
GSC_DEVICE_INLINE double gsc__optim_formula(const gsc__sgd_factors_f64 &factors, double p, double g)
{
    return gsc__sgd_f64(p, g, &factors);
}
GSC_DEVICE_INLINE float gsc__optim_formula(const gsc__sgd_factors_f32 &factors, float p, float g, float *buffer)
{
    return gsc__sgd_momentum_f32(p, g, buffer, &factors);
}
GSC_DEVICE_INLINE double gsc__optim_formula(const gsc__sgd_factors_f64 &factors, double p, double g, double *buffer)
{
    return gsc__sgd_momentum_f64(p, g, buffer, &factors);
}
GSC_DEVICE_INLINE float gsc__optim_formula(const gsc__adam_factors_f32 &factors, float p, float g, float *m, float *v)
{
    return gsc__adam_f32(p, g, m, v, &factors);
}
GSC_DEVICE_INLINE double gsc__optim_formula(const gsc__adam_factors_f64 &factors, double p, double g, double *m,
                                            double *v)
{
    return gsc__adam_f64(p, g, m, v, &factors);
}

template <int STATES, typename Factors, typename Real>
GSC_DEVICE_INLINE void gsc__optim_element(const Factors &factors, Real *p, Real g, Real *state0, Real *state1)
{
    if constexpr (STATES == 0)
        *p = gsc__optim_formula(factors, *p, g);
    else if constexpr (STATES == 1)
        *p = gsc__optim_formula(factors, *p, g, state0);
    else
        *p = gsc__optim_formula(factors, *p, g, state0, state1);
}

/* Neighbours in memory, so aligned that they are one load and one store. */
template <typename T, unsigned COUNT> struct alignas(sizeof(T) * COUNT) gsc__optim_lanes {
    T x[COUNT];
};

/* A warp's part of a parameter: `count` elements from these addresses on, states only as many as there are. float64
 * takes one element at a time, and the loops are not unrolled: so a thread has 64 registers, and four blocks are on a
 * multiprocessor. */
template <int STATES, typename Factors, typename Real, typename Grad>
GSC_DEVICE_INLINE void gsc__optim_run(const Factors &factors, uint32_t count, Real *param, const Grad *grad,
                                      Real *state0, Real *state1)
{
    constexpr unsigned WIDTH = sizeof(Real) == sizeof(float) ? 4 : 1;
    using Reals = gsc__optim_lanes<Real, WIDTH>;
    using Grads = gsc__optim_lanes<Grad, WIDTH>;
    uint32_t done = 0;
    /* States are where the host has put them: aligned. */
    if ((uintptr_t)param % alignof(Reals) == 0 && (uintptr_t)grad % alignof(Grads) == 0) {
        done = count / WIDTH * WIDTH;
        GSC_DEVICE_NO_UNROLL
        for (uint32_t i = gsc__lane() * WIDTH; i < done; i += GSC_WARP * WIDTH) {
            Reals p = *(const Reals *)(param + i), s0 = {}, s1 = {};
            const Grads g = *(const Grads *)(grad + i);
            if constexpr (STATES > 0)
                s0 = *(const Reals *)(state0 + i);
            if constexpr (STATES > 1)
                s1 = *(const Reals *)(state1 + i);
            for (unsigned k = 0; k < WIDTH; k++)
                gsc__optim_element<STATES>(factors, &p.x[k], gsc__optim_widen(g.x[k]), &s0.x[k], &s1.x[k]);
            *(Reals *)(param + i) = p;
            if constexpr (STATES > 0)
                *(Reals *)(state0 + i) = s0;
            if constexpr (STATES > 1)
                *(Reals *)(state1 + i) = s1;
        }
    }
    GSC_DEVICE_NO_UNROLL
    for (uint32_t i = done + gsc__lane(); i < count; i += GSC_WARP)
        gsc__optim_element<STATES>(factors, &param[i], gsc__optim_widen(grad[i]), STATES > 0 ? state0 + i : state0,
                                   STATES > 1 ? state1 + i : state1);
}

/* ---- Items ---- */

/* A warp's part of a parameter, before the types are known. */
struct gsc__optim_work {
    uint64_t first; /* element */
    uint32_t count;
    const gsc__cuda_optim_factors *factors;
    gsc__cuda_optim_place place;
    uint64_t states[GSC_CUDA_OPTIM_STATES];
    gsc__kind kind;
};

/* Returns false if this warp has nothing to do. Counts the parameter's step. */
GSC_DEVICE_INLINE bool gsc__optim_take(const gsc__cuda_optim_table &table, const float *found_inf, gsc__optim_work *out)
{
    const uint64_t item = gsc__optim_thread() / GSC_WARP;
    if (item >= table.item_count || (found_inf && *found_inf != 0))
        return false;
    const uint32_t index = table.item_params[item];
    const gsc__cuda_optim_param &param = table.params[index];
    out->place = table.places[index];
    if (out->place.grad == 0)
        return false;
    if (item == param.first_item && gsc__lane() == 0) /* nobody else reads counts in this launch */
        table.step_counts[index]++;
    out->first = (item - param.first_item) * GSC_CUDA_OPTIM_ITEM;
    const uint64_t left = param.count - out->first;
    out->count = left < GSC_CUDA_OPTIM_ITEM ? (uint32_t)left : (uint32_t)GSC_CUDA_OPTIM_ITEM;
    out->factors = &table.factors[index];
    out->states[0] = param.states[0];
    out->states[1] = param.states[1];
    out->kind = (gsc__kind)param.kind;
    return true;
}

template <int STATES, typename Grad, typename Factors, typename Real>
GSC_DEVICE_INLINE void gsc__optim_run_typed(const gsc__optim_work &work, const Factors &factors, Real *param)
{
    Real *state0 = (Real *)work.states[0], *state1 = (Real *)work.states[1];
    gsc__optim_run<STATES>(factors, work.count, param + work.first, (const Grad *)work.place.grad + work.first,
                           STATES > 0 ? state0 + work.first : state0, STATES > 1 ? state1 + work.first : state1);
}

template <int STATES, typename Factors32, typename Factors64>
GSC_DEVICE_INLINE void gsc__optim_run_any(const gsc__optim_work &work, const Factors32 *factors_f32,
                                          const Factors64 *factors_f64)
{
    if (work.kind == GSC_F64) /* its factors stay in the cache: they would need 20 registers */
        return gsc__optim_run_typed<STATES, double>(work, *factors_f64, (double *)work.place.param);
    const Factors32 factors32 = *factors_f32;
    float *param = (float *)work.place.param;
    switch (work.place.grad_kind) {
    case GSC_BF16: return gsc__optim_run_typed<STATES, gsc__optim_bf16>(work, factors32, param);
    case GSC_F16: return gsc__optim_run_typed<STATES, gsc__optim_f16>(work, factors32, param);
    default: return gsc__optim_run_typed<STATES, float>(work, factors32, param);
    }
}

GSC_CUDA_KERNEL(optim_sgd)
{
    gsc__optim_work work;
    if (!gsc__optim_take(args.table, args.found_inf, &work))
        return;
    if (work.states[0])
        gsc__optim_run_any<1>(work, &work.factors->sgd_f32, &work.factors->sgd_f64);
    else
        gsc__optim_run_any<0>(work, &work.factors->sgd_f32, &work.factors->sgd_f64);
}

GSC_CUDA_KERNEL(optim_adam)
{
    gsc__optim_work work;
    if (gsc__optim_take(args.table, args.found_inf, &work))
        gsc__optim_run_any<2>(work, &work.factors->adam_f32, &work.factors->adam_f64);
}
