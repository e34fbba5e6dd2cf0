/* SPDX-License-Identifier: Apache-2.0 */
/* use_mpi.c: a program of one rank, started without a launcher. */
#include <gradscaler/gradscaler.h>
#include <gradscaler/mpi.h>
#include <stdio.h>

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gsc_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    gsc_mpi *mpi;
    gsc_scaler *scaler;
    gsc_scaler_options options = gsc_scaler_options_default();
    if (gsc_mpi_create(MPI_COMM_WORLD, NULL, &mpi) != GSC_ERR_STATE)
        return fail("MPI was not initialised, and gsc_mpi_create did not say so");
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return fail("MPI_Init");
    if (gsc_mpi_create(MPI_COMM_WORLD, NULL, &mpi) != GSC_OK)
        return fail("gsc_mpi_create");
    const gsc_comm comm = gsc_mpi_comm(mpi, true);
    options.comm = &comm;
    if (gsc_scaler_create(&options, &scaler) != GSC_OK)
        return fail("gsc_scaler_create");
    float gradient[3] = {2, 4, 6};
    const gsc_buffer buffer = {.data = gradient, .count = 3, .dtype = GSC_FLOAT32, .name = "weight"};
    gsc_step_result result;
    if (gsc_scaler_step_buffers(scaler, &scaler, &buffer, 1, NULL, &result) != GSC_OK)
        return fail("gsc_scaler_step_buffers");
    gsc_scaler_destroy(scaler);
    gsc_mpi_free(mpi);
    MPI_Finalize();
    return result.outcome == GSC_STEPPED && gsc_mpi_size(NULL) == 0 ? 0 : 1;
}
