/* SPDX-License-Identifier: Apache-2.0 */
/* data_source.c: where Fashion-MNIST is looked for, and the task that a folder of images makes. */
#define _POSIX_C_SOURCE 200809L /* stat */
#include "train/data_source.h"
#include "base/try.h"
#include "common/message.h"
#include "train/synthetic.h"

#include "gradscaler/ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FASHION_MNIST "fashion-mnist"
#define FOLDER_VARIABLE "GRADSCALER_DATA"
#define DEFAULT_FOLDER "/usr/share/datasets" /* Debian's package dataset-fashion-mnist */
#define CLASSES 10
#define IDX_FILES                                                                                                      \
    "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, or these "   \
    "with .gz"

static bool find_fashion_mnist(data_source *out)
{
    const char *base = getenv(FOLDER_VARIABLE);
    if (!base || *base == '\0')
        base = DEFAULT_FOLDER;
    int length = snprintf(out->installed, sizeof out->installed, "%s/" FASHION_MNIST, base);
    if (length < 0 || (size_t)length >= sizeof out->installed)
        return false;
    out->name = FASHION_MNIST;
    out->folder = out->installed;
    return path_exists(out->folder, "train-images-idx3-ubyte.gz") ||
           path_exists(out->folder, "train-images-idx3-ubyte");
}

static const char advice[] = "install Debian's package dataset-fashion-mnist, set " FOLDER_VARIABLE
                             " to the folder that holds " FASHION_MNIST "/, or give --data DIR";

bool data_source_find(const char *data, data_source *out)
{
    bool is_default = data == NULL;
    if (is_default || strcmp(data, FASHION_MNIST) == 0) {
        if (find_fashion_mnist(out))
            return true;
        if (!is_default) {
            say("--data " FASHION_MNIST ": not found in %s; %s", out->installed, advice);
            return false;
        }
        say("Fashion-MNIST was not found in %s, so the built-in synthetic data are used; %s", out->installed, advice);
    }
    if (is_default || strcmp(data, "synthetic") == 0) {
        out->name = "synthetic";
        out->folder = NULL;
        return true;
    }
    out->name = out->folder = data;
    struct stat about;
    const bool exists = stat(data, &about) == 0;
    if (exists && S_ISDIR(about.st_mode))
        return true;
    say("--data '%s': %s; give " FASHION_MNIST ", synthetic, or a folder with four IDX files: " IDX_FILES, data,
        exists ? "is not a folder, and single files (CSV, images, ...) are not read" : strerror(errno));
    return false;
}

static gsc_status load_images(const data_source *source, train_task *out)
{
    out->unit = "images";
    out->rate_unit = "img/s";
    out->loss = gsc_cross_entropy_loss;
    out->has_accuracy = true;
    out->loss_factor = 1;
    GSC_TRY(gsc_dataset_mnist(source->folder, "train", CLASSES, &out->train));
    GSC_TRY(gsc_dataset_mnist(source->folder, "t10k", CLASSES, &out->test));
    int64_t features = gsc_dataset_features(out->train);
    if (gsc_dataset_features(out->test) != features)
        return fail_with(GSC_ERR_VALUE, "%s: test images have %lld pixels, training images %lld; both must be the same",
                         source->folder, (long long)gsc_dataset_features(out->test), (long long)features);
    const int64_t sizes[] = {features, 512, 256, CLASSES};
    out->layers = sizeof sizes / sizeof *sizes;
    memcpy(out->sizes, sizes, sizeof sizes);
    return GSC_OK;
}

gsc_status data_source_load(const data_source *source, train_task *out)
{
    *out = (train_task){.data = source->name};
    return source->folder ? load_images(source, out) : synthetic_load(out);
}
