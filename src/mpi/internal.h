/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h: what the files of this module share. Everything travels in point-to-point messages: these can be waited
 * for with a deadline, name the rank that does not answer, carry what tells one call from another, and leave the order
 * of sums to us. */
#ifndef GSC_MPI_INTERNAL_H
#define GSC_MPI_INTERNAL_H

#include "base/dtype_kind.h"
#include "gradscaler/mpi.h"
#include "mpi/envelope.h"

#define GSC_MPI_SLOTS 4 /* buckets that travel at a time */
#define GSC_MPI_REASON 400

/* Tags of messages; those of a slot follow. */
enum { GSC_MPI_TAG_EXCHANGE = 1, GSC_MPI_TAG_SLOTS = 2 };

/* One small reduction over all ranks (exchange.c). They take place one after the other, in the order of their start. */
typedef struct gsc__mpi_exchange {
    gsc__mpi_envelope own, other; /* the result is in own */
    MPI_Request requests[2];      /* receive, send */
    int step;                     /* rounds completed */
    bool posted, done;
    struct gsc__mpi_exchange *next;
} gsc__mpi_exchange;

/* A tensor of a list, checked (tensors.c). */
typedef struct gsc__mpi_view {
    char *data;
    const DLTensor *tensor; /* for shape and strides where it is not compact */
    size_t count, size;     /* elements, bytes of one */
    gsc__kind kind;         /* GSC_NO_KIND where only bytes matter */
    bool compact;           /* row-major without gaps */
    bool skip;              /* an earlier one of the list is the same */
} gsc__mpi_view;

typedef struct gsc__mpi_views {
    gsc__mpi_view *items;
    uint64_t *digests; /* digests[i]: of tensors 0 ... i, set by the caller of gsc__mpi_views_make */
    size_t count;
} gsc__mpi_views;

/* Elements first ... first + count - 1, in row-major order, of a view. */
typedef struct gsc__mpi_piece {
    size_t view, first, count;
} gsc__mpi_piece;

/* Elements that travel together (buckets.c). */
typedef struct gsc__mpi_bucket {
    gsc__kind kind;
    size_t size, count;        /* bytes of an element, elements */
    char *direct;              /* they lie here, in the caller's memory; NULL: packed from the pieces */
    size_t piece, piece_count; /* the pieces, in the plan */
} gsc__mpi_bucket;

typedef struct gsc__mpi_plan {
    gsc__mpi_bucket *buckets;
    gsc__mpi_piece *pieces;
    size_t bucket_count, piece_count, bucket_capacity, piece_capacity;
} gsc__mpi_plan;

/* A list of tensors on its way (group.c). */
typedef struct gsc__mpi_group {
    gsc__mpi_call call;
    gsc__mpi_views views;
    gsc__mpi_plan plan;
    gsc__mpi_exchange agreement;
    bool judged;           /* by its agreement; then */
    bool differs;          /* ... the lists are not the same on every rank */
    size_t started, ended; /* buckets */
    struct gsc__mpi_group *next;
} gsc__mpi_group;

typedef enum gsc__mpi_phase { GSC_MPI_IDLE, GSC_MPI_GATHERING, GSC_MPI_SPREADING } gsc__mpi_phase;

/* Where a bucket is while it travels (transfer.c). */
typedef struct gsc__mpi_slot {
    gsc__mpi_phase phase;
    gsc__mpi_group *group;
    const gsc__mpi_bucket *bucket;
    char *elements;        /* of the bucket: the caller's, or packed */
    char *packed;          /* bucket_bytes; these are NULL until the first group */
    char *received;        /* the other ranks' values of this rank's part */
    MPI_Request *requests; /* up to 2 for each other rank */
    MPI_Status *statuses;
    int *peers; /* the rank at the other end of each */
    bool *is_receive;
    int request_count;
} gsc__mpi_slot;

struct gsc_mpi {
    MPI_Comm comm;
    int rank, size;
    double timeout;
    size_t bucket_bytes;
    uint32_t sequence; /* exchanges started */
    gsc__mpi_exchange *exchanges, **last_exchange;
    gsc__mpi_exchange blocking; /* the one that a call waits for */
    gsc__mpi_group *groups, **last_group;
    gsc__mpi_slot slots[GSC_MPI_SLOTS];
    size_t next_slot;
    uint64_t progress;  /* grows with each sign of life */
    gsc_status refused; /* since the last end: GSC_ERR_COMM: by another rank; another error: by this one */
    char refusal[GSC_MPI_REASON];
    bool averaging;    /* between begin and end */
    bool holds_memory; /* after a failure: MPI may still use memory of the slots */
    bool failed;
    char reason[GSC_MPI_REASON];
    struct gsc_mpi *next_abandoned;
};

/* failure.c */

/* Marks mpi as failed unless it is, and returns GSC_ERR_COMM with the reason of the first failure. */
gsc_status gsc__mpi_fail(gsc_mpi *mpi, const char *format, ...) GSC_PRINTF(2, 3);
/* The same for an error code that an MPI function returned. */
gsc_status gsc__mpi_error(gsc_mpi *mpi, const char *function, int code);
/* MPI_Testall. */
gsc_status gsc__mpi_test_all(gsc_mpi *mpi, int count, MPI_Request *requests, MPI_Status *statuses, bool *complete);
/* Cancels the receives among the requests. False if MPI may still use the memory of one of them. */
bool gsc__mpi_withdraw(int count, MPI_Request *requests, const bool *is_receive);
/* GSC_OK, or GSC_ERR_VALUE (NULL), GSC_ERR_COMM (failed before). */
gsc_status gsc__mpi_check(const gsc_mpi *mpi, const char *api);
/* GSC_ERR_STATE between average_begin and average_end. */
gsc_status gsc__mpi_check_idle(const gsc_mpi *mpi, const char *api);

#define GSC_MPI_TRY(mpi, function, arguments)                                                                          \
    do {                                                                                                               \
        int mpi_code = function arguments;                                                                             \
        if (mpi_code != MPI_SUCCESS)                                                                                   \
            return gsc__mpi_error(mpi, #function, mpi_code);                                                           \
    } while (0)

/* wait.c */

typedef struct gsc__mpi_wait {
    double since; /* of the last sign of life, seconds; 0: the clock was not read yet */
    uint64_t progress;
    unsigned polls, late;
} gsc__mpi_wait;

/* After a poll that found nothing complete: spins, yields, then sleeps. True once timeout seconds have passed without a
 * sign of life. */
bool gsc__mpi_wait_expired(gsc__mpi_wait *wait, uint64_t progress, double timeout);

/* exchange.c */

void gsc__mpi_exchange_start(gsc_mpi *mpi, gsc__mpi_exchange *exchange, const gsc__mpi_envelope *own);
/* Moves the exchanges on as far as they go without waiting. */
gsc_status gsc__mpi_exchanges_poll(gsc_mpi *mpi);
/* GSC_ERR_COMM, and mpi has failed, if an exchange that is done tells that ranks are out of step. */
gsc_status gsc__mpi_check_step(gsc_mpi *mpi, const gsc__mpi_exchange *exchange);
/* Writes the message of a refusal, and returns true, if the exchange tells of one. */
bool gsc__mpi_is_refused(const gsc__mpi_exchange *exchange, char *text, size_t size);
/* The rank that the first exchange waits for, -1: there is none. */
int gsc__mpi_exchange_peer(const gsc_mpi *mpi);

/* tensors.c */

/* Which tensors a call takes. */
typedef enum gsc__mpi_accept { GSC_MPI_FLOATS, GSC_MPI_ANY } gsc__mpi_accept;

/* Checks a list and makes its views; those of NULL entries have tensor == NULL. `write`: elements must not share
 * memory. Local. */
gsc_status gsc__mpi_views_make(const char *api, DLTensor *const *tensors, size_t n, gsc__mpi_accept accept, bool write,
                               gsc__mpi_views *out);
void gsc__mpi_views_free(gsc__mpi_views *views);
/* Elements first ... first + count - 1 of a view, in row-major order, to or from a buffer. */
void gsc__mpi_pack(const gsc__mpi_view *view, size_t first, size_t count, char *out);
void gsc__mpi_unpack(const gsc__mpi_view *view, size_t first, size_t count, const char *in);

/* digest.c */

/* Of dtype and number of elements. */
uint64_t gsc__mpi_digest_layout(uint64_t before, const gsc__mpi_view *view);
/* Of the elements' bits in row-major order. */
uint64_t gsc__mpi_digest_elements(uint64_t before, const gsc__mpi_view *view);
uint64_t gsc__mpi_digest_word(uint64_t before, uint64_t word);

/* sum.c */

/* own becomes the average of `ranks` ranks' values in the order of the ranks: own is of rank `rank`, the other ones lie
 * in `others`, one after the other. */
void gsc__mpi_average(gsc__kind kind, void *own, const void *others, size_t count, int rank, int ranks);

/* buckets.c */

gsc_status gsc__mpi_plan_make(const gsc__mpi_views *views, size_t bucket_bytes, gsc__mpi_plan *out);
void gsc__mpi_plan_free(gsc__mpi_plan *plan);
void gsc__mpi_bucket_pack(const gsc__mpi_group *group, const gsc__mpi_bucket *bucket, char *out);
void gsc__mpi_bucket_unpack(const gsc__mpi_group *group, const gsc__mpi_bucket *bucket, const char *in);

/* transfer.c */

/* The memory of all slots, at the first call. GSC_OK or GSC_ERR_MEMORY. */
gsc_status gsc__mpi_slots_reserve(gsc_mpi *mpi, const char *api);
void gsc__mpi_slots_free(gsc_mpi *mpi);
/* Begins to send a bucket in an idle slot. */
gsc_status gsc__mpi_slot_start(gsc_mpi *mpi, gsc__mpi_slot *slot, gsc__mpi_group *group, const gsc__mpi_bucket *bucket);
gsc_status gsc__mpi_slot_poll(gsc_mpi *mpi, gsc__mpi_slot *slot);
/* A rank whose message a slot waits for, -1: none. */
int gsc__mpi_slot_peer(const gsc__mpi_slot *slot);

/* progress.c */

/* Moves everything on as far as it goes without waiting. GSC_ERR_COMM: mpi has failed. */
gsc_status gsc__mpi_poll(gsc_mpi *mpi);
/* Withdraws all receives after a failure. */
void gsc__mpi_withdraw_all(gsc_mpi *mpi);
/* Polls until *done; until no group is left where done is NULL. */
gsc_status gsc__mpi_wait_until(gsc_mpi *mpi, gsc__mpi_call call, const bool *done);
/* An exchange from start to end; *envelope becomes the result. GSC_ERR_COMM also if a rank refused. */
gsc_status gsc__mpi_exchange_now(gsc_mpi *mpi, gsc__mpi_envelope *envelope);

/* agree.c */

/* Collective. Takes part in an agreement of `call` with a refusal. The message stays. */
void gsc__mpi_refuse(gsc_mpi *mpi, gsc__mpi_call call);
/* Collective. All ranks know that digests of their lists of tensors differ: names the first tensor that does.
 * names may be NULL. GSC_ERR_COMM. */
gsc_status gsc__mpi_name_difference(gsc_mpi *mpi, gsc__mpi_call call, const gsc__mpi_views *views,
                                    const char *const *names);

/* group.c */

/* A list of tensors, checked and cut into buckets. Local: does not tell the other ranks of an error. */
gsc_status gsc__mpi_group_make(gsc_mpi *mpi, gsc__mpi_call call, DLTensor *const *tensors, size_t n,
                               gsc__mpi_group **out);
/* Collective: mpi takes the group and begins its agreement. */
void gsc__mpi_group_start(gsc_mpi *mpi, gsc__mpi_group *group);
/* Waits until all groups are over, frees them, and returns the first error of any. */
gsc_status gsc__mpi_groups_end(gsc_mpi *mpi, gsc__mpi_call call);
void gsc__mpi_group_free(gsc__mpi_group *group);
/* Frees all groups. */
void gsc__mpi_groups_free(gsc_mpi *mpi);

#endif
