/* SPDX-License-Identifier: Apache-2.0 */
/* walk_place.c: random sequences of calls (proof/sequences) on the module and the stand-in. */
#include "devices.h"
#include "gradscaler/cuda.h"
#include "standin/standin.h"

enum { MOST = 64 };
static void *memory[MOST];
static int count;

static void begin(void)
{
    static uint64_t seed;
    while (count > 0)
        standin_free(memory[--count]);
    standin_seed(++seed);
    standin_set_early((int)(seed % 3) * 20);
}

static void *alloc(size_t bytes) { return memory[count++] = standin_alloc(0, bytes); }

static void write_device(void *to, const void *from, size_t bytes)
{
    standin_run_all();
    standin_upload(to, from, bytes);
}

static void read_device(void *to, const void *from, size_t bytes)
{
    standin_run_all();
    standin_download(to, from, bytes);
}

subject_place device_place(void)
{
    return (subject_place){.device = {kDLCUDA, 0},
                           .backend = gsc_cuda_backend(),
                           .begin = begin,
                           .alloc = alloc,
                           .write = write_device,
                           .read = read_device};
}
