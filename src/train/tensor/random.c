/* SPDX-License-Identifier: Apache-2.0 */
/* random.c: Philox streams: single draws, fills of tensors on all threads, and shuffles. */
#include "gradscaler/random.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "base/blocks.h"
#include "base/dtype_text.h"
#include "base/fpenv.h"
#include "base/try.h"
#include "gradscaler/runtime.h"
#include "train/tensor/philox.h"
#include "train/tensor/tensor.h"

#define TWO_PI 6.283185307179586
#define MAX_NORMAL 8.6 /* sqrt(-2 ln 2^-53) = 8.5717 */

/* Draws first … first + n - 1 of a stream. */
static void draw(const gsc_random *random, uint64_t first, size_t n, uint64_t *out)
{
    uint64_t halves[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        uint64_t index = first + i;
        if (i == 0 || index % 2 == 0) {
            uint64_t block = index / 2;
            uint32_t words[4] = {(uint32_t)random->stream, (uint32_t)(random->stream >> 32), (uint32_t)block,
                                 (uint32_t)(block >> 32)};
            gsc__philox4x32(words, (uint32_t)random->seed, (uint32_t)(random->seed >> 32));
            halves[0] = (uint64_t)words[1] << 32 | words[0];
            halves[1] = (uint64_t)words[3] << 32 | words[2];
        }
        out[i] = halves[index % 2];
    }
}

static double uniform_from_bits(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }

static double normal_from_bits(uint64_t radius_bits, uint64_t angle_bits)
{
    double radius = (double)((radius_bits >> 11) + 1) * 0x1p-53; /* in (0, 1]: the logarithm stays finite */
    return sqrt(-2.0 * log(radius)) * cos(TWO_PI * uniform_from_bits(angle_bits));
}

static bool is_null(const gsc_random *random, const char *function)
{
    if (!random)
        gsc_fail(GSC_ERR_VALUE, "%s: random is NULL", function);
    return !random;
}

gsc_random gsc_random_init(uint64_t seed, uint64_t stream)
{
    return (gsc_random){.seed = seed, .stream = stream, .counter = 0};
}

uint64_t gsc_random_bits(gsc_random *random)
{
    if (is_null(random, "gsc_random_bits"))
        return 0;
    uint64_t bits;
    draw(random, random->counter++, 1, &bits);
    return bits;
}

double gsc_random_uniform(gsc_random *random)
{
    if (is_null(random, "gsc_random_uniform"))
        return 0.0;
    return uniform_from_bits(gsc_random_bits(random));
}

double gsc_random_normal(gsc_random *random)
{
    if (is_null(random, "gsc_random_normal"))
        return 0.0;
    uint64_t bits[2];
    draw(random, random->counter, 2, bits);
    random->counter += 2;
    gsc__fpenv caller = gsc__fpenv_enter();
    double normal = gsc__fpenv_pin(normal_from_bits(bits[0], bits[1]));
    gsc__fpenv_leave(caller);
    return normal;
}

uint64_t gsc_random_below(gsc_random *random, uint64_t bound)
{
    if (is_null(random, "gsc_random_below") || bound == 0)
        return 0;
    /* The lowest 2^64 mod bound values are rejected, so that a multiple of bound remains. */
    uint64_t rejected = (UINT64_MAX - bound + 1) % bound;
    uint64_t bits;
    do
        bits = gsc_random_bits(random);
    while (bits < rejected);
    return bits % bound;
}

void gsc_random_shuffle(gsc_random *random, int64_t *values, size_t n)
{
    if (is_null(random, "gsc_random_shuffle") || !values)
        return;
    for (size_t i = n; i > 1; i--) {
        size_t other = (size_t)gsc_random_below(random, i);
        int64_t value = values[i - 1];
        values[i - 1] = values[other];
        values[other] = value;
    }
}

/* A fill: element i is made of `draws` draws, which start with number i * draws. */
enum { TASK_ELEMENTS = 1024, MAX_DRAWS = 2 };

typedef struct random_fill random_fill;
struct random_fill {
    const gsc_random *random;
    void *data;
    size_t count;
    gsc__kind kind; /* GSC_F32 or GSC_F64 */
    size_t draws;
    double (*value)(const random_fill *fill, const uint64_t *bits);
    double offset, factor; /* low and high - low, or mean and deviation */
    double first, last;    /* uniform: smallest and largest value of the dtype in [low, high) */
};

static double dtype_max(const random_fill *fill) { return fill->kind == GSC_F64 ? DBL_MAX : FLT_MAX; }

static double uniform_value(const random_fill *fill, const uint64_t *bits)
{
    double value = fill->offset + uniform_from_bits(bits[0]) * fill->factor;
    return value < fill->first ? fill->first : value > fill->last ? fill->last : value;
}

static double normal_value(const random_fill *fill, const uint64_t *bits)
{
    return fill->offset + fill->factor * normal_from_bits(bits[0], bits[1]);
}

static void fill_task(void *ctx, size_t index)
{
    const random_fill *fill = ctx;
    uint64_t bits[TASK_ELEMENTS * MAX_DRAWS];
    gsc__range part = gsc__part(fill->count, TASK_ELEMENTS, index);
    size_t n = part.end - part.first;
    draw(fill->random, fill->random->counter + part.first * fill->draws, n * fill->draws, bits);
    for (size_t i = 0; i < n; i++) {
        double value = fill->value(fill, bits + i * fill->draws);
        if (fill->kind == GSC_F64)
            ((double *)fill->data)[part.first + i] = value;
        else
            ((float *)fill->data)[part.first + i] = (float)value;
    }
}

static void run_fill(gsc_random *random, random_fill *fill)
{
    fill->random = random;
    gsc_parallel_run(gsc__parts(fill->count, TASK_ELEMENTS), fill_task, fill);
    random->counter += fill->count * fill->draws;
}

static gsc_status check_tensor(const gsc_random *random, const DLTensor *out, const char *function, random_fill *fill)
{
    if (is_null(random, function))
        return GSC_ERR_VALUE;
    if (!out)
        return gsc_fail(GSC_ERR_VALUE, "%s: out is NULL", function);
    if (!gsc__is_on_cpu(out))
        return gsc_fail(GSC_ERR_VALUE, "%s: out is on %s, it must be on the CPU", function,
                        gsc__describe_device(out->device).text);
    gsc__kind kind = gsc__kind_of(out->dtype);
    if (kind != GSC_F32 && kind != GSC_F64)
        return gsc__refuse_dtype(function, "the dtype of out", out->dtype, "float32 or float64");
    fill->kind = kind;
    GSC_TRY(gsc__shape_count(function, kind, out->ndim, out->shape, &fill->count));
    if (fill->count == 0)
        return GSC_OK;
    if (!gsc__is_compact(out))
        return gsc_fail(GSC_ERR_VALUE, "%s: out of shape %s is strided, it must be compact and row-major", function,
                        gsc__shape_print(out->ndim, out->shape).text);
    if (!out->data)
        return gsc_fail(GSC_ERR_VALUE, "%s: out has %zu elements but no data", function, fill->count);
    fill->data = (char *)out->data + out->byte_offset;
    if ((uintptr_t)fill->data % gsc__kind_size(kind) != 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: the data of out is not aligned to its %zu-byte elements", function,
                        gsc__kind_size(kind));
    return GSC_OK;
}

/* The smallest float >= value, and the largest float < value; both need |value| <= FLT_MAX. */
static double float_from(double value)
{
    float rounded = (float)value;
    return (double)rounded < value ? nextafterf(rounded, INFINITY) : rounded;
}

static double float_below(double value)
{
    float rounded = (float)value;
    return (double)rounded >= value ? nextafterf(rounded, -INFINITY) : rounded;
}

static gsc_status set_uniform(random_fill *fill, double low, double high)
{
    static const char function[] = "gsc_random_fill_uniform";
    double limit = dtype_max(fill);
    if (!(fabs(low) <= limit) || !(fabs(high) <= limit) || low > high || !isfinite(high - low))
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: low is %g and high is %g; they and high - low must be finite in %s, and low <= high",
                        function, low, high, gsc__kind_name(fill->kind));
    fill->offset = low;
    fill->factor = high - low;
    if (low == high)
        fill->first = fill->last = low;
    else {
        fill->first = fill->kind == GSC_F64 ? low : float_from(low);
        fill->last = fill->kind == GSC_F64 ? nextafter(high, -INFINITY) : float_below(high);
    }
    if (fill->first > fill->last)
        return gsc_fail(GSC_ERR_VALUE, "%s: no float32 lies in [%.17g, %.17g)", function, low, high);
    return GSC_OK;
}

gsc_status gsc_random_fill_uniform(gsc_random *random, DLTensor *out, double low, double high)
{
    random_fill fill = {.draws = 1, .value = uniform_value};
    GSC_TRY(check_tensor(random, out, "gsc_random_fill_uniform", &fill));
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = set_uniform(&fill, low, high);
    gsc__fpenv_leave(caller);
    GSC_TRY(status);
    run_fill(random, &fill);
    return GSC_OK;
}

gsc_status gsc_random_fill_normal(gsc_random *random, DLTensor *out, double mean, double deviation)
{
    random_fill fill = {.draws = 2, .value = normal_value, .offset = mean, .factor = deviation};
    GSC_TRY(check_tensor(random, out, "gsc_random_fill_normal", &fill));
    gsc__fpenv caller = gsc__fpenv_enter();
    double spread = gsc__fpenv_pin(deviation), middle = gsc__fpenv_pin(mean);
    bool fits = spread >= 0.0 && fabs(middle) + MAX_NORMAL * spread <= dtype_max(&fill);
    gsc__fpenv_leave(caller);
    if (!fits)
        return gsc_fail(
            GSC_ERR_VALUE,
            "gsc_random_fill_normal: mean is %g and deviation is %g; the deviation must be >= 0, and values "
            "up to %g deviations away must be finite in %s",
            mean, deviation, MAX_NORMAL, gsc__kind_name(fill.kind));
    run_fill(random, &fill);
    return GSC_OK;
}
