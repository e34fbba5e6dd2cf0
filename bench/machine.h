/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h: what the numbers were measured on. */
#ifndef GSC_BENCH_MACHINE_H
#define GSC_BENCH_MACHINE_H

int bench_cores(void);             /* that the process may use */
const char *bench_cpu_model(void); /* "unknown processor" where the system does not say */
const char *bench_compiler(void);
const char *bench_build_type(void);

#endif
