/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.c: the switch in ten instructions on x86-64, ucontext elsewhere; AddressSanitizer is told of each. */
#define _GNU_SOURCE
#include "fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

enum { PAGE = 4096, STACK = 128 * 1024, COLOURS = 31, COLOUR = 128 };

#ifdef FIBER_ASAN
static fiber *coming_from;

static void leave(fiber *from, const fiber *to)
{
    coming_from = from;
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->size);
}

/* `self`: the fiber that runs now. The program's own stack becomes known here. */
static void arrive(const fiber *self)
{
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(self->fake_stack, &bottom, &size);
    if (coming_from->stack == NULL) {
        coming_from->bottom = bottom;
        coming_from->size = size;
    }
}
#else
static void leave(const fiber *from, const fiber *to) { (void)from, (void)to; }
static void arrive(const fiber *self) { (void)self; }
#endif

static fiber *starting; /* the fiber that the last switch has gone to */
static void (*entry_point)(void);

static void start(void)
{
    arrive(starting);
    entry_point();
    abort();
}

#if defined(__x86_64__)
/* void fiber_jump(void **leaving, void *arriving): the registers that a call preserves are kept on the stack. */
void fiber_jump(void **leaving, void *arriving);
__asm__(".text\n"
        ".globl fiber_jump\n"
        ".hidden fiber_jump\n"
        ".type fiber_jump, @function\n"
        "fiber_jump:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fiber_jump, .-fiber_jump\n");

static void jump(fiber *from, fiber *to) { fiber_jump(&from->place, to->place); }

static bool place(fiber *f, char *top)
{
    void **word = (void **)(void *)top; /* a multiple of 16 */
    *--word = NULL;                     /* start's return address: never used */
    *--word = (void *)(uintptr_t)start;
    for (int registers = 0; registers < 6; registers++)
        *--word = NULL;
    f->place = word;
    return true;
}
#else
static void jump(fiber *from, fiber *to)
{
    if (from->place == NULL)
        from->place = calloc(1, sizeof(ucontext_t));
    if (from->place == NULL)
        abort();
    swapcontext(from->place, to->place);
}

static bool place(fiber *f, char *top)
{
    if (f->place == NULL)
        f->place = calloc(1, sizeof(ucontext_t));
    if (f->place == NULL)
        return false;
    ucontext_t *context = f->place;
    getcontext(context);
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = (size_t)(top - (char *)f->stack);
    context->uc_link = NULL;
    makecontext(context, start, 0);
    return true;
}
#endif

bool fiber_prepare(fiber *f, void (*entry)(void), size_t colour)
{
    if (f->stack == NULL) {
        char *pages =
            mmap(NULL, PAGE + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED)
            return false;
        mprotect(pages, PAGE, PROT_NONE);
        f->stack = pages + PAGE;
        f->bottom = f->stack;
        f->size = STACK;
    }
#ifdef FIBER_ASAN
    __asan_unpoison_memory_region(f->stack, STACK);
    f->fake_stack = NULL;
#endif
    entry_point = entry;
    return place(f, (char *)f->stack + STACK - colour % COLOURS * COLOUR);
}

void fiber_switch(fiber *from, fiber *to)
{
    starting = to;
    leave(from, to);
    jump(from, to);
    arrive(from);
}
