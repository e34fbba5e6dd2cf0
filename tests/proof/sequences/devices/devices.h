/* SPDX-License-Identifier: Apache-2.0 */
/* devices.h: the device that a program of this folder is linked with. */
#ifndef GSC_TESTS_SEQUENCES_DEVICES_H
#define GSC_TESTS_SEQUENCES_DEVICES_H

#include "../subject.h"

subject_place device_place(void);

#endif
