/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c: finds the driver's functions, and says what its failures mean. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/try.h"

enum { LEAST_VERSION = 12000 /* CUDA 12.0, as cuDriverGetVersion counts */ };

#define DRIVER_LIBRARY "libcuda.so.1"
#define ADVICE_CPU "or use a scaler on the CPU (options.device {kDLCPU, 0}, no backend)"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static gsc__cuda_driver functions; /* written under the mutex until `loaded`, then only read */
static bool loaded;

const gsc__cuda_driver *gsc__cuda(void) { return &functions; }

static const char *error_name(CUresult error)
{
    const char *text = NULL;
    if (functions.cuGetErrorName(error, &text) != CUDA_SUCCESS || !text)
        return "an error without a name";
    return text;
}

static const char *error_text(CUresult error)
{
    const char *text = NULL;
    if (functions.cuGetErrorString(error, &text) != CUDA_SUCCESS || !text)
        return "unknown to this driver";
    return text;
}

gsc_status gsc__cuda_check(CUresult result, const char *function, const char *what)
{
    if (result == CUDA_SUCCESS)
        return GSC_OK;
    return gsc_fail(GSC_ERR_DEVICE, "CUDA: could not %s: %s: %s: %s", what, function, error_name(result),
                    error_text(result));
}

gsc_status gsc__cuda_check_allocation(CUresult result, const char *function, const char *what)
{
    gsc_status status = gsc__cuda_check(result, function, what);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? GSC_ERR_MEMORY : status;
}

static gsc_status too_old(const char *api, const char *name)
{
    return gsc_fail(GSC_ERR_DEVICE,
                    "%s: the CUDA driver is too old: " DRIVER_LIBRARY " has no %s; install one for CUDA 12 or "
                    "later, " ADVICE_CPU,
                    api, name);
}

/* A function pointer and the address that dlsym returns have the same bits. */
static bool find(void *library, const char *name, void *function, size_t size)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, size);
    return address != NULL;
}

static gsc_status find_functions(void *library, gsc__cuda_driver *out, const char *api)
{
#define FIND(result, name, parameters)                                                                                 \
    if (!find(library, #name, &out->name, sizeof out->name))                                                           \
        return too_old(api, #name);
    GSC_CUDA_DRIVER_FUNCTIONS(FIND)
#undef FIND
    return GSC_OK;
}

static gsc_status start(const char *api)
{
    CUresult result = functions.cuInit(0);
    if (result != CUDA_SUCCESS)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s: the CUDA driver does not start; see that nvidia-smi lists a GPU (in a container: that "
                        "it was given one), " ADVICE_CPU ": cuInit: %s: %s",
                        api, error_name(result), error_text(result));
    int version = 0;
    GSC_CUDA_TRY("ask for the driver's version", cuDriverGetVersion, &version);
    if (version < LEAST_VERSION)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s: the CUDA driver is too old: it is for CUDA %d.%d; install one for CUDA 12 or "
                        "later, " ADVICE_CPU,
                        api, version / 1000, version % 1000 / 10);
    return GSC_OK;
}

static gsc_status load(const char *api)
{
    void *library = dlopen(DRIVER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s: there is no CUDA driver; install NVIDIA's (in a container: start it with the GPU and its "
                        "driver, such as --gpus all), " ADVICE_CPU ": %s",
                        api, dlerror());
    gsc_status status = find_functions(library, &functions, api);
    if (status == GSC_OK)
        status = start(api);
    if (status != GSC_OK)
        dlclose(library); /* once the driver has started, it stays */
    return status;
}

gsc_status gsc__cuda_driver_load(const char *api)
{
    pthread_mutex_lock(&mutex);
    gsc_status status = loaded ? GSC_OK : load(api);
    loaded = status == GSC_OK;
    pthread_mutex_unlock(&mutex);
    return status;
}
