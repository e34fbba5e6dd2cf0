/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: one lock for all, counts by function, failures by number. */
#define _GNU_SOURCE
#include "call.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory.h"
#include "random.h"
#include "standin.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t enqueued = PTHREAD_COND_INITIALIZER;

static const char *const names[CALL_COUNT] = {
#define CALL_NAME(result, name, parameters) #name,
    GSC_CUDA_DRIVER_FUNCTIONS(CALL_NAME) STANDIN_FUNCTIONS(CALL_NAME)
#undef CALL_NAME
};

static struct {
    uint64_t calls[CALL_COUNT], all, synchronisations, allocations, launches, errors;
    char last_error[640];
} counts;

static struct {
    int id; /* -1: any */
    uint64_t left;
    CUresult result;
    bool fired;
} failure;

static bool errors_expected;

void standin_expect_errors(bool expected) { errors_expected = expected; }

void call_lock(void) { pthread_mutex_lock(&mutex); }
void call_unlock(void) { pthread_mutex_unlock(&mutex); }
void call_wake(void) { pthread_cond_broadcast(&enqueued); }

bool call_wait(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    memory_open(0);
    return pthread_cond_timedwait(&enqueued, &mutex, &until) == 0;
}

CUresult call_begin(enum call_id id)
{
    call_lock();
    counts.calls[id]++;
    counts.all++;
    if (failure.left == 0 || (failure.id >= 0 && failure.id != (int)id) || --failure.left > 0)
        return CUDA_SUCCESS;
    failure.fired = true;
    return failure.result;
}

CUresult call_end(CUresult result)
{
    memory_open(0);
    call_unlock();
    return result;
}

void call_synchronises(void) { counts.synchronisations++; }
void call_allocates(void) { counts.allocations++; }
void call_launches(void) { counts.launches++; }

void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(counts.last_error, sizeof counts.last_error, format, args);
    va_end(args);
    counts.errors++;
    if (!errors_expected)
        fprintf(stderr, "stand-in (seed %llu): %s\n", (unsigned long long)random_seed_now(), counts.last_error);
}

/* cuMemAlloc is cuMemAlloc_v2, too. */
static bool is_name(const char *name, const char *asked)
{
    size_t length = strlen(asked);
    return strncmp(name, asked, length) == 0 && (name[length] == '\0' || strcmp(name + length, "_v2") == 0);
}

static int id_of(const char *function)
{
    for (int id = 0; id < CALL_COUNT; id++)
        if (is_name(names[id], function))
            return id;
    fprintf(stderr, "stand-in: there is no function \"%s\"\n", function);
    abort();
}

uint64_t standin_count(const char *function)
{
    call_lock();
    uint64_t count = counts.calls[id_of(function)];
    call_unlock();
    return count;
}

void standin_reset_counts(void)
{
    call_lock();
    memset(&counts, 0, sizeof counts);
    call_unlock();
}

static uint64_t locked_value(const uint64_t *value)
{
    call_lock();
    uint64_t copy = *value;
    call_unlock();
    return copy;
}

uint64_t standin_calls(void) { return locked_value(&counts.all); }
uint64_t standin_synchronisations(void) { return locked_value(&counts.synchronisations); }
uint64_t standin_allocations(void) { return locked_value(&counts.allocations); }
uint64_t standin_launches(void) { return locked_value(&counts.launches); }
uint64_t standin_errors(void) { return locked_value(&counts.errors); }
const char *standin_last_error(void) { return counts.last_error; }

void standin_fail(const char *function, uint64_t k, int result)
{
    call_lock();
    failure.id = function == NULL ? -1 : id_of(function);
    failure.left = k;
    failure.result = result;
    failure.fired = false;
    call_unlock();
}

bool standin_fail_fired(void)
{
    call_lock();
    bool fired = failure.fired;
    call_unlock();
    return fired;
}
