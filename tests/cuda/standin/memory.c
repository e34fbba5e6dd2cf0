/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: each device has 64 GiB of addresses. An allocation takes the next pages there, after a guard page, and lies
 * at their end or at their beginning. Freed addresses are used again only after all the others.
 *
 * Addresses without an allocation are mapped from an empty file: touching them is a fault even where they are readable
 * and writable. So one call makes all allocations of a device accessible, and another one ends that. */
#define _GNU_SOURCE
#include "memory.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "call.h"
#include "random.h"

#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMORY_ASAN 1
#endif
#endif
#ifdef MEMORY_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

#define ARENA_BYTES ((size_t)64 << 30)
enum { PAGE = 4096, ALIGNMENT = 256, HOST = MAX_DEVICES, WATCHED = 64 /* bytes on each side */, MARK = 0xdb };

static char *arenas[MAX_DEVICES + 1], *next_page[MAX_DEVICES + 1];
static int empty_file = -1;
static allocation **live; /* by address */
static size_t live_count, live_capacity, used[MAX_DEVICES + 1], limit = (size_t)4 << 30;
static unsigned open_devices;
static const int faults[] = {SIGSEGV, SIGBUS, SIGILL};
static struct sigaction previous[3];
static const char *working_on;
static int working_device;

void standin_set_memory(size_t bytes) { limit = bytes; }
size_t memory_used(int device) { return used[device]; }
size_t memory_limit(void) { return limit; }

static size_t arena_of(const allocation *a) { return a->device < 0 ? HOST : (size_t)a->device; }

/* The first allocation whose pages end above the address. */
static size_t first_above(const char *address)
{
    size_t low = 0, high = live_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (live[middle]->pages + live[middle]->page_bytes > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool make_arena(size_t arena)
{
    if (empty_file < 0)
        empty_file = memfd_create("stand-in", MFD_CLOEXEC);
    char *all = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, empty_file, 0);
    if (all == MAP_FAILED)
        return false;
    arenas[arena] = all;
    next_page[arena] = all + PAGE;
    return true;
}

static void unmap(size_t arena, char *pages, size_t bytes)
{
    mmap(pages, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, empty_file, pages - arenas[arena]);
}

/* Free pages and a guard page behind them. */
static char *find_pages(size_t arena, size_t bytes)
{
    if (arenas[arena] == NULL && !make_arena(arena))
        return NULL;
    const char *end = arenas[arena] + ARENA_BYTES;
    bool wrapped = false;
    for (char *at = next_page[arena];;) {
        if (bytes + PAGE > (size_t)(end - at)) {
            if (wrapped)
                return NULL;
            wrapped = true;
            at = arenas[arena] + PAGE;
        }
        size_t above = first_above(at);
        if (above == live_count || live[above]->pages >= at + bytes + PAGE) {
            next_page[arena] = at + bytes + PAGE;
            return at;
        }
        at = live[above]->pages + live[above]->page_bytes + PAGE;
    }
}

static bool insert(allocation *a)
{
    if (live_count == live_capacity) {
        size_t capacity = live_capacity * 2 + 64;
        allocation **larger = realloc(live, capacity * sizeof *larger);
        if (larger == NULL)
            return false;
        live = larger;
        live_capacity = capacity;
    }
    size_t at = first_above(a->pages);
    memmove(live + at + 1, live + at, (live_count - at) * sizeof *live);
    live[at] = a;
    live_count++;
    return true;
}

static size_t watched_before(const allocation *a)
{
    size_t bytes = (size_t)(a->start - a->pages);
    return bytes < WATCHED ? bytes : WATCHED;
}

static size_t watched_behind(const allocation *a)
{
    size_t bytes = (size_t)(a->pages + a->page_bytes - (a->start + a->bytes));
    return bytes < WATCHED ? bytes : WATCHED;
}

static bool is_open(const allocation *a) { return a->device < 0 || (open_devices >> a->device & 1) != 0; }

static allocation *place(int device, CUcontext owner, size_t bytes)
{
    size_t arena = device < 0 ? HOST : (size_t)device;
    if (bytes == 0 || bytes > limit || (device >= 0 && used[arena] > limit - bytes))
        return NULL;
    allocation *a = malloc(sizeof *a);
    size_t page_bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    char *pages = a == NULL ? NULL : find_pages(arena, page_bytes);
    if (pages == NULL) {
        free(a);
        return NULL;
    }
    size_t behind = (page_bytes - bytes) / ALIGNMENT * ALIGNMENT;
    char *start = pages + (random_share(75) ? behind : 0);
    *a = (allocation){start, bytes, pages, page_bytes, device, owner};
    if (mmap(pages, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ||
        !insert(a)) {
        free(a);
        return NULL;
    }
    memset(pages, MARK, page_bytes);
    random_fill(start, bytes);
    ASAN_POISON_MEMORY_REGION(pages, (size_t)(start - pages));
    ASAN_POISON_MEMORY_REGION(start + bytes, (size_t)(pages + page_bytes - (start + bytes)));
    if (!is_open(a))
        mprotect(pages, page_bytes, PROT_NONE);
    used[arena] += bytes;
    return a;
}

allocation *memory_allocate(int device, CUcontext owner, size_t bytes) { return place(device, owner, bytes); }
allocation *memory_allocate_pinned(CUcontext owner, size_t bytes) { return place(-1, owner, bytes); }

/* The bytes beside it that are marked still are. Read past AddressSanitizer, which has them as poisoned. */
__attribute__((no_sanitize("address"))) static bool is_marked(const volatile unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != MARK)
            return false;
    return true;
}

static bool is_whole(const allocation *a, const char *after)
{
    size_t before = watched_before(a), behind = watched_behind(a);
    const unsigned char *start = (const unsigned char *)a->start;
    bool first = is_marked(start - before, before), last = is_marked(start + a->bytes, behind);
    if (!first || !last)
        complain("%s has written %s an allocation of %zu bytes at %p", after, first ? "behind" : "before", a->bytes,
                 (void *)a->start);
    return first && last;
}

bool memory_is_whole(int device, const char *after)
{
    bool whole = true;
    for (size_t i = 0; i < live_count; i++)
        if ((live[i]->device == device || live[i]->device < 0) && !is_whole(live[i], after))
            whole = false;
    return whole;
}

void memory_release(allocation *a)
{
    if (is_open(a))
        is_whole(a, "the host");
    size_t at = first_above(a->pages);
    memmove(live + at, live + at + 1, (live_count - at - 1) * sizeof *live);
    live_count--;
    used[arena_of(a)] -= a->bytes;
    ASAN_UNPOISON_MEMORY_REGION(a->pages, a->page_bytes);
    unmap(arena_of(a), a->pages, a->page_bytes);
    free(a);
}

allocation *memory_find(const void *address, size_t bytes)
{
    size_t at = first_above(address);
    if (at == live_count)
        return NULL;
    const char *begin = address;
    allocation *a = live[at];
    return begin >= a->start && bytes <= a->bytes && (size_t)(begin - a->start) <= a->bytes - bytes ? a : NULL;
}

allocation *memory_of_owner(CUcontext owner)
{
    for (size_t i = 0; i < live_count; i++)
        if (live[i]->owner == owner)
            return live[i];
    return NULL;
}

void memory_count(standin_live *alive)
{
    for (size_t i = 0; i < live_count; i++) {
        if (live[i]->owner == NULL)
            continue;
        alive->host_allocations += live[i]->device < 0;
        alive->device_allocations += live[i]->device >= 0;
        alive->device_bytes += live[i]->device >= 0 ? live[i]->bytes : 0;
    }
}

/* ---- What a kernel may touch ---- */

static void describe(const char *address, char *text, size_t size)
{
    for (size_t arena = 0; arena <= HOST; arena++) {
        if (arenas[arena] == NULL || address < arenas[arena] || address >= arenas[arena] + ARENA_BYTES)
            continue;
        const char *state = memory_find(address, 1) != NULL ? "live" : "freed, or beyond an allocation";
        if (arena == HOST)
            snprintf(text, size, "pinned host memory: %s", state);
        else
            snprintf(text, size, "memory of device %zu: %s", arena, state);
        return;
    }
    snprintf(text, size, "no memory of the stand-in");
}

/* Says what went wrong, then dies: a test's own handler would go on with the stand-in locked. */
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    char what[96] = "is stopped by a check of undefined behaviour, such as a misaligned address", text[320];
    int last = SIGILL;
    if (signal_number != SIGILL) {
        char memory[64];
        describe(info->si_addr, memory, sizeof memory);
        snprintf(what, sizeof what, "touches %p (%s)", info->si_addr, memory);
        last = SIGSEGV; /* which a device's fault is, whether or not an empty file lies there */
    }
    int length =
        snprintf(text, sizeof text, "stand-in (seed %llu): %s on device %d %s\n", (unsigned long long)random_seed_now(),
                 working_on == NULL ? "the stand-in" : working_on, working_device, what);
    if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
        _exit(1);
    signal(last, SIG_DFL);
    raise(last);
}

static void protect(size_t arena, int protection)
{
    if (arenas[arena] == NULL)
        return;
    size_t first = first_above(arenas[arena]), last = first_above(arenas[arena] + ARENA_BYTES);
    if (first < last)
        mprotect(live[first]->pages, (size_t)(live[last - 1]->pages + live[last - 1]->page_bytes - live[first]->pages),
                 protection);
}

void memory_open(unsigned devices)
{
    if (open_devices == devices)
        return;
    if (open_devices == 0) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
            sigaction(faults[i], &action, &previous[i]);
    }
    for (size_t arena = 0; arena < MAX_DEVICES; arena++)
        if (((open_devices ^ devices) >> arena & 1) != 0)
            protect(arena, (devices >> arena & 1) != 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
    open_devices = devices;
    for (size_t i = 0; devices == 0 && i < sizeof faults / sizeof *faults; i++)
        sigaction(faults[i], &previous[i], NULL);
}

void memory_working_on(const char *what, int device)
{
    working_on = what;
    working_device = device;
}

/* ---- For tests ---- */

void *standin_alloc(int device, size_t bytes)
{
    call_lock();
    allocation *a = memory_allocate(device, NULL, bytes);
    call_unlock();
    if (a == NULL) {
        fprintf(stderr, "stand-in: device %d has no %zu bytes for a test\n", device, bytes);
        abort();
    }
    return a->start;
}

static allocation *must_find(const void *address, size_t bytes)
{
    allocation *a = memory_find(address, bytes);
    if (a == NULL) {
        fprintf(stderr, "stand-in: %zu bytes at %p are no memory of a device\n", bytes, address);
        abort();
    }
    return a;
}

void standin_free(void *memory)
{
    if (memory == NULL)
        return;
    call_lock();
    memory_release(must_find(memory, 1));
    call_unlock();
}

static void copy_now(const void *device_memory, size_t bytes, void *to, const void *from)
{
    if (bytes == 0)
        return;
    call_lock();
    const allocation *a = must_find(device_memory, bytes);
    mprotect(a->pages, a->page_bytes, PROT_READ | PROT_WRITE);
    memcpy(to, from, bytes);
    if (!is_open(a))
        mprotect(a->pages, a->page_bytes, PROT_NONE);
    call_unlock();
}

void standin_upload(void *to, const void *from, size_t bytes) { copy_now(to, bytes, to, from); }
void standin_download(void *to, const void *from, size_t bytes) { copy_now(from, bytes, to, from); }
