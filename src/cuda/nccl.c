/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c: ranks over NCCL, which is found at its first use. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "cuda/context.h"
#include "gradscaler/cuda.h"

/* What this file needs of NCCL 2: facts of its interface. */
typedef struct nccl_functions {
    int (*all_reduce)(const void *send, void *receive, size_t count, int type, int operation, struct ncclComm *comm,
                      struct CUstream_st *stream);
    int (*comm_get_async_error)(struct ncclComm *comm, int *result);
    const char *(*get_error_string)(int result);
} nccl_functions;

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_UINT64 = 5, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8 };
enum { NCCL_SUM = 0, NCCL_MAX = 2 };

static struct {
    pthread_mutex_t lock;
    bool loaded;
    nccl_functions functions;
} nccl = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What gsc_comm.self points to. */
typedef struct rank {
    nccl_functions nccl;
    struct ncclComm *comm;
    CUstream stream; /* NULL: the scaler's */
    /* Made by the first collective, which knows the device. */
    gsc__cuda_context *context;
    CUevent ready, reduced;
} rank;

/* POSIX wants pointers to functions to be copied out of dlsym's void * like this. */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(void *library, nccl_functions *functions)
{
    return find(library, "ncclAllReduce", &functions->all_reduce) &&
           find(library, "ncclCommGetAsyncError", &functions->comm_get_async_error) &&
           find(library, "ncclGetErrorString", &functions->get_error_string);
}

/* The program's own NCCL comes first: its communicator belongs to that copy. */
static gsc_status load(nccl_functions *functions, const char *api)
{
    if (find_all(dlopen(NULL, RTLD_LAZY), functions))
        return GSC_OK;
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s: NCCL cannot be loaded: %s; install NCCL 2 (Debian, Ubuntu: libnccl2; Python: "
                        "nvidia-nccl-cu13) and put its folder into LD_LIBRARY_PATH",
                        api, dlerror());
    if (find_all(library, functions))
        return GSC_OK;
    dlclose(library);
    return gsc_fail(GSC_ERR_DEVICE, "%s: libnccl.so.2 lacks ncclCommGetAsyncError or others; install NCCL 2.4 or newer",
                    api);
}

/* A library that was not there is looked for again. */
static gsc_status get_functions(nccl_functions *functions, const char *api)
{
    pthread_mutex_lock(&nccl.lock);
    gsc_status status = nccl.loaded ? GSC_OK : load(&nccl.functions, api);
    nccl.loaded = status == GSC_OK;
    *functions = nccl.functions;
    pthread_mutex_unlock(&nccl.lock);
    return status;
}

static gsc_status make_events(rank *self)
{
    if (self->stream && !self->ready)
        GSC_CUDA_TRY("make an event", cuEventCreate, &self->ready, CU_EVENT_DISABLE_TIMING);
    if (self->stream && !self->reduced)
        GSC_CUDA_TRY("make an event", cuEventCreate, &self->reduced, CU_EVENT_DISABLE_TIMING);
    return GSC_OK;
}

/* What follows on `after` waits for what is on `before` now. */
static gsc_status order(CUevent event, CUstream before, CUstream after)
{
    GSC_CUDA_TRY("mark a point of the stream", cuEventRecord, event, before);
    GSC_CUDA_TRY("wait for another stream", cuStreamWaitEvent, after, event, 0);
    return GSC_OK;
}

/* With a communicator that does not block, NCCL may still be enqueueing. */
static int wait_until_enqueued(const rank *self, int result)
{
    while (result == NCCL_IN_PROGRESS) {
        sched_yield();
        int failure = self->nccl.comm_get_async_error(self->comm, &result);
        if (failure != NCCL_SUCCESS)
            return failure;
    }
    return result;
}

static gsc_status enqueue(rank *self, const DLTensor *values, int type, int operation, CUstream stream)
{
    void *data = (char *)values->data + values->byte_offset;
    int result = self->nccl.all_reduce(data, data, (size_t)values->shape[0], type, operation, self->comm, stream);
    result = wait_until_enqueued(self, result);
    if (result != NCCL_SUCCESS)
        return gsc_fail(GSC_ERR_COMM, "NCCL: ncclAllReduce returned %d: %s", result,
                        self->nccl.get_error_string(result));
    return GSC_OK;
}

/* The context is current. */
static gsc_status reduce_in_context(rank *self, const DLTensor *values, int type, int operation, CUstream scalers)
{
    GSC_TRY(make_events(self));
    if (!self->stream || self->stream == scalers)
        return enqueue(self, values, type, operation, scalers);
    GSC_TRY(order(self->ready, scalers, self->stream));
    gsc_status status = enqueue(self, values, type, operation, self->stream);
    /* Also after a failure, so that a capture that has forked into the other stream is joined again. */
    gsc_status joined = order(self->reduced, self->stream, scalers);
    return status != GSC_OK ? status : joined;
}

static gsc_status reduce(rank *self, const DLTensor *values, int type, int operation, CUstream stream)
{
    const char *api = "a collective of gsc_nccl_comm";
    if (values->device.device_type != kDLCUDA)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s works on CUDA devices: give the scaler options.device {kDLCUDA, index} and "
                        "gsc_cuda_backend()",
                        api);
    if (!self->context)
        GSC_TRY(gsc__cuda_open(api, values->device.device_id, &self->context));
    GSC_TRY(gsc__cuda_enter(self->context));
    gsc_status status = reduce_in_context(self, values, type, operation, stream);
    gsc__cuda_leave();
    return status;
}

/* NCCL's maximum of float32 values may drop a NaN. Where a scaler can meet one, in a norm of shards with p = infinity,
 * it calls allreduce_max64; only if that were NULL it would come here. */
static int allreduce_max(void *self, DLTensor *values, void *stream)
{
    return (int)reduce(self, values, NCCL_FLOAT32, NCCL_MAX, stream);
}

static int allreduce_sum(void *self, DLTensor *values, void *stream)
{
    return (int)reduce(self, values, NCCL_FLOAT64, NCCL_SUM, stream);
}

/* The values are magnitudes, so as integers they have the order of their bits, in which infinity is above every number
 * and a NaN above infinity. */
static int allreduce_max64(void *self, DLTensor *values, void *stream)
{
    return (int)reduce(self, values, NCCL_UINT64, NCCL_MAX, stream);
}

static gsc_comm make_comm(struct ncclComm *comm, struct CUstream_st *stream, bool sharded, const char *api)
{
    const gsc_comm none = {.self = NULL};
    nccl_functions functions;
    if (!comm) {
        gsc_fail(GSC_ERR_VALUE, "%s: comm is NULL; give the communicator that ncclCommInitRank has made", api);
        return none;
    }
    if (gsc__cuda_driver_load(api) != GSC_OK || get_functions(&functions, api) != GSC_OK)
        return none;
    rank *self = calloc(1, sizeof *self);
    if (!self) {
        gsc_fail(GSC_ERR_MEMORY, "%s: no memory", api);
        return none;
    }
    self->nccl = functions;
    self->comm = comm;
    self->stream = stream;
    return (gsc_comm){.self = self,
                      .allreduce_max = allreduce_max,
                      .allreduce_sum = sharded ? allreduce_sum : NULL,
                      .allreduce_max64 = sharded ? allreduce_max64 : NULL};
}

gsc_comm gsc_nccl_comm(struct ncclComm *comm, struct CUstream_st *stream)
{
    return make_comm(comm, stream, false, "gsc_nccl_comm");
}

gsc_comm gsc_nccl_comm_sharded(struct ncclComm *comm, struct CUstream_st *stream)
{
    return make_comm(comm, stream, true, "gsc_nccl_comm_sharded");
}

void gsc_nccl_comm_free(gsc_comm *comm)
{
    rank *self = comm ? comm->self : NULL;
    if (!self)
        return;
    /* Failures are those of a context that is gone, with its events. */
    if (self->context && gsc__cuda_enter(self->context) == GSC_OK) {
        if (self->ready)
            (void)gsc__cuda()->cuEventDestroy_v2(self->ready);
        if (self->reduced)
            (void)gsc__cuda()->cuEventDestroy_v2(self->reduced);
        gsc__cuda_leave();
    }
    gsc__cuda_close(self->context);
    free(self);
    *comm = (gsc_comm){.self = NULL};
}
