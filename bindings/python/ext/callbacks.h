/* SPDX-License-Identifier: Apache-2.0 */
/* callbacks.h: what the core calls back, in Python. An exception that is raised there is stashed in the frame of the
 * call under way. */
#ifndef EXT_CALLBACKS_H
#define EXT_CALLBACKS_H

#include "handle.h"

/* The callbacks of a handle's optimizer, all but step_scaled. */
void callbacks_fill_optimizer(py_handle *handle);
/* Whether the next step may be scale-aware. */
void callbacks_offer_step_scaled(py_handle *handle, bool offered);
/* comm and observer of the scaler's options. *comm must outlive gsc_scaler_create. */
void callbacks_fill_options(py_scaler *scaler, gsc_scaler_options *options, gsc_comm *comm);

#endif
