/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h: the facts about machine and build that the header of a report names. */
#ifndef GSC_BENCH_MACHINE_H
#define GSC_BENCH_MACHINE_H

int bench_cores(void);             /* the number that the process may use */
const char *bench_cpu_model(void); /* "unknown processor" if /proc/cpuinfo does not name it */
const char *bench_compiler(void);
const char *bench_build_type(void);

#endif
