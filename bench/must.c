/* SPDX-License-Identifier: Apache-2.0 */
/* must.c: how a failure ends the benchmark. */
#include "must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void bench_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "bench: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

void bench_must_be_ok(gsc_status status, const char *call)
{
    if (status != GSC_OK)
        bench_die("%s: %s: %s", call, gsc_status_name(status), gsc_last_error());
}
