/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.c: one way in which a rank is lost. The last rank is lost; every other one must get GSC_ERR_COMM in time.
 *
 *     scenario FOLDER NAME MOMENT [TIMEOUT]
 *
 * NAME: killed, stopped (by signals), ends (without MPI_Finalize), absent (never comes), leaves
 * (gsc_mpi_free), elsewhere (in another call).
 * MOMENT: decision, average, parts, broadcast, synchronize, same, create: what the others are in.
 *
 * Each rank writes FOLDER/pid-RANK at its start, and those that are not lost FOLDER/rank-RANK at their end: the status
 * and the message of the call, and the seconds that it took; then what the calls after the failure did. */
#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

enum { SIZE = 200000 };

static float gradient[SIZE], small[3];
static int64_t size = SIZE, three = 3;
static gsc_scaler *scaler;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static FILE *open_file(const char *folder, const char *what)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s-%d", folder, what, rig.rank);
    FILE *file = fopen(path, "w");
    if (!file)
        _Exit(3);
    return file;
}

static gsc_status decide(void)
{
    const gsc_buffer buffer = {.data = gradient, .count = SIZE, .dtype = GSC_FLOAT32};
    gsc_step_result result;
    gsc_status status = gsc_scaler_step_buffers(scaler, &scaler, &buffer, 1, NULL, &result);
    if (status == GSC_OK)
        status = gsc_scaler_update(scaler);
    return status;
}

static gsc_status average(bool in_parts)
{
    DLTensor large = vector_of(gradient, GSC_FLOAT32, &size), rest = vector_of(small, GSC_FLOAT32, &three);
    DLTensor *const list[] = {&large, &rest};
    if (!in_parts)
        return gsc_mpi_average_gradients(rig.mpi, list, 2);
    gsc_status status = gsc_mpi_average_begin(rig.mpi, list, 1);
    if (status == GSC_OK)
        status = gsc_mpi_average_begin(rig.mpi, list + 1, 1);
    gsc_status end = gsc_mpi_average_end(rig.mpi);
    return status == GSC_OK ? end : status;
}

static gsc_status call(const char *moment)
{
    DLTensor large = vector_of(gradient, GSC_FLOAT32, &size);
    DLTensor *const list[] = {&large};
    gsc_mpi *another = NULL;
    const gsc_mpi_options options = {.timeout_seconds = 1, .bucket_bytes = 65536};
    if (strcmp(moment, "decision") == 0)
        return decide();
    if (strcmp(moment, "average") == 0 || strcmp(moment, "parts") == 0)
        return average(moment[0] == 'p');
    if (strcmp(moment, "broadcast") == 0)
        return gsc_mpi_broadcast_tensors(rig.mpi, list, 1);
    if (strcmp(moment, "synchronize") == 0)
        return gsc_mpi_synchronize(rig.mpi, list, 1, scaler);
    if (strcmp(moment, "same") == 0)
        return gsc_mpi_check_same(rig.mpi, list, NULL, 1);
    gsc_status status = gsc_mpi_create(MPI_COMM_WORLD, &options, &another);
    gsc_mpi_free(another);
    return status;
}

/* The end of the rank that is lost. */
static void lose(const char *name, const char *moment)
{
    if (strcmp(name, "killed") == 0)
        raise(SIGKILL);
    if (strcmp(name, "stopped") == 0)
        raise(SIGSTOP);
    if (strcmp(name, "ends") == 0)
        _Exit(0);
    if (strcmp(name, "leaves") == 0)
        gsc_mpi_free(rig.mpi);
    if (strcmp(name, "elsewhere") == 0)
        (void)call(strcmp(moment, "same") == 0 ? "decision" : "same");
    sleep(60);
    _Exit(0);
}

int main(int argc, char **argv)
{
    const char *folder = argv[1], *name = argv[2], *moment = argv[3];
    rig_start(&argc, &argv, argc > 4 ? atof(argv[4]) : 1, 65536);
    FILE *file = open_file(folder, "pid");
    fprintf(file, "%ld\n", (long)getpid());
    fclose(file);
    const gsc_comm comm = gsc_mpi_comm(rig.mpi, false);
    gsc_scaler_options options = gsc_scaler_options_default();
    options.comm = &comm;
    CHECK_OK(gsc_scaler_create(&options, &scaler));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(average(i == 1));
        CHECK_OK(decide());
    }
    if (rig.rank == rig.size - 1)
        lose(name, moment);

    double start = now();
    gsc_status status = call(moment);
    const double waited = now() - start;
    file = open_file(folder, "rank");
    fprintf(file, "%s %.1f %s\n", gsc_status_name(status), waited, gsc_last_error());
    if (strcmp(moment, "create") != 0) {
        start = now();
        DLTensor values = vector_of(small, GSC_FLOAT32, &three);
        const int failure = comm.allreduce_max(comm.self, &values, NULL);
        status = average(false);
        fprintf(file, "again %s %s: %s\n", gsc_status_name((gsc_status)failure), gsc_status_name(status),
                gsc_last_error());
        gsc_scaler_destroy(scaler);
        gsc_mpi_free(rig.mpi);
        fprintf(file, "freed %s\n", now() - start < 0.3 ? "at once" : "late");
    }
    fprintf(file, "end\n");
    fclose(file);
    sleep(60); /* until failures.sh has read all: a launcher ends the other ranks when one is over */
    _Exit(rig.failures > 0);
}
