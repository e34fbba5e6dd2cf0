/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h: a program of several ranks that checks. Every rank runs every check, so a failed one is printed with its rank
 * and the program goes on: a rank that jumped out of a test, as cmocka's do, would leave the others waiting. */
#ifndef GSC_TESTS_MPI_RIG_H
#define GSC_TESTS_MPI_RIG_H

#include <gradscaler/gradscaler.h>
#include <gradscaler/mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>

/* What MPI allocates later, by the libraries that are on its stack. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libopen-\nleak:libpmix\nleak:mca_\nleak:libuc\nleak:libmpich\n";
}
__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_options(void) { return "print_suppressions=0"; }

/* What MPI_Init leaves is MPI's own; parts of it belong to libraries that it has unloaded, so they have no names. */
static inline void rig_init(int *argc, char ***argv)
{
    __lsan_disable();
    MPI_Init(argc, argv);
    __lsan_enable();
}

/* The check of the process's end, before MPI_Finalize unloads more of them. */
static inline void rig_check_leaks(void) { __lsan_do_leak_check(); }
#else
static inline void rig_init(int *argc, char ***argv) { MPI_Init(argc, argv); }
static inline void rig_check_leaks(void) {}
#endif

static struct {
    int rank, size, failures;
    gsc_mpi *mpi;
} rig;

#define CHECK(condition) rig_check(condition, #condition, __FILE__, __LINE__)
#define CHECK_STATUS(call, expected) rig_check_status(call, expected, #call, __LINE__)
#define CHECK_OK(call) CHECK_STATUS(call, GSC_OK)
/* The last message has this text. */
#define CHECK_SAID(text) rig_check_said(text, __LINE__)

static inline void rig_fail(int line)
{
    fprintf(stderr, "rank %d of %d, line %d: ", rig.rank, rig.size, line);
    rig.failures++;
}

static inline void rig_check(bool holds, const char *condition, const char *file, int line)
{
    (void)file;
    if (holds)
        return;
    rig_fail(line);
    fprintf(stderr, "not so: %s\n", condition);
}

static inline void rig_check_status(gsc_status status, gsc_status expected, const char *call, int line)
{
    if (status == expected)
        return;
    rig_fail(line);
    fprintf(stderr, "%s returned %s (%s), expected %s\n", call, gsc_status_name(status), gsc_last_error(),
            gsc_status_name(expected));
}

static inline void rig_check_said(const char *text, int line)
{
    if (strstr(gsc_last_error(), text))
        return;
    rig_fail(line);
    fprintf(stderr, "the message \"%s\" has no \"%s\"\n", gsc_last_error(), text);
}

/* MPI, and rig.mpi with these options. */
static inline void rig_start(int *argc, char ***argv, double timeout_seconds, size_t bucket_bytes)
{
    gsc_mpi_options options = gsc_mpi_options_default();
    options.timeout_seconds = timeout_seconds;
    options.bucket_bytes = bucket_bytes;
    rig_init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rig.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &rig.size);
    CHECK_OK(gsc_mpi_create(MPI_COMM_WORLD, &options, &rig.mpi));
    if (!rig.mpi)
        _Exit(1);
}

/* The exit status. After a failure on one rank the others may be out of step, and MPI_Finalize would wait for them. */
static inline int rig_end(void)
{
    gsc_mpi_free(rig.mpi);
    if (rig.failures > 0) {
        fflush(NULL);
        _Exit(1);
    }
    rig_check_leaks();
    MPI_Finalize();
    return 0;
}

/* A compact vector; the shape is the caller's. */
static inline DLTensor vector_of(void *data, DLDataType dtype, int64_t *shape)
{
    return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = dtype, .shape = shape};
}

/* The same sequence on every rank and in every run. */
static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) ^ (uint32_t)(*state >> 61);
}

#endif
