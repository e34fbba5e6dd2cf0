/* SPDX-License-Identifier: Apache-2.0 */
/* must.h: how a failure ends the benchmark. */
#ifndef GSC_BENCH_MUST_H
#define GSC_BENCH_MUST_H

#include "gradscaler/status.h"

/* Prints the message and exits with status 1. */
_Noreturn void bench_die(const char *format, ...) GSC_PRINTF(1, 2);

/* Ends the program unless the call of the library succeeds. */
#define bench_must(call) bench_must_be_ok((call), #call)
void bench_must_be_ok(gsc_status status, const char *call);

#endif
