/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_rig.h: a small run: parameters, an optimizer and a scaler, and its checkpoint. The test defines
 * _XOPEN_SOURCE 700 before its first include. */
#ifndef GSC_TESTS_CHECKPOINT_RIG_H
#define GSC_TESTS_CHECKPOINT_RIG_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "optim_rules.h"

#include "asserts.h"
#include "gradscaler/checkpoint.h"
#include "temp_dir.h"

typedef struct run_rig {
    gsc_tensor *params[PARAMS];
    gsc_optim *optim;
    gsc_scaler *scaler;
    gsc_named_tensor tensors[PARAMS];
    gsc_named_optim named_optim;
    gsc_named_scaler named_scaler;
    gsc_checkpoint checkpoint;
} run_rig;

/* The files of a checkpoint; run.json lists the others. */
enum { FILES = 4 };
static const char *const file_names[FILES] = {"model.safetensors", "optimizer.safetensors", "scaler.json", "run.json"};

/* Small, since tests damage each byte of a file; the last size is one vector of float64 and one more. */
static const size_t rig_sizes[PARAMS] = {1, 3, 9};
static const char *const rig_names[PARAMS] = {"0.weight", "0.bias", "1.weight"};

/* The parameters' values depend on `seed`; the last parameter is float64. */
static inline void rig_create(run_rig *rig, const rule_case *rule, size_t seed)
{
    *rig = (run_rig){0};
    for (size_t k = 0; k < PARAMS; k++) {
        rig->params[k] = new_param(k == PARAMS - 1 ? GSC_FLOAT64 : GSC_FLOAT32, rig_sizes[k], rig_names[k]);
        add_grad(rig->params[k]);
        for (size_t i = 0; i < rig_sizes[k]; i++)
            element_set(gsc_tensor_data(rig->params[k]), i, sample(seed, k, i));
        rig->tensors[k] = (gsc_named_tensor){rig_names[k], gsc_tensor_data(rig->params[k])};
    }
    gsc_param_group group = rule->group;
    group.params = rig->params;
    group.count = PARAMS;
    assert_ok(rule->create(&group, 1, &rig->optim));
    gsc_scaler_options options = gsc_scaler_options_default();
    options.growth_interval = 3;
    options.hysteresis = 2;
    assert_ok(gsc_scaler_create(&options, &rig->scaler));
    rig->named_optim.optim = rig->optim;
    rig->named_scaler.scaler = rig->scaler;
    rig->checkpoint = (gsc_checkpoint){.tensors = rig->tensors,
                                       .tensor_count = PARAMS,
                                       .optims = &rig->named_optim,
                                       .optim_count = 1,
                                       .scalers = &rig->named_scaler,
                                       .scaler_count = 1,
                                       .run = "{\"step\": 7, \"lr\": 0.25}"};
}

static inline void rig_free(run_rig *rig)
{
    gsc_scaler_destroy(rig->scaler);
    gsc_optim_free(rig->optim);
    for (size_t k = 0; k < PARAMS; k++)
        gsc_tensor_free(rig->params[k]);
}

/* One iteration; then the learning rate falls, as in a schedule. */
static inline void rig_step(run_rig *rig, size_t step, bool overflow)
{
    for (size_t k = 0; k < PARAMS; k++)
        for (size_t i = 0; i < rig_sizes[k]; i++)
            element_set(gsc_tensor_grad(rig->params[k]), i, sample(step, k, i) * gsc_scaler_get_scale(rig->scaler));
    if (overflow)
        element_set(gsc_tensor_grad(rig->params[1]), 0, (double)INFINITY);
    const gsc_optimizer *optimizer = gsc_optim_optimizer(rig->optim);
    gsc_step_result result;
    assert_ok(gsc_scaler_step(rig->scaler, optimizer, NULL, &result));
    assert_int_equal(result.outcome, overflow ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED);
    assert_ok(gsc_scaler_update(rig->scaler));
    assert_ok(gsc_optim_set_lr(rig->optim, 0, gsc_optim_get_lr(rig->optim, 0) * 0.99));
}

static inline bool tensors_equal(const gsc_tensor *like, const DLTensor *a, const DLTensor *b)
{
    return memcmp(a->data, b->data, bytes_of(like, a)) == 0;
}

static inline bool params_equal(run_rig *a, run_rig *b, size_t k)
{
    const gsc_tensor *param = a->params[k];
    bool equal = tensors_equal(param, gsc_tensor_data(a->params[k]), gsc_tensor_data(b->params[k])) &&
                 gsc_optim_get_step_count(a->optim, k) == gsc_optim_get_step_count(b->optim, k);
    const char *state;
    for (size_t s = 0; (state = gsc_optim_state_name(a->optim, k, s)); s++)
        equal = equal && tensors_equal(param, gsc_optim_state(a->optim, k, state), gsc_optim_state(b->optim, k, state));
    return equal;
}

/* Whether everything that a checkpoint holds is equal to the last bit. */
static inline bool rigs_equal(run_rig *a, run_rig *b)
{
    gsc_scaler_state a_state, b_state;
    assert_ok(gsc_scaler_state_dict(a->scaler, &a_state));
    assert_ok(gsc_scaler_state_dict(b->scaler, &b_state));
    const double a_lr = gsc_optim_get_lr(a->optim, 0), b_lr = gsc_optim_get_lr(b->optim, 0);
    bool equal = memcmp(&a_state, &b_state, sizeof a_state) == 0 && memcmp(&a_lr, &b_lr, sizeof a_lr) == 0;
    for (size_t k = 0; k < PARAMS; k++)
        equal = equal && params_equal(a, b, k);
    return equal;
}

/* A group's set-up for tests that save or damage hundreds of times: unless TMPDIR is set, their folders are in memory
 * if /dev/shm exists. */
static inline int keep_folders_in_memory(void **state)
{
    (void)state;
    return access("/dev/shm", W_OK) == 0 ? setenv("TMPDIR", "/dev/shm", 0) : 0;
}

static inline int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

/* temp_dir_remove for folders with subfolders. */
static inline void temp_tree_remove(char *dir)
{
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
    free(dir);
}

#endif
