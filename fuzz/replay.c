/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c: the main function of targets that are built without libFuzzer. fuzz_<topic> TEXT... gives the target each
 * entry of each text file (entries.h). A failure ends the program; the last line on stderr names the entry. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entries.h"
#include "support.h"

typedef struct replay {
    const char *path;
    int count;
} replay;

static void replay_entry(void *ctx, int line, const uint8_t *data, size_t size)
{
    replay *r = ctx;
    fprintf(stderr, "replay: %s:%d\n", r->path, line);
    /* A copy of exactly this size, so that memory checkers see reads beyond it. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    require(copy, "there is memory");
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    r->count++;
}

int main(int argc, char **argv)
{
    replay r = {0};
    bool valid = true;
    for (int i = 1; i < argc; i++) {
        r.path = argv[i];
        valid = entries_visit(argv[i], replay_entry, &r) && valid;
    }
    printf("%d inputs replayed\n", r.count);
    if (r.count == 0)
        fprintf(stderr, "usage: %s TEXT...; no input was found\n", argv[0]);
    return valid && r.count > 0 ? 0 : 1;
}
