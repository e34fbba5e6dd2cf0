/* SPDX-License-Identifier: Apache-2.0 */
/* task.c: the loss of a batch. */
#include "train/task.h"

void task_release(train_task *task)
{
    gsc_dataset_free(task->train);
    gsc_dataset_free(task->test);
}

gsc_tensor *task_loss(const train_task *task, gsc_module *model, gsc_tape *tape, const DLTensor *x, const DLTensor *y,
                      gsc_tensor **outputs)
{
    *outputs = gsc_module_forward(model, gsc_tape_input(tape, x));
    gsc_tensor *targets = *outputs ? gsc_tape_input(tape, y) : NULL;
    return task->loss(*outputs, targets);
}

gsc_tensor *task_multiply_loss(const train_task *task, gsc_tape *tape, gsc_tensor *loss)
{
    if (task->loss_factor == 1)
        return loss;
    float factor = (float)task->loss_factor;
    const DLTensor value = {.data = &factor, .device = {kDLCPU, 0}, .dtype = GSC_FLOAT32};
    return gsc_mul(loss, loss ? gsc_tape_input(tape, &value) : NULL);
}
