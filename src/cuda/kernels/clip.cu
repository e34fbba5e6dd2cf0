/* SPDX-License-Identifier: Apache-2.0 */
/* clip.cu: norm and clip coefficient, and what ranks add up for them. */
#include "cuda/kernels/norm_math.h"
#include "cuda/kernels/state.h"

GSC_CUDA_KERNEL(prepare)
{
    gsc__cuda_pass *pass = &args.slot->passes[args.pass];
    if (gsc__thread() != 0)
        return;
    if (args.begins)
        gsc__pass_begin(pass, args.uses_r ? args.slot->r : args.factor, args.stores != 0);
    if (args.has_exponent)
        pass->exponent = (int32_t)args.slot->norm_value;
}

/* As gsc__norm_exponent of gradients/norm.c. A power of two, or the least exponent, is exact in float32. */
GSC_CUDA_KERNEL(exponent)
{
    if (gsc__thread() != 0)
        return;
    double max_abs = gsc__max_abs(&args.slot->passes[args.pass]);
    int exponent = GSC_NO_EXPONENT;
    if (!args.failed && max_abs > 0.0 && gsc__is_finite(max_abs))
        exponent = gsc__binary_exponent(max_abs) - (args.p < 1.0 ? 1 : 0);
    args.slot->norm_value = (float)exponent;
}

GSC_CUDA_KERNEL(norm_values)
{
    gsc__cuda_slot *slot = args.slot;
    const gsc__cuda_pass *pass = &slot->passes[args.pass];
    if (gsc__thread() != 0)
        return;
    double max_abs = args.failed ? gsc__nan() : gsc__max_abs(pass);
    switch (args.kind) {
    case GSC_CUDA_NORM_SUMS:
        for (int bin = 0; bin < 3; bin++)
            slot->norm_values[bin] = args.failed ? gsc__nan() : pass->sums[bin];
        break;
    case GSC_CUDA_NORM_MAXIMUM: slot->norm_values[0] = max_abs; break;
    default: slot->norm_value = (float)max_abs; break;
    }
}

GSC_DEVICE double norm_of(const gsc__cuda_clip_args *args)
{
    const gsc__cuda_slot *slot = args->slot;
    const gsc__cuda_pass *sums = &slot->passes[args->sums];
    double max_abs = gsc__max_abs(&slot->passes[args->pass]);
    if (args->reduced && args->kind == GSC_CUDA_NORM_MAXIMUM)
        max_abs = slot->norm_values[0];
    if (args->reduced && args->kind == GSC_CUDA_NORM_MAXIMUM_F32)
        max_abs = (double)slot->norm_value;
    return gsc__norm(args->p, args->reduced ? slot->norm_values : sums->sums, sums->exponent, max_abs);
}

GSC_CUDA_KERNEL(clip)
{
    gsc__cuda_slot *slot = args.slot;
    if (gsc__thread() != 0)
        return;
    double norm = norm_of(&args), coefficient = gsc__coefficient(args.max_norm, norm);
    slot->numbers.norm = norm;
    if (args.reduced && gsc__is_nan(norm) && !slot->found_inf) {
        gsc__comm_failed(args.state, slot);
        gsc__set_halt(args.state, GSC_HALT_REFUSED_ELSEWHERE);
        slot->found_inf_dev = 1.0f;
    }
    if (args.use != GSC_CLIP_MULTIPLIER) {
        gsc__cuda_pass *pass = &slot->passes[GSC_CUDA_MULTIPLY];
        gsc__pass_begin(pass, coefficient, true);
        pass->idle = coefficient >= 1.0 || (slot->found_inf && args.use == GSC_CLIP_FOR_STEP);
    } else {
        slot->multiplier64 = (slot->unscales ? 1.0 : slot->r) * coefficient; /* an earlier clip's is over */
        slot->multiplier = (float)slot->multiplier64;
    }
}
