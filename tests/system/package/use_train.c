/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the installed train layer. */
#include <gradscaler/train.h>
#include <stddef.h>

int main(void)
{
    const int64_t sizes[] = {3, 2};
    gsc_random random = gsc_random_init(0, 0);
    gsc_module *model = NULL;
    if (gsc_module_mlp(sizes, 2, GSC_ACTIVATION_RELU, &random, &model) != GSC_OK)
        return 1;
    size_t params = gsc_module_param_count(model);
    gsc_module_free(model);
    return params != 2;
}
