/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h: SIGINT and SIGTERM as a request to stop at the next good moment. */
#ifndef CLI_COMMON_INTERRUPT_H
#define CLI_COMMON_INTERRUPT_H

/* From here on the first signal is only recorded; a second one ends the process at once, by the system's default. A
 * signal that was ignored when the command started (by nohup, or a shell's background) stays ignored. A file that
 * reaches the limit of ulimit -f does not end the process either: the write fails. */
void interrupt_begin(void);

/* The number of the recorded signal; 0: none. */
int interrupt_signal(void);
const char *interrupt_name(void); /* "SIGINT" or "SIGTERM" */

#endif
