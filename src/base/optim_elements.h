/* SPDX-License-Identifier: Apache-2.0 */
/* optim_elements.h: the formulas of optim_rules.h for one element of one type. Included once per type by optim_rules.h,
 * which defines
 *
 *     GSC_REAL           the element type
 *     GSC_SQRT           its square root
 *     GSC_OF_REAL(name)  the name for this type
 *
 * Each function takes the element and its gradient, changes the state in place and returns the new element. The factors
 * are those of a whole tensor, rounded to the element type. */

typedef struct GSC_OF_REAL(gsc__sgd_factors) {
    GSC_REAL multiplier, rest, lr, weight_decay, momentum, buffer_weight, grad_weight;
    bool nesterov;
} GSC_OF_REAL(gsc__sgd_factors);

typedef struct GSC_OF_REAL(gsc__adam_factors) {
    GSC_REAL multiplier, rest, weight_decay, shrink, eps, step_size, correction, beta2, weight1, weight2;
    bool near_old; /* which form of lerp */
} GSC_OF_REAL(gsc__adam_factors);

GSC_ALWAYS_INLINE GSC_OF_REAL(gsc__sgd_factors)
    GSC_OF_REAL(gsc__sgd_factors_of)(const gsc__sgd_rule *rule, gsc__multiplier split)
{
    GSC_OF_REAL(gsc__sgd_factors) factors;
    factors.multiplier = (GSC_REAL)split.multiplier;
    factors.rest = (GSC_REAL)split.rest;
    factors.lr = (GSC_REAL)rule->lr;
    factors.weight_decay = (GSC_REAL)rule->weight_decay;
    factors.momentum = (GSC_REAL)rule->momentum;
    factors.buffer_weight = (GSC_REAL)rule->buffer_weight;
    factors.grad_weight = (GSC_REAL)rule->grad_weight;
    factors.nesterov = rule->nesterov;
    return factors;
}

GSC_ALWAYS_INLINE GSC_OF_REAL(gsc__adam_factors)
    GSC_OF_REAL(gsc__adam_factors_of)(const gsc__adam_rule *rule, gsc__multiplier split)
{
    const GSC_REAL new_weight = (GSC_REAL)(1 - rule->beta1);
    GSC_OF_REAL(gsc__adam_factors) factors;
    factors.multiplier = (GSC_REAL)split.multiplier;
    factors.rest = (GSC_REAL)split.rest;
    factors.weight_decay = (GSC_REAL)rule->weight_decay;
    factors.shrink = (GSC_REAL)rule->shrink;
    factors.eps = (GSC_REAL)rule->eps;
    factors.step_size = (GSC_REAL)rule->step_size;
    factors.correction = (GSC_REAL)rule->bias_correction2_sqrt;
    factors.beta2 = (GSC_REAL)rule->beta2;
    factors.near_old = new_weight < (GSC_REAL)0.5;
    factors.weight1 = factors.near_old ? new_weight : 1 - new_weight;
    factors.weight2 = (GSC_REAL)(1 - rule->beta2);
    return factors;
}

GSC_ALWAYS_INLINE GSC_REAL GSC_OF_REAL(gsc__sgd)(GSC_REAL p, GSC_REAL grad,
                                                 const GSC_OF_REAL(gsc__sgd_factors) * factors)
{
    GSC_REAL g = grad * factors->multiplier * factors->rest;
    g = factors->weight_decay != 0 ? g + factors->weight_decay * p : g;
    return p - factors->lr * g;
}

GSC_ALWAYS_INLINE GSC_REAL GSC_OF_REAL(gsc__sgd_momentum)(GSC_REAL p, GSC_REAL grad, GSC_REAL *buffer,
                                                          const GSC_OF_REAL(gsc__sgd_factors) * factors)
{
    GSC_REAL g = grad * factors->multiplier * factors->rest;
    g = factors->weight_decay != 0 ? g + factors->weight_decay * p : g;
    const GSC_REAL b = factors->buffer_weight * *buffer + factors->grad_weight * g;
    g = factors->nesterov ? g + factors->momentum * b : b;
    *buffer = b;
    return p - factors->lr * g;
}

GSC_ALWAYS_INLINE GSC_REAL GSC_OF_REAL(gsc__adam)(GSC_REAL p, GSC_REAL grad, GSC_REAL *exp_avg, GSC_REAL *exp_avg_sq,
                                                  const GSC_OF_REAL(gsc__adam_factors) * factors)
{
    GSC_REAL g = grad * factors->multiplier * factors->rest, m = *exp_avg;
    p = p * factors->shrink;
    g = factors->weight_decay != 0 ? g + factors->weight_decay * p : g;
    m = factors->near_old ? m + factors->weight1 * (g - m) : g - factors->weight1 * (g - m);
    const GSC_REAL v = *exp_avg_sq * factors->beta2 + factors->weight2 * g * g;
    *exp_avg = m;
    *exp_avg_sq = v;
    return p - factors->step_size * m / (GSC_SQRT(v) / factors->correction + factors->eps);
}
