/* SPDX-License-Identifier: Apache-2.0 */
/* message.h: what the library itself needs to know about the per-thread message of status.h. */
#ifndef GSC_BASE_MESSAGE_H
#define GSC_BASE_MESSAGE_H

#include <stdint.h>

#define GSC_MESSAGE_SIZE 512 /* with the terminating zero; longer messages are cut */

/* How often this thread has set a message: tells whether a callback has left one. */
uint64_t gsc__message_count(void);

/* What the caller can do about a failure, in the words of C; or in those of Python, where the library is compiled into
 * Python's extension. (The extension translates the name of the function that failed, at the message's beginning.) */
#ifdef GSC_FOR_PYTHON
#define GSC_WORDS(c, python) python
#else
#define GSC_WORDS(c, python) c
#endif
#define GSC_WORDS_UPDATE GSC_WORDS("gsc_scaler_update", "update")
#define GSC_WORDS_DROP_BATCH                                                                                           \
    GSC_WORDS("drop the batch with gsc_scaler_skip and gsc_scaler_update", "drop the batch with skip and update")
#define GSC_WORDS_UPDATE_TO GSC_WORDS("gsc_scaler_update_to", "update(new_scale)")

#endif
