/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c: the facts about machine and build that the header of a report names. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

int bench_cores(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

/* So that the text can become part of a JSON string. */
static void drop_quotes(char *text)
{
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            *text = ' ';
}

const char *bench_cpu_model(void)
{
    static char model[128];
    if (model[0])
        return model;
    strcpy(model, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return model;
    char line[256];
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %127[^\n]", model) == 1)
            break;
    fclose(file);
    drop_quotes(model);
    return model;
}

const char *bench_compiler(void)
{
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

const char *bench_build_type(void) { return BENCH_BUILD_TYPE; }
