/* SPDX-License-Identifier: Apache-2.0 */
/* failing.h: makes one chosen allocation fail. The linker gives what is linked into the program (--wrap: the libraries'
 * own code, and the test) the functions below for malloc and its like; other libraries keep theirs, but for jansson
 * after failing_include_json.
 *
 *     failing_start(n);                     // n allocations succeed, then one fails
 *     gsc_status status = gsc_...;
 *     if (failing_stop())                   // the allocation was reached
 *         assert_out_of_memory(status);
 */
#ifndef GSC_TESTS_OUT_OF_MEMORY_FAILING_H
#define GSC_TESTS_OUT_OF_MEMORY_FAILING_H

#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "gradscaler/status.h"
#include "sanitizer_options.h"

static atomic_int failing_countdown = -1; /* negative: none fails, or it has */
static atomic_bool failing_happened;
static bool failing_json;

static inline void failing_start(int n)
{
    atomic_store(&failing_happened, false);
    atomic_store(&failing_countdown, n);
    gsc_fail(GSC_OK, "an old message");
}

/* Whether an allocation has failed. */
static inline bool failing_stop(void)
{
    atomic_store(&failing_countdown, -1);
    return atomic_load(&failing_happened);
}

static inline bool failing_now(void)
{
    int left = atomic_load(&failing_countdown);
    while (left >= 0 && !atomic_compare_exchange_weak(&failing_countdown, &left, left - 1))
        ;
    if (left != 0)
        return false;
    atomic_store(&failing_happened, true);
    errno = ENOMEM;
    return true;
}

/* The linker turns calls of malloc into calls of __wrap_malloc, and __real_malloc into malloc. It does so for uses in
 * shared libraries too, and refuses a hidden __wrap_malloc there, although these still call the C library's malloc. */
#pragma GCC visibility push(default)
#define FAILING_WRAP(type, name, parameters, arguments)                                                                \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters { return failing_now() ? NULL : __real_##name arguments; }

FAILING_WRAP(void *, malloc, (size_t size), (size))
FAILING_WRAP(void *, calloc, (size_t count, size_t size), (count, size))
FAILING_WRAP(void *, realloc, (void *memory, size_t size), (memory, size))
FAILING_WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
FAILING_WRAP(char *, strdup, (const char *text), (text))
FAILING_WRAP(char *, strndup, (const char *text, size_t size), (text, size))
FAILING_WRAP(FILE *, fdopen, (int descriptor, const char *mode), (descriptor, mode))
FAILING_WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
#undef FAILING_WRAP

int __real_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    return failing_now() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

#pragma GCC visibility pop

static inline void *failing_json_malloc(size_t size)
{
    return failing_json && failing_now() ? NULL : __real_malloc(size);
}

/* Whether jansson's allocations fail too. Only where it writes: its parser (2.14) loses characters or asserts when its
 * token buffer cannot grow, which cannot be noticed from outside. */
static inline void failing_include_json(bool include)
{
    json_set_alloc_funcs(failing_json_malloc, free);
    failing_json = include;
}

/* A message about memory; ops tell no status. */
static inline void assert_memory_message(void)
{
    if (!strstr(gsc_last_error(), "memory") && !strstr(gsc_last_error(), "the system has none"))
        fail_msg("the message is not about memory: %s", gsc_last_error());
}

static inline void assert_out_of_memory(gsc_status status)
{
    if (status != GSC_ERR_MEMORY)
        fail_msg("%s instead of GSC_ERR_MEMORY: %s", gsc_status_name(status), gsc_last_error());
    assert_memory_message();
}

#endif
