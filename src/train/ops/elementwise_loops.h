/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_loops.h: the elementwise formulas, for REAL float or double; NAME(f) is the function's name for that
 * type. Included once for each: a formula has to be computed in the type of its operands, and only the preprocessor
 * writes one body in two types. Operands that a formula does not use are NULL. */
#ifndef REAL
#error "define REAL and NAME before including elementwise_loops.h"
#endif

static void NAME(add)(size_t n, const REAL *restrict a, const REAL *restrict b, REAL *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

static void NAME(mul)(size_t n, const REAL *restrict a, const REAL *restrict b, REAL *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] * b[i];
}

/* NaN stays NaN, -0 becomes 0. */
static void NAME(relu)(size_t n, const REAL *restrict x, const REAL *restrict unused, REAL *restrict out)
{
    (void)unused;
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] <= 0 ? 0 : x[i];
}

static void NAME(relu_gradient)(size_t n, const REAL *restrict x, const REAL *restrict gradient, REAL *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] <= 0 ? 0 : gradient[i];
}

static void NAME(tanh)(size_t n, const REAL *restrict x, const REAL *restrict unused, REAL *restrict out)
{
    (void)unused;
    for (size_t i = 0; i < n; i++)
        out[i] = TANH(x[i]);
}

/* From the result y: 1 - y^2, in a form that does not cancel near |y| = 1. */
static void NAME(tanh_gradient)(size_t n, const REAL *restrict y, const REAL *restrict gradient, REAL *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = gradient[i] * ((1 - y[i]) * (1 + y[i]));
}

#undef REAL
#undef NAME
#undef TANH
