/* SPDX-License-Identifier: Apache-2.0 */
/* dnnl.c: matrix products through oneDNN. */
#define _POSIX_C_SOURCE 200809L /* sigset_t of guard.h */
#include "train/dnnl/dnnl.h"

#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "train/dnnl/faults.h"
#include "train/dnnl/guard.h"

/* Operands: A, B, bias, C, and oneDNN's own scratch memory. */
enum { SRC, WEIGHTS, BIAS, DST, SCRATCHPAD, ARGS };
static const int arg_ids[ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};

struct gsc__dnnl_matmul {
    gsc__gemm gemm;
    uint64_t used;              /* the clock at its last use */
    dnnl_primitive_t primitive; /* NULL: oneDNN has none for this dtype here */
    size_t scratch_bytes;
    bool usable;
};

static gsc_status fail(const char *what, dnnl_status_t status)
{
    return gsc_fail(status == dnnl_out_of_memory ? GSC_ERR_MEMORY : GSC_ERR_UNSUPPORTED,
                    "oneDNN %d.%d: %s failed with dnnl_status_t %d", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, what,
                    (int)status);
}

/* Versions 2 and 3 differ in two places. A memory descriptor is a struct in 2 and an opaque object in 3. A primitive
 * descriptor is made from an operation descriptor in 2 and directly in 3. */
#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t memory_desc;
typedef const_dnnl_memory_desc_t memory_desc_ref;

static dnnl_status_t make_desc(memory_desc *desc, int ndim, const dnnl_dim_t *sizes, dnnl_data_type_t type,
                               const dnnl_dim_t *strides)
{
    return dnnl_memory_desc_create_with_strides(desc, ndim, sizes, type, strides);
}

static void free_desc(memory_desc *desc) { dnnl_memory_desc_destroy(*desc); }

static dnnl_status_t make_matmul_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const memory_desc desc[ARGS],
                                      bool has_bias, dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(out, engine, desc[SRC], desc[WEIGHTS], has_bias ? desc[BIAS] : NULL,
                                             desc[DST], attr);
}

#else

typedef dnnl_memory_desc_t memory_desc;
typedef const dnnl_memory_desc_t *memory_desc_ref;

static dnnl_status_t make_desc(memory_desc *desc, int ndim, const dnnl_dim_t *sizes, dnnl_data_type_t type,
                               const dnnl_dim_t *strides)
{
    return dnnl_memory_desc_init_by_strides(desc, ndim, sizes, type, strides);
}

static void free_desc(memory_desc *desc) { (void)desc; }

static dnnl_status_t make_matmul_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const memory_desc desc[ARGS],
                                      bool has_bias, dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status =
        dnnl_matmul_desc_init(&matmul, &desc[SRC], &desc[WEIGHTS], has_bias ? &desc[BIAS] : NULL, &desc[DST]);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL) : status;
}

#endif

gsc_status gsc__dnnl_init(gsc__dnnl *dnnl)
{
    dnnl_engine_t engine = NULL;
    gsc__dnnl_matmul *matmuls = calloc(GSC_DNNL_MATMULS, sizeof *matmuls);
    if (!matmuls)
        return gsc_fail(GSC_ERR_MEMORY, "no memory for %d matrix products of oneDNN", (int)GSC_DNNL_MATMULS);
    gsc__dnnl_guard guard = gsc__dnnl_enter();
    dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    gsc__dnnl_leave(guard);
    if (status != dnnl_success) {
        free(matmuls);
        return fail("creating a CPU engine", status);
    }
    *dnnl = (gsc__dnnl){.engine = engine, .matmuls = matmuls};
    return GSC_OK;
}

static void free_matmul(gsc__dnnl_matmul *matmul)
{
    dnnl_primitive_destroy(matmul->primitive);
    *matmul = (gsc__dnnl_matmul){.primitive = NULL};
}

void gsc__dnnl_free(gsc__dnnl *dnnl)
{
    gsc__dnnl_guard guard = gsc__dnnl_enter();
    for (int i = 0; i < dnnl->count; i++)
        free_matmul(&dnnl->matmuls[i]);
    dnnl_engine_destroy(dnnl->engine);
    gsc__dnnl_leave(guard);
    free(dnnl->matmuls);
}

static dnnl_status_t make_operand_descs(const gsc__gemm *g, memory_desc desc[ARGS], int *made)
{
    dnnl_data_type_t type = g->kind == GSC_F32 ? dnnl_f32 : g->kind == GSC_BF16 ? dnnl_bf16 : dnnl_f16;
    const struct {
        dnnl_dims_t sizes, strides;
    } operands[SCRATCHPAD] = {
        [SRC] = {{g->m, g->k}, {g->transpose_a ? 1 : g->lda, g->transpose_a ? g->lda : 1}},
        [WEIGHTS] = {{g->k, g->n}, {g->transpose_b ? 1 : g->ldb, g->transpose_b ? g->ldb : 1}},
        [BIAS] = {{1, g->n}, {g->n, 1}},
        [DST] = {{g->m, g->n}, {g->ldc, 1}},
    };
    dnnl_status_t status = dnnl_success;
    for (*made = 0; *made < SCRATCHPAD && status == dnnl_success; *made += status == dnnl_success)
        status = make_desc(&desc[*made], 2, operands[*made].sizes, type, operands[*made].strides);
    return status;
}

static bool is_usable(const gsc__gemm *gemm, const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    const dnnl_version_t *version = dnnl_version();
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name &&
           gsc__dnnl_is_fast(gemm->kind, name, (unsigned)dnnl_get_effective_cpu_isa()) &&
           gsc__dnnl_is_right(gemm->k, name, version->major, version->minor);
}

static dnnl_status_t make_primitive(gsc__dnnl_matmul *matmul, dnnl_engine_t engine, const memory_desc desc[ARGS],
                                    const_dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status = make_matmul_desc(&pd, engine, desc, matmul->gemm.has_bias, (dnnl_primitive_attr_t)attr);
    if (status == dnnl_unimplemented)
        return dnnl_success; /* the primitive stays NULL */
    if (status == dnnl_success)
        status = dnnl_primitive_create(&matmul->primitive, pd);
    if (status == dnnl_success) {
        memory_desc_ref scratchpad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        matmul->scratch_bytes = scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
        matmul->usable = is_usable(&matmul->gemm, pd);
    }
    dnnl_primitive_desc_destroy(pd);
    return status;
}

static gsc_status make_matmul(gsc__dnnl_matmul *matmul, const gsc__gemm *gemm, dnnl_engine_t engine)
{
    *matmul = (gsc__dnnl_matmul){.gemm = *gemm};
    memory_desc desc[ARGS];
    int made = 0;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = make_operand_descs(gemm, desc, &made);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_create(&attr);
    /* With scratch memory from the caller the primitive keeps no state, so several threads may run it. */
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = make_primitive(matmul, engine, desc, attr);
    dnnl_primitive_attr_destroy(attr);
    for (int i = 0; i < made; i++)
        free_desc(&desc[i]);
    if (status == dnnl_success)
        return GSC_OK;
    free_matmul(matmul);
    return fail("creating a matrix product", status);
}

static bool equal(const gsc__gemm *a, const gsc__gemm *b)
{
    return a->kind == b->kind && a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
           a->has_bias == b->has_bias && a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda &&
           a->ldb == b->ldb && a->ldc == b->ldc;
}

/* A free entry, or the least recently used one. */
static gsc__dnnl_matmul *make_room(gsc__dnnl *dnnl)
{
    if (dnnl->count < GSC_DNNL_MATMULS)
        return &dnnl->matmuls[dnnl->count++];
    gsc__dnnl_matmul *oldest = &dnnl->matmuls[0];
    for (int i = 1; i < dnnl->count; i++)
        if (dnnl->matmuls[i].used < oldest->used)
            oldest = &dnnl->matmuls[i];
    free_matmul(oldest);
    return oldest;
}

const gsc__dnnl_matmul *gsc__dnnl_find(gsc__dnnl *dnnl, const gsc__gemm *gemm)
{
    dnnl->clock++;
    for (int i = 0; i < dnnl->count; i++) {
        gsc__dnnl_matmul *matmul = &dnnl->matmuls[i];
        if (matmul->used > 0 && equal(&matmul->gemm, gemm)) {
            matmul->used = dnnl->clock;
            return matmul;
        }
    }
    gsc__dnnl_guard guard = gsc__dnnl_enter();
    gsc__dnnl_matmul *matmul = make_room(dnnl);
    gsc_status status = make_matmul(matmul, gemm, dnnl->engine);
    gsc__dnnl_leave(guard);
    if (status != GSC_OK)
        return NULL; /* the entry stays empty: used is 0 */
    matmul->used = dnnl->clock;
    return matmul;
}

bool gsc__dnnl_is_usable(const gsc__dnnl_matmul *matmul) { return matmul->usable; }

size_t gsc__dnnl_scratch_bytes(const gsc__dnnl_matmul *matmul) { return matmul->scratch_bytes; }

static dnnl_status_t execute(const gsc__dnnl *dnnl, const gsc__dnnl_matmul *matmul, void *const handles[ARGS])
{
    dnnl_exec_arg_t args[ARGS];
    int count = 0;
    dnnl_stream_t stream = NULL;
    const_dnnl_primitive_desc_t pd;
    dnnl_status_t status = dnnl_primitive_get_primitive_desc(matmul->primitive, &pd);
    for (int i = 0; i < ARGS && status == dnnl_success; i++) {
        memory_desc_ref desc = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg_ids[i]);
        if (!desc || dnnl_memory_desc_get_size(desc) == 0)
            continue;
        args[count].arg = arg_ids[i];
        status = dnnl_memory_create(&args[count].memory, desc, dnnl->engine, handles[i]);
        count += status == dnnl_success;
    }
    if (status == dnnl_success)
        status = dnnl_stream_create(&stream, dnnl->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = dnnl_primitive_execute(matmul->primitive, stream, count, args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(stream);
    dnnl_stream_destroy(stream);
    for (int i = 0; i < count; i++)
        dnnl_memory_destroy(args[i].memory);
    return status;
}

gsc_status gsc__dnnl_run(const gsc__dnnl *dnnl, const gsc__dnnl_matmul *matmul, const void *a, const void *b,
                         const void *bias, void *c, void *scratch)
{
    if (!matmul->primitive)
        return fail("finding a matrix product for this processor", dnnl_unimplemented);
    /* oneDNN takes inputs by plain pointers and does not write to them. */
    void *handles[ARGS] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, (void *)(uintptr_t)bias, c, scratch};
    gsc__dnnl_guard guard = gsc__dnnl_enter();
    dnnl_status_t status = execute(dnnl, matmul, handles);
    gsc__dnnl_leave(guard);
    return status == dnnl_success ? GSC_OK : fail("a matrix product", status);
}
