/* SPDX-License-Identifier: Apache-2.0 */
/* example.h: how the examples check. A program of yours would rather hand errors on than exit. */
#ifndef GSC_EXAMPLES_EXAMPLE_H
#define GSC_EXAMPLES_EXAMPLE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <gradscaler/status.h>

/* Every call that can fail returns a status, and leaves a message that says what was wrong. */
static inline void must(gsc_status status)
{
    if (status == GSC_OK)
        return;
    fprintf(stderr, "%s: %s\n", gsc_status_name(status), gsc_last_error());
    exit(EXIT_FAILURE);
}

/* What the example claims. */
static inline void expect(bool claim, const char *text)
{
    if (claim)
        return;
    fprintf(stderr, "does not hold: %s\n", text);
    exit(EXIT_FAILURE);
}

#endif
