/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.h: stacks of their own for the threads of a block, and the switch between them. */
#ifndef GSC_TESTS_STANDIN_FIBER_H
#define GSC_TESTS_STANDIN_FIBER_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: the program's own stack, from which the first switch is made. */
typedef struct fiber {
    void *stack; /* mapped, with a guard page below; NULL: the program's own */
    void *place; /* where it goes on: a stack pointer, or a ucontext_t */
    void *fake_stack;
    const void *bottom; /* of the stack, as AddressSanitizer wants it */
    size_t size;
} fiber;

/* Prepares a fiber that will call `entry`, which must never return. Makes its stack at the first call; a later call
 * abandons what the fiber was doing. `colour`: 0, 1, …; shifts the stack, so that not all fibers use the same lines of
 * the processor's caches. Returns false where there is no memory. */
bool fiber_prepare(fiber *f, void (*entry)(void), size_t colour);

void fiber_switch(fiber *from, fiber *to);

#endif
