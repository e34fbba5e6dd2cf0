/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: what every function of the driver does around its work: the lock, the count, the injected failure. */
#ifndef GSC_TESTS_STANDIN_CALL_H
#define GSC_TESTS_STANDIN_CALL_H

#include <stdbool.h>

#include "abi.h"

enum call_id {
#define CALL_ID(result, name, parameters) CALL_##name,
    GSC_CUDA_DRIVER_FUNCTIONS(CALL_ID) STANDIN_FUNCTIONS(CALL_ID)
#undef CALL_ID
        CALL_COUNT
};

/* Locks and counts; returns the failure that was asked for, or CUDA_SUCCESS. */
CUresult call_begin(enum call_id id);
/* Device memory becomes inaccessible again; unlocks. Returns `result`. */
CUresult call_end(CUresult result);

/* For standin_* functions: the lock alone. */
void call_lock(void);
void call_unlock(void);
/* Waits, unlocked, until another thread has enqueued work. Returns false after 20 seconds. */
bool call_wait(void);
void call_wake(void); /* work was enqueued */

void call_synchronises(void); /* this call waits for the device */
void call_allocates(void);
void call_launches(void);

/* Notes and prints an error in the use of the device. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* The body of a function of the driver. */
#define CALL(name, work)                                                                                               \
    CUresult call_result = call_begin(CALL_##name);                                                                    \
    if (call_result == CUDA_SUCCESS)                                                                                   \
        call_result = (work);                                                                                          \
    return call_end(call_result)

/* The same for a function that frees something: an injected failure comes after its work, as the driver returns
 * failures of earlier work. */
#define CALL_FREEING(name, work)                                                                                       \
    CUresult call_injected = call_begin(CALL_##name), call_result = (work);                                            \
    return call_end(call_injected == CUDA_SUCCESS ? call_result : call_injected)

/* Returns a failure from the calling function. */
#define TRY(work)                                                                                                      \
    do {                                                                                                               \
        CUresult try_result = (work);                                                                                  \
        if (try_result != CUDA_SUCCESS)                                                                                \
            return try_result;                                                                                         \
    } while (0)

#endif
