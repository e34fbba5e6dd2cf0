/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that are left out say why: in their output, and in the file that GSC_SKIPPED names, which `make test` shows. */
#ifndef GSC_TESTS_SKIPPED_H
#define GSC_TESTS_SKIPPED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Leaves a cmocka test out. */
#define SKIP_BECAUSE(reason)                                                                                           \
    do {                                                                                                               \
        note_skipped(__FILE__, __func__, reason);                                                                      \
        skip();                                                                                                        \
    } while (0)

static inline void note_skipped(const char *file, const char *test, const char *reason)
{
    printf("skipped: %s\n", reason);
    const char *path = getenv("GSC_SKIPPED");
    FILE *list = path ? fopen(path, "a") : NULL;
    if (!list)
        return;
    const char *name = strrchr(file, '/');
    fprintf(list, "%s, %s: %s\n", name ? name + 1 : file, test, reason);
    fclose(list);
}

#endif
