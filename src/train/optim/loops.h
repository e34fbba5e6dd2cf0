/* SPDX-License-Identifier: Apache-2.0 */
/* loops.h: the loops of kernels.h for one element type, in plain C that compilers vectorise. Included once per type by
 * kernels.c, which defines
 *
 *     GSC_REAL           the element type
 *     GSC_LOOP(name)     the name of a loop, factors or formula for this type
 *
 * Each loop is inlined into a thin kernel per instruction set. Nothing here may depend on the width of vectors: results
 * are the same bits everywhere. */

__attribute__((always_inline)) static inline void GSC_LOOP(sgd)(const gsc__update *update, size_t first, size_t count)
{
    GSC_REAL *restrict param = (GSC_REAL *)update->param + first;
    const GSC_REAL *restrict grad = (const GSC_REAL *)update->grad + first;
    const GSC_LOOP(gsc__sgd_factors) factors = GSC_LOOP(gsc__sgd_factors_of)(&update->rule.sgd, update->split);
    for (size_t i = 0; i < count; i++)
        param[i] = GSC_LOOP(gsc__sgd)(param[i], grad[i], &factors);
}

__attribute__((always_inline)) static inline void GSC_LOOP(sgd_momentum)(const gsc__update *update, size_t first,
                                                                         size_t count)
{
    GSC_REAL *restrict param = (GSC_REAL *)update->param + first;
    const GSC_REAL *restrict grad = (const GSC_REAL *)update->grad + first;
    GSC_REAL *restrict buffer = (GSC_REAL *)update->state[0] + first;
    const GSC_LOOP(gsc__sgd_factors) factors = GSC_LOOP(gsc__sgd_factors_of)(&update->rule.sgd, update->split);
    for (size_t i = 0; i < count; i++)
        param[i] = GSC_LOOP(gsc__sgd_momentum)(param[i], grad[i], &buffer[i], &factors);
}

__attribute__((always_inline)) static inline void GSC_LOOP(adam)(const gsc__update *update, size_t first, size_t count)
{
    GSC_REAL *restrict param = (GSC_REAL *)update->param + first;
    const GSC_REAL *restrict grad = (const GSC_REAL *)update->grad + first;
    GSC_REAL *restrict exp_avg = (GSC_REAL *)update->state[0] + first;
    GSC_REAL *restrict exp_avg_sq = (GSC_REAL *)update->state[1] + first;
    const GSC_LOOP(gsc__adam_factors) factors = GSC_LOOP(gsc__adam_factors_of)(&update->rule.adam, update->split);
    const size_t step = PREFETCH_BYTES / sizeof(GSC_REAL);
    for (size_t first_of_step = 0; first_of_step < count; first_of_step += step) {
        const size_t end = count - first_of_step < step ? count : first_of_step + step;
        prefetch_ahead(param + first_of_step);
        prefetch_ahead(grad + first_of_step);
        prefetch_ahead(exp_avg + first_of_step);
        prefetch_ahead(exp_avg_sq + first_of_step);
        for (size_t i = first_of_step; i < end; i++)
            param[i] = GSC_LOOP(gsc__adam)(param[i], grad[i], &exp_avg[i], &exp_avg_sq[i], &factors);
    }
}
