/* SPDX-License-Identifier: Apache-2.0 */
/* exchange IN OUT...: reads each file IN and writes its content to OUT; for compare.py. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gradscaler/safetensors.h"

static gsc_status write_all(const gsc_safetensors *file, const char *path)
{
    const size_t n = gsc_safetensors_count(file), m = gsc_safetensors_metadata_count(file);
    gsc_named_tensor *tensors = calloc(n + 1, sizeof *tensors);
    gsc_metadata *metadata = calloc(m + 1, sizeof *metadata);
    gsc_status status = GSC_ERR_MEMORY;
    if (tensors && metadata) {
        for (size_t i = 0; i < n; i++) /* writing only reads them */
            tensors[i] = (gsc_named_tensor){gsc_safetensors_name(file, i),
                                            (DLTensor *)(uintptr_t)gsc_safetensors_tensor(file, i)};
        for (size_t i = 0; i < m; i++)
            metadata[i] = gsc_safetensors_metadata(file, i);
        status = gsc_safetensors_write(path, tensors, n, metadata, m);
    }
    free(tensors);
    free(metadata);
    return status;
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        gsc_safetensors *file = NULL;
        gsc_status status = gsc_safetensors_open(argv[i], &file);
        if (status == GSC_OK)
            status = write_all(file, argv[i + 1]);
        gsc_safetensors_close(file);
        if (status != GSC_OK) {
            fprintf(stderr, "%s: %s: %s\n", argv[i], gsc_status_name(status), gsc_last_error());
            return 1;
        }
    }
    return 0;
}
