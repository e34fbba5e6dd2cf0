/* SPDX-License-Identifier: Apache-2.0 */
/* message.h: what the library itself needs to know about the per-thread message of status.h. */
#ifndef GSC_BASE_MESSAGE_H
#define GSC_BASE_MESSAGE_H

#include <stdint.h>

#define GSC_MESSAGE_SIZE 512 /* with the terminating zero; longer messages are cut */

/* How often this thread has set a message: tells whether a callback has left one. */
uint64_t gsc__message_count(void);

#endif
