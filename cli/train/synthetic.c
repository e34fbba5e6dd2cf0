/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.c: generates the data from a fixed seed. */
#include "train/synthetic.h"
#include "base/try.h"
#include "common/message.h"

#include "gradscaler/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEED UINT64_C(0x67726164) /* the data do not depend on --seed */
#define EXAMPLES 8192
#define FEATURES 16

/* The gradient of an output is 2/n * error * factor in a batch of n. With errors below 8 and n >= 64 it is below 2^-25;
 * with a scale of 65536 and n = 256 it is about 2^-13 * error, which float16 represents well. */
#define LOSS_FACTOR 0x1p-22

/* Shifts and scales the targets to mean 0 and variance 1. */
static void normalize(float *values, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)values[i];
    const double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    const double deviation = sqrt(squares / (double)n);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(((double)values[i] - mean) / deviation);
}

/* *y: the teacher's outputs for x. */
static gsc_status compute_targets(gsc_module *teacher, const DLTensor *x, float *y)
{
    gsc_tape *tape;
    GSC_TRY(gsc_tape_create(&tape));
    gsc_tensor *outputs = gsc_module_forward(teacher, gsc_tape_input(tape, x));
    if (outputs)
        memcpy(y, gsc_tensor_data(outputs)->data, gsc_tensor_count(outputs) * sizeof *y);
    gsc_tape_free(tape);
    return outputs ? GSC_OK : GSC_ERR_VALUE; /* with the message of the op that failed */
}

static gsc_status make_data(train_task *out, float *x, float *y)
{
    gsc_random random = gsc_random_init(SEED, 0);
    gsc_module *teacher;
    GSC_TRY(gsc_module_mlp(out->sizes, out->layers, GSC_ACTIVATION_RELU, &random, &teacher));
    int64_t shape[] = {EXAMPLES, FEATURES};
    DLTensor inputs = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = GSC_FLOAT32, .shape = shape};
    gsc_status status = gsc_random_fill_normal(&random, &inputs, 0, 1);
    if (status == GSC_OK)
        status = compute_targets(teacher, &inputs, y);
    gsc_module_free(teacher);
    GSC_TRY(status);
    normalize(y, EXAMPLES);
    return gsc_dataset_regression(x, y, EXAMPLES, FEATURES, 1, &out->train);
}

gsc_status synthetic_load(train_task *out)
{
    const int64_t sizes[] = {FEATURES, 64, 1};
    out->unit = "examples";
    out->rate_unit = "ex/s";
    out->loss = gsc_mse_loss;
    out->loss_factor = LOSS_FACTOR;
    out->layers = sizeof sizes / sizeof *sizes;
    memcpy(out->sizes, sizes, sizeof sizes);
    float *x = malloc(sizeof *x * EXAMPLES * FEATURES);
    float *y = malloc(EXAMPLES * sizeof *y);
    gsc_status status =
        x && y ? make_data(out, x, y) : fail_with(GSC_ERR_MEMORY, "no memory for %d examples", EXAMPLES);
    free(x);
    free(y);
    return status;
}
