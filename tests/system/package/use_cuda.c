/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the installed CUDA module, which starts on a machine without a GPU, too. */
#include <gradscaler/cuda.h>
#include <gradscaler/gradscaler.h>
#include <string.h>

int main(void)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = (DLDevice){kDLCUDA, 0};
    options.backend = gsc_cuda_backend();
    gsc_scaler *scaler = NULL;
    gsc_status status = gsc_scaler_create(&options, &scaler);
    gsc_scaler_destroy(scaler);
    return status != GSC_OK && (status != GSC_ERR_DEVICE || !strstr(gsc_last_error(), "CUDA"));
}
