/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU where there is one, else the CPU: a program that links the CUDA module starts on any machine. */
#include <gradscaler/cuda.h>
#include <gradscaler/gradscaler.h>

#include "example.h"

/* A scaler on the first GPU; where that cannot be, says why and gives one on the CPU. */
static gsc_scaler *create_scaler(void)
{
    gsc_scaler *scaler;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = (DLDevice){kDLCUDA, 0};
    options.backend = gsc_cuda_backend();
    gsc_status status = gsc_scaler_create(&options, &scaler);
    if (status == GSC_OK) {
        printf("on the GPU\n");
        return scaler;
    }
    expect(status == GSC_ERR_DEVICE, "nothing but the device is wrong");
    printf("%s: %s\non the CPU\n", gsc_status_name(status), gsc_last_error());
    must(gsc_scaler_create(NULL, &scaler));
    return scaler;
}

int main(void)
{
    gsc_scaler *scaler = create_scaler();
    printf("scale %g\n", gsc_scaler_get_scale(scaler));
    expect(gsc_scaler_get_scale(scaler) == 65536, "the scale is the same anywhere");
    gsc_scaler_destroy(scaler);
    return EXIT_SUCCESS;
}
