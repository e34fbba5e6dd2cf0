/* SPDX-License-Identifier: Apache-2.0 */
/* fake.c: the fake module's device, which proves the core alone. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <stdio.h>

#include "devices.h"
#include "fake_backend.h"

subject_place device_place(void)
{
    return (subject_place){.device = FAKE_DEVICE,
                           .backend = &fake_backend,
                           .begin = fake_backend_reset,
                           .alloc = fake_device_alloc,
                           .write = fake_device_write,
                           .read = fake_device_read};
}
