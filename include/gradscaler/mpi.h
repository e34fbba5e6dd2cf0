/* SPDX-License-Identifier: Apache-2.0 */
/* mpi.h: scalers and gradients of many processes over MPI: docs/ranks.md. One library for each MPI, since their binary
 * interfaces differ: libgradscaler-mpi-openmpi and libgradscaler-mpi-mpich; compile and link with the MPI of yours.
 *
 * Unless a comment says otherwise, a function here is collective: every rank of the communicator calls the same ones in
 * the same order, as it calls its scaler. No call waits for ever and none ends the process. A call that waits
 * timeout_seconds without a sign of life from a rank, or a rank that is in another call, or an error of MPI, is
 * GSC_ERR_COMM; from then on every call of this gsc_mpi, and every collective of the scalers that use it, fails with
 * the same message at once. Then end the process without MPI_Finalize, which may wait for ranks that are gone.
 *
 * Ranks have the same byte order and element formats. A gsc_mpi belongs to one thread at a time, and that thread must
 * be one that may call MPI, by the level of MPI_Init_thread. */
#ifndef GRADSCALER_MPI_H
#define GRADSCALER_MPI_H

#include <mpi.h>

#include "gradscaler/scaler.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gsc_mpi gsc_mpi;

typedef struct gsc_mpi_options {
    double timeout_seconds; /* 300; in [0.001, 10^6]: how long a call waits without a sign of life */
    size_t bucket_bytes;    /* 2^22; in [1024, 2^30], the same on every rank: tensors travel in pieces of this size, and
                               small ones together */
    uint64_t reserved[8];
} gsc_mpi_options;

/* The values in the comments above. Local. */
GSC_API gsc_mpi_options gsc_mpi_options_default(void);

/* Duplicates comm, an intracommunicator, whose error handler is the same afterwards. options: NULL for the defaults.
 * *out is set on success only. Errors: GSC_ERR_VALUE: NULL, an option that is out of range, MPI_COMM_NULL or an
 * intercommunicator; GSC_ERR_STATE: MPI is not initialised, or finalised; GSC_ERR_MEMORY; GSC_ERR_COMM: a rank did not
 * come, MPI failed, or the ranks' bucket_bytes differ. The first four are found on this rank alone: the others then get
 * GSC_ERR_COMM after timeout_seconds. */
GSC_API gsc_status gsc_mpi_create(MPI_Comm comm, const gsc_mpi_options *options, gsc_mpi **out);
/* Before MPI_Finalize, after the scalers that use it. Waits for the other ranks to do the same, for timeout_seconds at
 * most; those that are in another call learn at once that this rank has left. After a failure it waits for nobody. NULL
 * is fine. */
GSC_API void gsc_mpi_free(gsc_mpi *mpi);

/* Local. -1 and 0 for NULL. */
GSC_API int gsc_mpi_rank(const gsc_mpi *mpi);
GSC_API int gsc_mpi_size(const gsc_mpi *mpi);

/* For gsc_scaler_options.comm, of scalers on the CPU; local. mpi must outlive the scalers. sharded: false where the
 * gradients are the same on every rank (averaged), true where each rank holds a part of them: norms and clipping are
 * then those of all parts. All zero for NULL, which gsc_scaler_create refuses.
 *
 * A decision is one message of 32 bytes in each of log2(ranks) rounds. The maximum of NaN and a number is NaN. Sums are
 * added in an order that depends on the number of ranks alone, and are the same bits on every rank. */
GSC_API gsc_comm gsc_mpi_comm(gsc_mpi *mpi, bool sharded);

/* Replaces each gradient by its average over the ranks. grads[i]: float32, float64, bfloat16 or float16 on the CPU, any
 * strides in which no two elements share memory; NULL, on every rank: passed over. One that is listed twice is averaged
 * once. n = 0 is fine.
 *
 * An element's values are added in the order of the ranks and divided by their number, in float32, in float64 for
 * float64; bfloat16 and float16 are rounded once, at the end. So the bits are the same on every rank, in every run, for
 * every bucket_bytes.
 *
 * The ranks first compare number, dtypes and sizes of their gradients. GSC_ERR_COMM: they differ, and the message names
 * the first one that does, or another rank refused one: nothing was written on any rank, and the next call works.
 * GSC_ERR_VALUE, GSC_ERR_DEVICE, GSC_ERR_MEMORY: this rank refused; nothing was written. Any other GSC_ERR_COMM:
 * gradients may be averages, sent or half received, and their memory must stay as long as the process. */
GSC_API gsc_status gsc_mpi_average_gradients(gsc_mpi *mpi, DLTensor *const *grads, size_t n);

/* The same in parts, so that gradients travel while later ones are computed. Each begin hands over gradients that are
 * complete, with the same list on every rank, and does not wait for other ranks, unless it refuses a gradient. MPI
 * moves on only while it is called: each begin, poll (not collective; costs well below a microsecond while there is
 * nothing to do) and call of a scaler that uses this mpi does that. end waits for what is left. Tensors, shapes and
 * data must stay as they are, untouched, until end; the array need not.
 *
 * A begin that returns an error has handed over nothing; what other begins handed over goes on. end returns the first
 * error of any of them, after all others are averaged. After a begin that failed call end all the same. */
GSC_API gsc_status gsc_mpi_average_begin(gsc_mpi *mpi, DLTensor *const *grads, size_t n);
GSC_API gsc_status gsc_mpi_average_poll(gsc_mpi *mpi);
GSC_API gsc_status gsc_mpi_average_end(gsc_mpi *mpi);

/* Makes the tensors those of rank 0: any dtype of whole bytes on the CPU, otherwise as for gsc_mpi_average_gradients,
 * and with its errors; GSC_ERR_STATE, too, between begin and end. */
GSC_API gsc_status gsc_mpi_broadcast_tensors(gsc_mpi *mpi, DLTensor *const *tensors, size_t n);

/* Makes the tensors and the scaler's state (gsc_scaler_state) those of rank 0: at the start of training, and after a
 * resume. scaler may be NULL, on every rank. Errors as of gsc_mpi_broadcast_tensors. Where a scaler cannot give or load
 * the state (while an optimizer is not READY, or where only some ranks' scalers are enabled), that rank gets the
 * scaler's error, the others GSC_ERR_COMM, and nothing has changed on any. */
GSC_API gsc_status gsc_mpi_synchronize(gsc_mpi *mpi, DLTensor *const *tensors, size_t n, gsc_scaler *scaler);

/* Whether all ranks' tensors have the same bits, by 64-bit digests in one message of 32 bytes in each of log2(ranks)
 * rounds. GSC_ERR_COMM, on every rank: they do not, and the message names the first tensor that differs; otherwise
 * arguments and errors are those of gsc_mpi_broadcast_tensors. names[i], and names itself, may be NULL; for the
 * message. */
GSC_API gsc_status gsc_mpi_check_same(gsc_mpi *mpi, DLTensor *const *tensors, const char *const *names, size_t n);

#ifdef __cplusplus
}
#endif
#endif
