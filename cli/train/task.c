/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* access */
#include "train/task.h"
#include "common/message.h"
#include "train/synthetic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FASHION_MNIST "fashion-mnist"
#define FOLDER_VARIABLE "GRADSCALER_DATA"
#define DEFAULT_FOLDER "/usr/share/datasets" /* Debian's package dataset-fashion-mnist */
#define CLASSES 10

static bool holds(const char *folder, const char *file)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return access(path, F_OK) == 0;
}

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
    return holds(out->folder, "train-images-idx3-ubyte.gz") || holds(out->folder, "train-images-idx3-ubyte");
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
    if (access(data, F_OK) == 0)
        return true;
    say("--data '%s': %s; give " FASHION_MNIST ", synthetic or a folder with MNIST's four files", data,
        strerror(errno));
    return false;
}

static gsc_status load_images(const data_source *source, train_task *out)
{
    out->unit = "images";
    out->rate_unit = "img/s";
    out->loss_factor = 1;
    gsc_status status = gsc_dataset_mnist(source->folder, "train", CLASSES, &out->train);
    if (status == GSC_OK)
        status = gsc_dataset_mnist(source->folder, "t10k", CLASSES, &out->test);
    if (status != GSC_OK)
        return status;
    int64_t features = gsc_dataset_features(out->train);
    if (gsc_dataset_features(out->test) != features)
        return gsc_fail(GSC_ERR_VALUE, "%s: test images have %lld pixels, training images %lld; both must be the same",
                        source->folder, (long long)gsc_dataset_features(out->test), (long long)features);
    const int64_t sizes[] = {features, 512, 256, CLASSES};
    out->layers = sizeof sizes / sizeof *sizes;
    memcpy(out->sizes, sizes, sizeof sizes);
    return GSC_OK;
}

gsc_status task_load(const data_source *source, train_task *out)
{
    *out = (train_task){.data = source->name};
    return source->folder ? load_images(source, out) : synthetic_load(out);
}

void task_release(train_task *task)
{
    gsc_dataset_free(task->train);
    gsc_dataset_free(task->test);
}

gsc_tensor *task_loss(const train_task *task, gsc_module *model, gsc_tape *tape, const DLTensor *x, const DLTensor *y,
                      gsc_tensor **logits)
{
    *logits = gsc_module_forward(model, gsc_tape_input(tape, x));
    gsc_tensor *target = *logits ? gsc_tape_input(tape, y) : NULL;
    return task->test ? gsc_cross_entropy_loss(*logits, target) : gsc_mse_loss(*logits, target);
}

gsc_tensor *task_weigh(const train_task *task, gsc_tape *tape, gsc_tensor *loss)
{
    if (task->loss_factor == 1)
        return loss;
    float factor = (float)task->loss_factor;
    const DLTensor value = {.data = &factor, .device = {kDLCPU, 0}, .dtype = GSC_FLOAT32};
    return gsc_mul(loss, loss ? gsc_tape_input(tape, &value) : NULL);
}
