/* SPDX-License-Identifier: Apache-2.0 */
/* fake.c: the fake module's device, which proves the core alone. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <stdio.h>

#include "devices.h"
#include "fake_backend.h"

const subject_place device_place = {.device = {kDLCUDA, 0},
                                    .backend = &fake_backend,
                                    .begin = fake_backend_reset,
                                    .alloc = fake_device_alloc,
                                    .write = fake_device_write,
                                    .read = fake_device_read};
