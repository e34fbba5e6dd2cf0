/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_sharded.c: several processes train one model; each owns a part of the gradients and of the optimizer's state
 * (ZeRO-1). The gradients are averaged over the ranks; then a rank unscales, clips and steps its own part alone. Its
 * scaler has sharded gradients: an overflow in any part skips the step on every rank, and clipping uses the norm of all
 * parts. At last the parts of the weights are gathered.
 *
 *     mpirun -n 4 ./mpi_sharded
 *
 * The model is linear, y = x w, and learns the weights that made the data. In step 10 a gradient of one rank overflows,
 * as those of a float16 backward pass do. A call that fails ends this rank, without MPI_Finalize, which might wait for
 * the others; they get GSC_ERR_COMM. */
#include <gradscaler/gradscaler.h>
#include <gradscaler/mpi.h>
#include <math.h>
#include <stdio.h>

#include "example.h"

enum { WEIGHTS = 60, SAMPLES = 240, STEPS = 300, OVERFLOW_STEP = 10 };

static float inputs[SAMPLES][WEIGHTS], targets[SAMPLES];
static float weights[WEIGHTS], gradients[WEIGHTS], momentum[WEIGHTS];

static float uniform(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* The same data on every rank; each works on the samples rank, rank + size, rank + 2 size, ... */
static void make_data(void)
{
    uint32_t state = 1;
    float truth[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++)
        truth[i] = uniform(&state);
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < WEIGHTS; i++) {
            inputs[s][i] = uniform(&state);
            targets[s] += inputs[s][i] * truth[i];
        }
}

static float error_of(int sample)
{
    float error = -targets[sample];
    for (int i = 0; i < WEIGHTS; i++)
        error += inputs[sample][i] * weights[i];
    return error;
}

static double loss(void)
{
    double sum = 0;
    for (int s = 0; s < SAMPLES; s++)
        sum += (double)error_of(s) * (double)error_of(s);
    return sum / SAMPLES;
}

/* Gradients of scale times the loss over this rank's samples. */
static void backward(double scale, int rank, int size)
{
    const int count = (SAMPLES - rank + size - 1) / size;
    for (int i = 0; i < WEIGHTS; i++)
        gradients[i] = 0;
    for (int s = rank; s < SAMPLES; s += size) {
        const float factor = (float)(scale * 2.0 / count) * error_of(s);
        for (int i = 0; i < WEIGHTS; i++)
            gradients[i] += factor * inputs[s][i];
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    gsc_mpi *mpi;
    must(gsc_mpi_create(MPI_COMM_WORLD, NULL, &mpi));
    const int rank = gsc_mpi_rank(mpi), size = gsc_mpi_size(mpi);
    expect(WEIGHTS % size == 0, "60 weights can be cut evenly for the ranks");
    const int part = WEIGHTS / size, first = rank * part;

    gsc_scaler *scaler;
    const gsc_comm comm = gsc_mpi_comm(mpi, true); /* sharded */
    gsc_scaler_options options = gsc_scaler_options_default();
    options.comm = &comm;
    must(gsc_scaler_create(&options, &scaler));

    int64_t length = WEIGHTS;
    DLTensor weight_tensor = {
        .data = weights, .device = {kDLCPU, 0}, .ndim = 1, .dtype = GSC_FLOAT32, .shape = &length};
    DLTensor gradient_tensor = weight_tensor;
    gradient_tensor.data = gradients;
    DLTensor *const all_weights[] = {&weight_tensor}, *const all_gradients[] = {&gradient_tensor};

    make_data();
    if (rank == 0) /* such as from a checkpoint that only rank 0 can read */
        for (int i = 0; i < WEIGHTS; i++)
            weights[i] = 0.1f * (float)(i % 3);
    must(gsc_mpi_synchronize(mpi, all_weights, 1, scaler));
    const double first_loss = loss();

    const gsc_buffer own_gradients = {gradients + first, (size_t)part, GSC_FLOAT32, "this rank's part"};
    const gsc_step_args arguments = {.clip_norm = 2.0};
    int skipped = 0;
    for (int step = 0; step < STEPS; step++) {
        gsc_step_result result;
        backward(gsc_scaler_get_scale(scaler), rank, size);
        if (step == OVERFLOW_STEP && rank == size - 1)
            gradients[0] = INFINITY; /* of the part of rank 0, which the average takes it to */
        must(gsc_mpi_average_gradients(mpi, all_gradients, 1));
        must(gsc_scaler_step_buffers(scaler, momentum, &own_gradients, 1, &arguments, &result));
        if (result.outcome == GSC_SKIPPED_OVERFLOW) {
            skipped++;
        } else {
            for (int i = first; i < first + part; i++) { /* unscaled and clipped by now */
                momentum[i] = 0.5f * momentum[i] + gradients[i];
                weights[i] -= 0.2f * momentum[i];
            }
        }
        must(gsc_scaler_update(scaler));
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, weights, part, MPI_FLOAT, MPI_COMM_WORLD);
    }
    must(gsc_mpi_check_same(mpi, all_weights, NULL, 1));

    const double last_loss = loss(), scale = gsc_scaler_get_scale(scaler);
    if (rank == 0)
        printf("%d ranks: loss %.4f -> %.2e, %d of %d steps skipped, scale %g\n", size, first_loss, last_loss, skipped,
               STEPS, scale);
    gsc_scaler_destroy(scaler);
    gsc_mpi_free(mpi);
    MPI_Finalize();
    expect(last_loss < 1e-6 * first_loss, "the weights are found");
    expect(skipped == 1 && scale == 32768, "every rank skipped the step that overflowed on one");
    return 0;
}
