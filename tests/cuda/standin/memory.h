/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: device memory, which is accessible only where and while the stand-in says so, and pinned host memory. */
#ifndef GSC_TESTS_STANDIN_MEMORY_H
#define GSC_TESTS_STANDIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "abi.h"
#include "standin.h"

enum { MAX_DEVICES = 8 };

typedef struct allocation {
    char *start;
    size_t bytes;
    char *pages; /* those that hold it; between guard pages */
    size_t page_bytes;
    int device;      /* -1: pinned host memory */
    CUcontext owner; /* NULL: the test's own */
} allocation;

/* NULL where there is no room. */
allocation *memory_allocate(int device, CUcontext owner, size_t bytes);
allocation *memory_allocate_pinned(CUcontext owner, size_t bytes);
void memory_release(allocation *a);
/* The live allocation that holds all these bytes, or NULL. Valid until the next allocation or release. */
allocation *memory_find(const void *address, size_t bytes);
allocation *memory_of_owner(CUcontext owner); /* one of them, or NULL */
void memory_count(standin_live *live);        /* fills in the allocations that have an owner */
size_t memory_used(int device);
size_t memory_limit(void);

/* Makes the memory of these devices (a bit each) accessible, and no other. */
void memory_open(unsigned devices);
/* For the message where the work dies of SIGSEGV: what runs now. NULL: nothing. */
void memory_working_on(const char *what, int device);
/* Complains of bytes around the device's allocations that have changed; false if there were any. */
bool memory_is_whole(int device, const char *after);

#endif
