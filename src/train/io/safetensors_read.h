/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_read.h: reading a file that is mapped already, as a checkpoint does after it verified the checksum. */
#ifndef GSC_TRAIN_IO_SAFETENSORS_READ_H
#define GSC_TRAIN_IO_SAFETENSORS_READ_H

#include "gradscaler/safetensors.h"
#include "train/io/files.h"

/* As gsc_safetensors_open. Takes the mapping over, also on failure, and zeroes *mapping. */
gsc_status gsc__safetensors_open_mapping(const char *path, gsc__mapping *mapping, gsc_safetensors **out);

#endif
