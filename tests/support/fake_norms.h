/* SPDX-License-Identifier: Apache-2.0 */
/* fake_norms.h: norms and clipping of the fake module, for fake_backend.h. */
#ifndef GSC_TESTS_FAKE_NORMS_H
#define GSC_TESTS_FAKE_NORMS_H

#include "fake_module.h"

static inline double fake_largest(const gsc__device_record *record)
{
    double largest = 0.0;
    for (size_t t = 0; t < record->count; t++)
        for (uint64_t i = 0; i < record->tensors[t].count; i++) {
            uint64_t unused;
            gsc__kind kind = record->tensors[t].kind;
            double x =
                fabs(fake_times(kind, gsc__element(kind, fake_at(&record->tensors[t], i, &unused), 0), record->r));
            if (isnan(x) || x > largest)
                largest = isnan(largest) ? largest : x;
        }
    return largest;
}

/* Plainly: no range is extended. */
static inline double fake_sum(const gsc__device_record *record, double p, int exponent)
{
    double sum = 0.0;
    for (size_t t = 0; t < record->count; t++)
        for (uint64_t i = 0; i < record->tensors[t].count; i++) {
            uint64_t unused;
            gsc__kind kind = record->tensors[t].kind;
            double x = fake_times(kind, gsc__element(kind, fake_at(&record->tensors[t], i, &unused), 0), record->r);
            sum += pow(ldexp(fabs(x), -exponent), p);
        }
    return sum;
}

static inline gsc_status fake_norm_exponent(gsc__device_record *record, double p, DLTensor *values)
{
    FAKE_CALL("norm_exponent");
    FAKE_DEMAND(p != 1.0 && p != 2.0 && !isinf(p));
    fake_open();
    double largest = fake_largest(record);
    fake_close();
    int exponent = -100000;
    if (largest > 0.0 && isfinite(largest))
        (void)frexp(largest, &exponent);
    record->exponent_f32 = record->failed ? -1e9f : (float)exponent;
    *values = fake_values(record, &record->exponent_f32, (DLDataType){kDLFloat, 32, 1}, 1);
    return GSC_OK;
}

static inline gsc_status fake_norm_sums(gsc__device_record *record, double p, bool as_float32, DLTensor *values)
{
    FAKE_CALL("norm_sums");
    FAKE_DEMAND(!as_float32 || isinf(p));
    const bool has_exponent = p != 1.0 && p != 2.0 && !isinf(p);
    fake_open();
    double value = isinf(p) ? fake_largest(record) : fake_sum(record, p, has_exponent ? (int)record->exponent_f32 : 0);
    fake_close();
    if (record->failed)
        value = (double)NAN;
    record->sums[0] = value;
    record->sums[1] = record->sums[2] = record->failed ? (double)NAN : 0.0;
    record->sum_f32 = (float)value;
    record->reduced = true;
    if (as_float32)
        *values = fake_values(record, &record->sum_f32, (DLDataType){kDLFloat, 32, 1}, 1);
    else
        *values = fake_values(record, record->sums, (DLDataType){kDLFloat, 64, 1}, isinf(p) ? 1 : 3);
    return GSC_OK;
}

static inline void fake_multiply_all(gsc__device_record *record, double factor)
{
    for (size_t t = 0; t < record->count; t++)
        for (uint64_t i = 0; i < record->tensors[t].count; i++) {
            uint64_t unused;
            gsc__kind kind = record->tensors[t].kind;
            char *at = fake_at(&record->tensors[t], i, &unused);
            fake_store(kind, at, fake_times(kind, gsc__element(kind, at, 0), factor));
        }
}

static inline double fake_norm(gsc__device_record *record, double p)
{
    const bool has_exponent = p != 1.0 && p != 2.0 && !isinf(p);
    if (isinf(p)) {
        double f32 = (double)record->sum_f32, f64 = record->sums[0];
        return !record->reduced ? fake_largest(record) : (float)f64 == record->sum_f32 ? f64 : f32 > f64 ? f32 : f64;
    }
    int exponent = record->reduced && has_exponent ? (int)record->exponent_f32 : 0;
    double sum = record->reduced ? record->sums[0] : fake_sum(record, p, 0);
    return p == 1.0 ? sum : p == 2.0 ? sqrt(sum) : ldexp(pow(sum, 1.0 / p), exponent);
}

static inline gsc_status fake_clip(gsc__device_record *record, double p, double max_norm, gsc__device_clip_use use)
{
    gsc__device *device = record->device;
    FAKE_CALL("clip");
    FAKE_DEMAND(!record->failed);
    fake_module.clips++;
    fake_open();
    double norm = fake_norm(record, p), coefficient = max_norm / (norm + 1e-6);
    coefficient = isfinite(norm) && coefficient < 1.0 ? coefficient : 1.0;
    record->now.numbers.norm = norm;
    if (record->reduced && isnan(norm) && !record->now.found_inf && device->options.enabled) {
        fake_comm_failed(record);
        fake_halt(device, GSC_HALT_REFUSED_ELSEWHERE);
    }
    record->reduced = false;
    if (use == GSC_CLIP_MULTIPLIER)
        record->coefficient = coefficient;
    else if (coefficient < 1.0 && !(record->now.found_inf && use == GSC_CLIP_FOR_STEP))
        fake_multiply_all(record, coefficient);
    fake_close();
    return GSC_OK;
}

static inline gsc_status fake_multiply(gsc__device_record *record, double factor)
{
    FAKE_CALL("multiply");
    fake_open();
    fake_multiply_all(record, factor);
    fake_close();
    return GSC_OK;
}

#endif
