/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.h: standard input, output and error of a process that was started without them. */
#ifndef CLI_COMMON_DESCRIPTORS_H
#define CLI_COMMON_DESCRIPTORS_H

#include <stdbool.h>

/* Opens those of the descriptors 0 to 2 that are closed, so that no file of a run gets their number and their messages.
 * Reading from the opened 0 and writing to the opened 1 and 2 fail, as they do where nothing is open. Call it before
 * anything else. false: that is impossible. */
bool descriptors_open(void);

#endif
