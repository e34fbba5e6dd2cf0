/* SPDX-License-Identifier: Apache-2.0 */
/* loops.h: the loops of kernels.h for one element type, in plain C that compilers vectorise. Included once per type by
 * kernels.c, which defines
 *
 *     GSC_REAL           the element type
 *     GSC_SQRT           its square root
 *     GSC_LOOP(name)     the loop's name for this type
 *
 * Each loop is inlined into a thin kernel per instruction set. Nothing here may depend on the width of vectors: results
 * are the same bits everywhere. */

__attribute__((always_inline)) static inline void GSC_LOOP(sgd)(const gsc__update *update, size_t first, size_t count)
{
    GSC_REAL *restrict param = (GSC_REAL *)update->param + first;
    const GSC_REAL *restrict grad = (const GSC_REAL *)update->grad + first;
    const gsc__sgd_rule *rule = &update->rule.sgd;
    const GSC_REAL multiplier = (GSC_REAL)update->multiplier, rest = (GSC_REAL)update->rest, lr = (GSC_REAL)rule->lr,
                   weight_decay = (GSC_REAL)rule->weight_decay;
    for (size_t i = 0; i < count; i++) {
        GSC_REAL p = param[i], g = grad[i] * multiplier * rest;
        g = weight_decay != 0 ? g + weight_decay * p : g;
        param[i] = p - lr * g;
    }
}

__attribute__((always_inline)) static inline void GSC_LOOP(sgd_momentum)(const gsc__update *update, size_t first,
                                                                         size_t count)
{
    GSC_REAL *restrict param = (GSC_REAL *)update->param + first;
    const GSC_REAL *restrict grad = (const GSC_REAL *)update->grad + first;
    GSC_REAL *restrict buffer = (GSC_REAL *)update->state[0] + first;
    const gsc__sgd_rule *rule = &update->rule.sgd;
    const GSC_REAL multiplier = (GSC_REAL)update->multiplier, rest = (GSC_REAL)update->rest, lr = (GSC_REAL)rule->lr,
                   weight_decay = (GSC_REAL)rule->weight_decay, momentum = (GSC_REAL)rule->momentum,
                   buffer_weight = (GSC_REAL)rule->buffer_weight, grad_weight = (GSC_REAL)rule->grad_weight;
    const bool nesterov = rule->nesterov;
    for (size_t i = 0; i < count; i++) {
        GSC_REAL p = param[i], g = grad[i] * multiplier * rest;
        g = weight_decay != 0 ? g + weight_decay * p : g;
        GSC_REAL b = buffer_weight * buffer[i] + grad_weight * g;
        g = nesterov ? g + momentum * b : b;
        buffer[i] = b;
        param[i] = p - lr * g;
    }
}

__attribute__((always_inline)) static inline void GSC_LOOP(adam)(const gsc__update *update, size_t first, size_t count)
{
    GSC_REAL *restrict param = (GSC_REAL *)update->param + first;
    const GSC_REAL *restrict grad = (const GSC_REAL *)update->grad + first;
    GSC_REAL *restrict exp_avg = (GSC_REAL *)update->state[0] + first;
    GSC_REAL *restrict exp_avg_sq = (GSC_REAL *)update->state[1] + first;
    const gsc__adam_rule *rule = &update->rule.adam;
    const GSC_REAL multiplier = (GSC_REAL)update->multiplier, rest = (GSC_REAL)update->rest,
                   weight_decay = (GSC_REAL)rule->weight_decay, shrink = (GSC_REAL)rule->shrink,
                   eps = (GSC_REAL)rule->eps, step_size = (GSC_REAL)rule->step_size,
                   correction = (GSC_REAL)rule->bias_correction2_sqrt, beta2 = (GSC_REAL)rule->beta2,
                   weight2 = (GSC_REAL)(1 - rule->beta2);
    const bool near_old = (GSC_REAL)(1 - rule->beta1) < (GSC_REAL)0.5;
    const GSC_REAL weight1 = near_old ? (GSC_REAL)(1 - rule->beta1) : 1 - (GSC_REAL)(1 - rule->beta1);
    const size_t step = PREFETCH_BYTES / sizeof(GSC_REAL);
    for (size_t first_of_step = 0; first_of_step < count; first_of_step += step) {
        const size_t end = count - first_of_step < step ? count : first_of_step + step;
        prefetch_ahead(param + first_of_step);
        prefetch_ahead(grad + first_of_step);
        prefetch_ahead(exp_avg + first_of_step);
        prefetch_ahead(exp_avg_sq + first_of_step);
        for (size_t i = first_of_step; i < end; i++) {
            GSC_REAL p = param[i] * shrink, g = grad[i] * multiplier * rest, m = exp_avg[i];
            g = weight_decay != 0 ? g + weight_decay * p : g;
            m = near_old ? m + weight1 * (g - m) : g - weight1 * (g - m);
            GSC_REAL v = exp_avg_sq[i] * beta2 + weight2 * g * g;
            exp_avg[i] = m;
            exp_avg_sq[i] = v;
            param[i] = p - step_size * m / (GSC_SQRT(v) / correction + eps);
        }
    }
}
