/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: modules, functions, launches. A module holds every kernel that was added, whatever its image is; but the
 * image must be one: a fatbin, an ELF file, PTX, or "stand-in" where tests have nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "context.h"
#include "standin.h"

enum {
    MAX_LISTS = 32,
    REGISTERS = 32,
    ARGS_LIMIT = 4096,
    MAX_GRID_X = 2147483647,
    MAX_GRID_YZ = 65535,
    MAX_BLOCK_Z = 64
};

static struct {
    const standin_kernel *kernels;
    size_t count;
} lists[MAX_LISTS];
static size_t list_count;

void standin_add_kernels(const standin_kernel *kernels, size_t count, char *shared_begin, char *shared_end)
{
    call_lock();
    if (list_count == MAX_LISTS)
        abort();
    lists[list_count].kernels = kernels;
    lists[list_count++].count = count;
    if (shared_begin != shared_end)
        grid_add_shared(shared_begin, shared_end);
    call_unlock();
}

static bool is_image(const void *image)
{
    static const unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba}, elf[] = {0x7f, 'E', 'L', 'F'};
    return memcmp(image, fatbin, sizeof fatbin) == 0 || memcmp(image, elf, sizeof elf) == 0 ||
           strncmp(image, "stand-in", 8) == 0 || strncmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0;
}

static CUresult load(CUmodule *out, const void *image)
{
    CUcontext context;
    TRY(context_current(&context));
    TRY(capture_check_unsafe());
    if (out == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_image(image))
        return CUDA_ERROR_INVALID_IMAGE;
    CUmodule m = calloc(1, sizeof *m);
    if (m == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->context = context;
    m->next = context->modules;
    context->modules = m;
    *out = m;
    return CUDA_SUCCESS;
}

static CUresult module_find(CUmodule handle)
{
    CUcontext context;
    TRY(context_current(&context));
    for (int device = 0; (context = context_of_device(device)) != NULL; device++)
        for (CUmodule m = context->modules; m != NULL; m = m->next)
            if (m == handle)
                return context->failure;
    return CUDA_ERROR_INVALID_HANDLE;
}

void module_release(CUmodule module)
{
    for (CUmodule *link = &module->context->modules; *link != NULL; link = &(*link)->next)
        if (*link == module) {
            *link = module->next;
            break;
        }
    for (CUfunction f = module->functions, next; f != NULL; f = next) {
        next = f->next;
        free(f);
    }
    free(module);
}

static CUresult unload(CUmodule module)
{
    TRY(module_find(module));
    TRY(capture_check_unsafe());
    CUresult result = context_wait(module->context);
    module_release(module);
    return result;
}

static const standin_kernel *kernel_named(const char *name)
{
    for (size_t list = 0; list < list_count; list++)
        for (size_t i = 0; i < lists[list].count; i++)
            if (strcmp(lists[list].kernels[i].name, name) == 0)
                return &lists[list].kernels[i];
    return NULL;
}

static CUresult get_function(CUfunction *out, CUmodule module, const char *name)
{
    TRY(module_find(module));
    if (out == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const standin_kernel *kernel = kernel_named(name);
    if (kernel == NULL)
        return CUDA_ERROR_NOT_FOUND;
    for (CUfunction f = module->functions; f != NULL; f = f->next)
        if (f->kernel == kernel) {
            *out = f;
            return CUDA_SUCCESS;
        }
    CUfunction f = calloc(1, sizeof *f);
    if (f == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *f = (struct CUfunc_st){module->functions, module->context, kernel};
    module->functions = f;
    *out = f;
    return CUDA_SUCCESS;
}

static CUresult function_find(CUfunction handle)
{
    CUcontext context;
    TRY(context_current(&context));
    for (int device = 0; (context = context_of_device(device)) != NULL; device++)
        for (CUmodule m = context->modules; m != NULL; m = m->next)
            for (CUfunction f = m->functions; f != NULL; f = f->next)
                if (f == handle)
                    return context->failure;
    return CUDA_ERROR_INVALID_HANDLE;
}

typedef struct dimensions {
    unsigned x, y, z;
} dimensions;

static bool is_launchable(dimensions grid, dimensions block)
{
    return grid.x > 0 && grid.y > 0 && grid.z > 0 && block.x > 0 && block.y > 0 && block.z > 0 &&
           grid.x <= MAX_GRID_X && grid.y <= MAX_GRID_YZ && grid.z <= MAX_GRID_YZ && block.x <= GRID_MAX_THREADS &&
           block.y <= GRID_MAX_THREADS && block.z <= MAX_BLOCK_Z &&
           (uint64_t)block.x * block.y * block.z <= GRID_MAX_THREADS;
}

/* A launch belongs to the context of its function, and so must its stream. */
static CUresult launch(CUfunction function, dimensions grid, dimensions block, unsigned shared, CUstream handle,
                       void **parameters, void **extra)
{
    CUstream stream;
    TRY(function_find(function));
    TRY(stream_find(handle, &stream));
    if (stream->context != function->context)
        return CUDA_ERROR_INVALID_HANDLE;
    const standin_kernel *kernel = function->kernel;
    if (!is_launchable(grid, block) || shared > GRID_MAX_SHARED || kernel->args_size > ARGS_LIMIT || extra != NULL ||
        (kernel->args_size > 0 && (parameters == NULL || parameters[0] == NULL)))
        return CUDA_ERROR_INVALID_VALUE;
    if (grid.y > 1 || grid.z > 1 || block.y > 1 || block.z > 1) {
        complain("kernel %s: grids and blocks of more than one dimension do not exist here", kernel->name);
        return CUDA_ERROR_INVALID_VALUE;
    }
    work w = {.kind = WORK_LAUNCH,
              .context = stream->context,
              .kernel = kernel,
              .blocks = grid.x,
              .threads = block.x,
              .owned = malloc(kernel->args_size + 1),
              .owned_bytes = kernel->args_size};
    if (w.owned == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (kernel->args_size > 0)
        memcpy(w.owned, parameters[0], kernel->args_size);
    call_launches();
    return stream_enqueue(stream, &w);
}

static CUresult function_attribute(int *value, int attribute, CUfunction function)
{
    TRY(function_find(function));
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = GRID_MAX_THREADS; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)grid_static_shared(); return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = REGISTERS; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/* As if only threads limited it: 2048 on a multiprocessor. */
static CUresult occupancy(int *blocks, CUfunction function, int block_size, size_t shared)
{
    TRY(function_find(function));
    if (blocks == NULL || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = block_size > GRID_MAX_THREADS || shared > GRID_MAX_SHARED ? 0 : 2048 / block_size;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) { CALL(cuModuleLoadData, load(module, image)); }
CUresult cuModuleUnload(CUmodule module) { CALL_FREEING(cuModuleUnload, unload(module)); }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CALL(cuModuleGetFunction, get_function(function, module, name));
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra)
{
    CALL(cuLaunchKernel, launch(function, (dimensions){grid_x, grid_y, grid_z}, (dimensions){block_x, block_y, block_z},
                                shared_bytes, stream, parameters, extra));
}
CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    CALL(cuFuncGetAttribute, function_attribute(value, attribute, function));
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                     size_t shared_bytes)
{
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, occupancy(blocks, function, block_size, shared_bytes));
}
