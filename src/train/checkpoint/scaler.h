/* SPDX-License-Identifier: Apache-2.0 */
/* scaler.h: scaler.json. */
#ifndef GSC_TRAIN_CHECKPOINT_SCALER_H
#define GSC_TRAIN_CHECKPOINT_SCALER_H

#include "gradscaler/checkpoint.h"

/* The text of scaler.json, to be freed with free(); NULL with a message on failure. */
char *gsc__scalers_print(const gsc_named_scaler *scalers, size_t n);
/* Reads the states from the text, in the order of the scalers. `path` is for messages. */
gsc_status gsc__scalers_parse(const char *path, const char *text, size_t size, const gsc_named_scaler *scalers,
                              size_t n, gsc_scaler_state *states);

#endif
