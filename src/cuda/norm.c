/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c: norms over a record's tensors, and clipping.
 *
 * The check has the sums already where the scan was asked for them, and the maxima anyway. What it lacks is found by
 * the pass GSC_CUDA_MEASURE, which reads the tensors again. */
#include <math.h>

#include "cuda/module.h"

static bool has_kernel(double p) { return p == 1.0 || p == 2.0; }

gsc_status gsc__cuda_replace(gsc__device_record *record, const gsc__device_tensor *tensors, size_t count,
                             bool same_tensors)
{
    GSC_TRY(gsc__cuda_list_tensors(record, tensors, count, same_tensors));
    record->norm = (gsc__cuda_norm_progress){.unscaled = true};
    return GSC_OK;
}

static gsc_status prepare(const gsc__device_record *record, const gsc__cuda_prepare_args *args)
{
    return gsc__cuda_launch_one(record->device, GSC_CUDA_KERNEL_prepare, args, "prepare a norm");
}

static gsc_status begin_measure(const gsc__device_record *record, bool has_exponent)
{
    const gsc__cuda_prepare_args args = {.slot = record->slot,
                                         .factor = 1.0,
                                         .pass = GSC_CUDA_MEASURE,
                                         .begins = true,
                                         .uses_r = !record->norm.unscaled,
                                         .has_exponent = has_exponent};
    return prepare(record, &args);
}

/* The pass that has the maxima, after this. */
static gsc_status find_maxima(gsc__device_record *record, gsc__cuda_pass_kind *out)
{
    static const gsc__cuda_run run = {
        .pass = GSC_CUDA_MEASURE, .kernel = GSC_CUDA_KERNEL_scan, .gathers = true, .what = "find the largest gradient"};
    gsc__cuda_norm_progress *norm = &record->norm;
    *out = norm->has_check ? GSC_CUDA_CHECK : GSC_CUDA_MEASURE;
    if (norm->has_check || norm->has_measure)
        return GSC_OK;
    GSC_TRY(begin_measure(record, false));
    GSC_TRY(gsc__cuda_run_pass(record, &run));
    norm->has_measure = true;
    return GSC_OK;
}

static gsc_status find_exponent(gsc__device_record *record, double p)
{
    gsc__cuda_pass_kind maxima;
    if (record->norm.exponent_p == p)
        return GSC_OK;
    GSC_TRY(find_maxima(record, &maxima));
    const gsc__cuda_exponent_args args = {.slot = record->slot, .p = p, .pass = maxima, .failed = record->norm.failed};
    GSC_TRY(gsc__cuda_launch_one(record->device, GSC_CUDA_KERNEL_exponent, &args, "find a norm's exponent"));
    record->norm.exponent_p = p;
    return GSC_OK;
}

/* The sums of p = 1 and 2, in one pass with the maxima. */
static gsc_status measure_sums(gsc__device_record *record, double p)
{
    const gsc__cuda_run run = {.pass = GSC_CUDA_MEASURE,
                               .kernel = GSC_CUDA_KERNEL_sum,
                               .p = p,
                               .gathers = true,
                               .what = "measure the gradients' norm"};
    GSC_TRY(gsc__cuda_reserve_partials(record));
    GSC_TRY(begin_measure(record, false));
    GSC_TRY(gsc__cuda_run_pass(record, &run));
    record->norm.has_measure = true;
    return GSC_OK;
}

/* Sums of powers, of magnitudes divided by 2^exponent. The maxima that the pass may have stay. */
static gsc_status measure_powers(gsc__device_record *record, double p)
{
    const gsc__cuda_run run = {.pass = GSC_CUDA_MEASURE,
                               .kernel = GSC_CUDA_KERNEL_power,
                               .p = p,
                               .gathers = true,
                               .what = "measure the gradients' norm"};
    GSC_TRY(gsc__cuda_reserve_partials(record));
    GSC_TRY(find_exponent(record, p));
    if (!record->norm.has_measure)
        GSC_TRY(begin_measure(record, true));
    else {
        const gsc__cuda_prepare_args args = {.slot = record->slot, .pass = GSC_CUDA_MEASURE, .has_exponent = true};
        GSC_TRY(prepare(record, &args));
    }
    return gsc__cuda_run_pass(record, &run);
}

/* The pass that has the sums for a finite p, after this. */
static gsc_status find_sums(gsc__device_record *record, double p, gsc__cuda_pass_kind *out)
{
    gsc__cuda_norm_progress *norm = &record->norm;
    *out = norm->check_p == p ? GSC_CUDA_CHECK : GSC_CUDA_MEASURE;
    if (norm->check_p == p || norm->measure_p == p)
        return GSC_OK;
    GSC_TRY(has_kernel(p) ? measure_sums(record, p) : measure_powers(record, p));
    norm->measure_p = p;
    return GSC_OK;
}

gsc_status gsc__cuda_norm_exponent(gsc__device_record *record, double p, DLTensor *values)
{
    GSC_TRY(find_exponent(record, p));
    *values = gsc__cuda_values(record, &record->slot->norm_value, GSC_FLOAT32, 1);
    return GSC_OK;
}

/* Where the values of the norm are that ranks reduce. */
static DLTensor reduced_values(gsc__device_record *record, gsc__cuda_norm_kind kind)
{
    switch (kind) {
    case GSC_CUDA_NORM_SUMS: return gsc__cuda_values(record, record->slot->norm_values, GSC_FLOAT64, 3);
    case GSC_CUDA_NORM_MAXIMUM: return gsc__cuda_values(record, record->slot->norm_values, GSC_FLOAT64, 1);
    default: return gsc__cuda_values(record, &record->slot->norm_value, GSC_FLOAT32, 1);
    }
}

gsc_status gsc__cuda_norm_sums(gsc__device_record *record, double p, bool as_float32, DLTensor *values)
{
    gsc__cuda_pass_kind pass = GSC_CUDA_CHECK;
    gsc__cuda_norm_kind kind = GSC_CUDA_NORM_SUMS;
    if (isinf(p))
        kind = as_float32 ? GSC_CUDA_NORM_MAXIMUM_F32 : GSC_CUDA_NORM_MAXIMUM;
    if (!record->norm.failed)
        GSC_TRY(isinf(p) ? find_maxima(record, &pass) : find_sums(record, p, &pass));
    const gsc__cuda_norm_values_args args = {
        .slot = record->slot, .pass = pass, .kind = kind, .failed = record->norm.failed};
    GSC_TRY(gsc__cuda_launch_one(record->device, GSC_CUDA_KERNEL_norm_values, &args, "pack a norm for the ranks"));
    record->norm.reduced_p = p;
    record->norm.reduced_kind = kind;
    *values = reduced_values(record, kind);
    return GSC_OK;
}

static gsc_status run_multiply(gsc__device_record *record)
{
    static const gsc__cuda_run run = {
        .pass = GSC_CUDA_MULTIPLY, .kernel = GSC_CUDA_KERNEL_scan, .what = "multiply the gradients"};
    gsc_status status = gsc__cuda_run_pass(record, &run);
    /* What was measured is no longer so. */
    record->norm = (gsc__cuda_norm_progress){.unscaled = true};
    return status;
}

gsc_status gsc__cuda_clip(gsc__device_record *record, double p, double max_norm, gsc__device_clip_use use)
{
    gsc__cuda_pass_kind sums = GSC_CUDA_CHECK, maxima = GSC_CUDA_CHECK;
    const bool reduced = record->norm.reduced_p == p;
    if (!isinf(p))
        GSC_TRY(find_sums(record, p, &sums));
    if (!has_kernel(p))
        GSC_TRY(find_maxima(record, &maxima));
    const gsc__cuda_clip_args args = {.state = record->device->state,
                                      .slot = record->slot,
                                      .p = p,
                                      .max_norm = max_norm,
                                      .pass = maxima,
                                      .sums = sums,
                                      .kind = record->norm.reduced_kind,
                                      .reduced = reduced,
                                      .use = use};
    GSC_TRY(gsc__cuda_launch_one(record->device, GSC_CUDA_KERNEL_clip, &args, "find the clip coefficient"));
    record->norm.reduced_p = 0.0;
    return use == GSC_CLIP_MULTIPLIER ? GSC_OK : run_multiply(record);
}

gsc_status gsc__cuda_multiply(gsc__device_record *record, double factor)
{
    const gsc__cuda_prepare_args args = {
        .slot = record->slot, .factor = factor, .pass = GSC_CUDA_MULTIPLY, .begins = true, .stores = true};
    GSC_TRY(prepare(record, &args));
    return run_multiply(record);
}
