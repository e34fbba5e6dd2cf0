/* SPDX-License-Identifier: Apache-2.0 */
/* cores.h: how many cores the process may use. */
#ifndef GSC_BASE_CORES_H
#define GSC_BASE_CORES_H

/* The cores that the scheduler gives to this process (its affinity), or fewer where a control group's CPU quota allows
 * less time than they have; a quota of 1.5 CPUs counts as 2, of 0.5 as 1. At least 1. root is put before the paths of
 * /proc and of control groups: "" but in tests. What cannot be read limits nothing. */
int gsc__usable_cores(const char *root);

/* The quota alone; INT_MAX without one. */
int gsc__quota_cores(const char *root);

#endif
