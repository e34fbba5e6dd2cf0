/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the installed core. */
#include <gradscaler/gradscaler.h>
#include <string.h>

int main(void)
{
    gsc_scaler *scaler = NULL;
    if (gsc_scaler_create(NULL, &scaler) != GSC_OK || gsc_scaler_get_scale(scaler) != 65536.0)
        return 1;
    gsc_scaler_destroy(scaler);
    return strcmp(gsc_version(), GSC_VERSION_STRING) != 0;
}
