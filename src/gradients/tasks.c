/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.c: enough tasks for all threads, none of them too short. */
#include "gradients/tasks.h"

#include "base/parallel.h"

enum {
    MOST_TASKS = 256,
    TASKS_PER_THREAD = 8, /* so that no thread waits long for the last task … */
    LONG_TASK = 1 << 20   /* … as long as tasks have this many elements: long tasks read memory faster */
};

size_t gsc__task_split(size_t elements, size_t *elements_per_task)
{
    *elements_per_task = elements;
    if (elements < GSC_PARALLEL_MIN)
        return 1;
    size_t threads = (size_t)gsc__parallel_threads(), tasks = elements / GSC_TASK_MIN;
    size_t most = threads * TASKS_PER_THREAD, long_tasks = elements / LONG_TASK;
    most = long_tasks < most ? long_tasks : most;
    most = most < threads ? threads : most;
    most = most < MOST_TASKS ? most : MOST_TASKS;
    tasks = threads == 1 ? 1 : tasks > most ? most : tasks;
    *elements_per_task = gsc__parts(elements, tasks);
    return tasks;
}

size_t gsc__task_split_quick(size_t elements, size_t *elements_per_task)
{
    if (elements >= GSC_ASLEEP_MIN || gsc__parallel_awake())
        return gsc__task_split(elements, elements_per_task);
    *elements_per_task = elements;
    return 1;
}
