/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives that a scaler calls, and the options of gsc_mpi_create. */
#include "rig.h"

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void test_options(void)
{
    gsc_mpi *mpi = NULL;
    gsc_mpi_options options = gsc_mpi_options_default();
    CHECK(options.timeout_seconds == 300 && options.bucket_bytes == 4194304);
    CHECK_STATUS(gsc_mpi_create(MPI_COMM_WORLD, NULL, NULL), GSC_ERR_VALUE);
    CHECK_STATUS(gsc_mpi_create(MPI_COMM_NULL, NULL, &mpi), GSC_ERR_VALUE);
    CHECK_SAID("MPI_COMM_NULL");
    const double timeouts[] = {0, -1, NAN, INFINITY, 1e-4, 2e6};
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        options.timeout_seconds = timeouts[i];
        CHECK_STATUS(gsc_mpi_create(MPI_COMM_WORLD, &options, &mpi), GSC_ERR_VALUE);
        CHECK_SAID("timeout_seconds");
    }
    options = gsc_mpi_options_default();
    options.bucket_bytes = 1023;
    CHECK_STATUS(gsc_mpi_create(MPI_COMM_WORLD, &options, &mpi), GSC_ERR_VALUE);
    CHECK_SAID("1023");
    options.bucket_bytes = ((size_t)1 << 30) + 1;
    CHECK_STATUS(gsc_mpi_create(MPI_COMM_WORLD, &options, &mpi), GSC_ERR_VALUE);
    options = gsc_mpi_options_default();
    options.reserved[7] = 1;
    CHECK_STATUS(gsc_mpi_create(MPI_COMM_WORLD, &options, &mpi), GSC_ERR_VALUE);
    CHECK_SAID("reserved[7]");
    CHECK(mpi == NULL);
    CHECK(gsc_mpi_rank(NULL) == -1 && gsc_mpi_size(NULL) == 0);
    CHECK(gsc_mpi_comm(NULL, true).allreduce_max == NULL);
    CHECK(gsc_mpi_rank(rig.mpi) == rig.rank && gsc_mpi_size(rig.mpi) == rig.size);
    CHECK_STATUS(gsc_mpi_average_gradients(NULL, NULL, 0), GSC_ERR_VALUE);
    gsc_mpi_free(NULL);
}

/* The caller's communicator keeps its error handler, also after a refusal. */
static void test_error_handler(void)
{
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
}

static void test_different_options(void)
{
    gsc_mpi *mpi = NULL;
    gsc_mpi_options options = gsc_mpi_options_default();
    options.bucket_bytes += rig.rank == 1 ? 1024 : 0;
    CHECK_STATUS(gsc_mpi_create(MPI_COMM_WORLD, &options, &mpi), rig.size == 1 ? GSC_OK : GSC_ERR_COMM);
    if (rig.size > 1)
        CHECK_SAID("over all ranks from 4194304 to 4195328");
    gsc_mpi_free(mpi);
}

/* More values than one message has, and NaN on each rank in turn. */
static void test_max(void)
{
    const gsc_comm comm = gsc_mpi_comm(rig.mpi, true);
    for (int bad = -1; bad < rig.size; bad++) {
        float values[17];
        double wide[17];
        int64_t n = 17;
        for (int i = 0; i < 17; i++) {
            wide[i] = values[i] = (float)((i + rig.rank) % rig.size) - 1;
            if (rig.rank == bad && i % 2)
                wide[i] = values[i] = (i % 4 == 1 ? 1.0f : -1.0f) * NAN;
            wide[i] *= 1e300;
        }
        DLTensor floats = vector_of(values, GSC_FLOAT32, &n), doubles = vector_of(wide, GSC_FLOAT64, &n);
        CHECK(comm.allreduce_max(comm.self, &floats, NULL) == 0);
        CHECK(comm.allreduce_max64(comm.self, &doubles, NULL) == 0);
        for (int i = 0; i < 17; i++) {
            const bool is_nan = bad >= 0 && i % 2;
            CHECK(is_nan ? isnan(values[i]) != 0 : values[i] == (float)(rig.size - 2));
            CHECK(is_nan ? isnan(wide[i]) != 0 : wide[i] == (rig.size - 2) * 1e300);
        }
        DLTensor *const list[] = {&floats, &doubles};
        if (rig.size > 1)
            CHECK_OK(gsc_mpi_check_same(rig.mpi, list, NULL, 2)); /* NaNs, too */
    }
}

/* Values whose sum depends on the order: ranks (0 + 1) + (2 + 3), of three ranks (0 + 1) + 2. */
static void test_sum(void)
{
    const gsc_comm comm = gsc_mpi_comm(rig.mpi, true);
    const double terms[] = {1e16, 1, -1e16, 3.14159};
    for (int round = 0; round < 20; round++) {
        double values[4] = {terms[rig.rank], terms[rig.rank] / 3, rig.rank, rig.rank == 0 ? NAN : INFINITY};
        int64_t n = 4;
        DLTensor tensor = vector_of(values, GSC_FLOAT64, &n);
        CHECK(comm.allreduce_sum(comm.self, &tensor, NULL) == 0);
        const int size = rig.size;
        for (int i = 0; i < 2; i++) {
            const double d = i ? 3 : 1;
            double expected = terms[0] / d;
            if (size > 1)
                expected += terms[1] / d;
            if (size == 3)
                expected += terms[2] / d;
            if (size == 4)
                expected += terms[2] / d + terms[3] / d;
            CHECK(bits_of(values[i]) == bits_of(expected));
        }
        CHECK(values[2] == size * (size - 1) / 2);
        CHECK(isnan(values[3]));
        DLTensor *const list[] = {&tensor};
        CHECK_OK(gsc_mpi_check_same(rig.mpi, list, NULL, 1));
    }
}

static void test_values_that_are_refused(void)
{
    const gsc_comm comm = gsc_mpi_comm(rig.mpi, true);
    float values[2] = {1, 2};
    int64_t n = 2;
    DLTensor tensor = vector_of(values, GSC_FLOAT32, &n);
    CHECK(comm.allreduce_sum(comm.self, &tensor, NULL) == GSC_ERR_VALUE);
    tensor.device.device_type = kDLCUDA;
    CHECK(comm.allreduce_max(comm.self, &tensor, NULL) == GSC_ERR_DEVICE);
    CHECK_SAID("CUDA device 0");
    CHECK(gsc_mpi_comm(rig.mpi, false).allreduce_sum == NULL && gsc_mpi_comm(rig.mpi, false).allreduce_max64 == NULL);
}

int main(int argc, char **argv)
{
    rig_start(&argc, &argv, 10, 1 << 22);
    test_options();
    test_error_handler();
    test_different_options();
    test_max();
    test_sum();
    test_values_that_are_refused();
    return rig_end();
}
