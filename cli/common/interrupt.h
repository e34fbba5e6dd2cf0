/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h: SIGINT and SIGTERM as a wish to end soon. */
#ifndef CLI_COMMON_INTERRUPT_H
#define CLI_COMMON_INTERRUPT_H

/* From here on the first of them is only noted; any further one acts at once, as the system's default is. A signal that
 * the command was started with as ignored (nohup, a shell's background) stays so. Files beyond the limit of their size
 * (ulimit -f) end nothing: writing them fails. */
void interrupt_begin(void);

/* The number of the signal that was noted; 0: none. */
int interrupt_signal(void);
const char *interrupt_name(void); /* "SIGINT" or "SIGTERM" */

#endif
