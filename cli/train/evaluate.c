/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c: sums loss and correct answers over the batches of a data set. */
#include "train/evaluate.h"
#include "base/try.h"
#include "common/interrupt.h"

#include "gradscaler/train.h"

#include <math.h>

#define BATCH 500

static size_t count_correct(const DLTensor *outputs, const DLTensor *labels)
{
    const float *row = outputs->data;
    const int64_t *label = labels->data;
    const int64_t classes = outputs->shape[1];
    size_t correct = 0;
    for (int64_t i = 0; i < outputs->shape[0]; i++, row += classes) {
        int64_t best = 0;
        for (int64_t k = 1; k < classes; k++)
            best = row[k] > row[best] ? k : best;
        correct += best == label[i];
    }
    return correct;
}

/* Adds one batch of n examples to the sums. */
static gsc_status evaluate_batch(const train_task *task, gsc_module *model, gsc_tape *tape, const DLTensor *x,
                                 const DLTensor *y, size_t n, double *loss_sum, size_t *correct)
{
    gsc_tensor *outputs;
    gsc_tape_clear(tape);
    gsc_tensor *loss = task_loss(task, model, tape, x, y, &outputs);
    if (!loss)
        return GSC_ERR_VALUE; /* with the message of the op that failed */
    *loss_sum += gsc_tensor_item(loss) * (double)n;
    if (!task->has_accuracy)
        return GSC_OK;
    gsc_tensor *values = gsc_cast(outputs, GSC_FLOAT32);
    if (!values)
        return GSC_ERR_MEMORY;
    *correct += count_correct(gsc_tensor_data(values), y);
    return GSC_OK;
}

gsc_status evaluate(const train_task *task, gsc_module *model, gsc_tape *tape, const gsc_dataset *dataset,
                    evaluation *out)
{
    gsc_loader *loader;
    GSC_TRY(gsc_loader_create(dataset, BATCH, false, 0, &loader));
    gsc_status status = GSC_OK;
    double loss_sum = 0;
    const size_t count = gsc_dataset_count(dataset);
    size_t done = 0, correct = 0, n;
    const DLTensor *x, *y;
    while (status == GSC_OK && interrupt_signal() == 0 && (n = gsc_loader_next(loader, &x, &y)) > 0) {
        status = evaluate_batch(task, model, tape, x, y, n, &loss_sum, &correct);
        done += n;
    }
    gsc_loader_free(loader);
    *out = (evaluation){.loss = (double)NAN, .accuracy = (double)NAN};
    if (status != GSC_OK || done < count)
        return status;
    out->loss = loss_sum / (double)count;
    if (task->has_accuracy)
        out->accuracy = (double)correct / (double)count;
    return GSC_OK;
}
