/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 6: callbacks that throw C++'s exceptions, 1,000 times each. */
#include "unwinding.h"

static void leave() { throw 42; }

static bool run_left(void (*body)())
{
    bool left = false;
    try {
        body();
    } catch (int thrown) {
        left = thrown == 42;
    }
    check(rounds_upward(), "the caller's floating-point environment");
    return left;
}

int main()
{
    unwinding_rounds(1000, 1000);
    for (int callback = 0; callback < CALLBACKS; callback++)
        printf("%s: %ld exceptions\n", callback_names[callback], left_count[callback]);
}
