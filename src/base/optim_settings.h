/* SPDX-License-Identifier: Apache-2.0 */
/* optim_settings.h: what an optimizer may be set to, and what its states are called. For the optimizers of the CPU and
 * of device modules: `function` begins their messages. */
#ifndef GSC_BASE_OPTIM_SETTINGS_H
#define GSC_BASE_OPTIM_SETTINGS_H

#include <float.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

#include "base/optim_rules.h"
#include "base/try.h"
#include "gradscaler/status.h"

/* The settings in a public struct of parameters. */
#define GSC_OPTIM_SETTINGS_OF(group)                                                                                   \
    ((gsc__optim_settings){.lr = (group)->lr,                                                                          \
                           .weight_decay = (group)->weight_decay,                                                      \
                           .momentum = (group)->momentum,                                                              \
                           .dampening = (group)->dampening,                                                            \
                           .beta1 = (group)->beta1,                                                                    \
                           .beta2 = (group)->beta2,                                                                    \
                           .eps = (group)->eps,                                                                        \
                           .nesterov = (group)->nesterov})

/* A number that must be in [0, max]; `allowed` is that in words. */
typedef struct gsc__optim_setting {
    const char *name;
    double value, max;
    const char *allowed;
} gsc__optim_setting;

#define GSC_OPTIM_NOT_NEGATIVE FLT_MAX, "a number in [0, FLT_MAX]" /* the range of float32 parameters */
#define GSC_OPTIM_BELOW_ONE (1 - DBL_EPSILON / 2), "a number in [0, 1)"
#define GSC_OPTIM_UNREAD 0, "0: this kind of optimizer does not read it"

static inline gsc_status gsc__optim_check_numbers(const char *function, size_t group, const gsc__optim_setting *numbers,
                                                  size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(numbers[i].value >= 0 && numbers[i].value <= numbers[i].max))
            return gsc_fail(GSC_ERR_VALUE, "%s: groups[%zu].%s is %g, allowed is %s", function, group, numbers[i].name,
                            numbers[i].value, numbers[i].allowed);
    return GSC_OK;
}

static inline gsc_status gsc__optim_check_lr(const char *function, size_t group, double lr)
{
    const gsc__optim_setting numbers[] = {{"lr", lr, GSC_OPTIM_NOT_NEGATIVE}};
    return gsc__optim_check_numbers(function, group, numbers, 1);
}

static inline gsc_status gsc__optim_check_sgd(const char *function, size_t group, const gsc__optim_settings *settings)
{
    const gsc__optim_setting numbers[] = {{"lr", settings->lr, GSC_OPTIM_NOT_NEGATIVE},
                                          {"weight_decay", settings->weight_decay, GSC_OPTIM_NOT_NEGATIVE},
                                          {"momentum", settings->momentum, GSC_OPTIM_NOT_NEGATIVE},
                                          {"dampening", settings->dampening, 1, "a number in [0, 1]"},
                                          {"beta1", settings->beta1, GSC_OPTIM_UNREAD},
                                          {"beta2", settings->beta2, GSC_OPTIM_UNREAD},
                                          {"eps", settings->eps, GSC_OPTIM_UNREAD}};
    GSC_TRY(gsc__optim_check_numbers(function, group, numbers, sizeof numbers / sizeof numbers[0]));
    if (settings->nesterov && (settings->momentum == 0 || settings->dampening != 0))
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: groups[%zu].nesterov is set with momentum %g and dampening %g; it needs momentum > 0 and "
                        "dampening 0",
                        function, group, settings->momentum, settings->dampening);
    return GSC_OK;
}

static inline gsc_status gsc__optim_check_adam(const char *function, size_t group, const gsc__optim_settings *settings)
{
    const gsc__optim_setting numbers[] = {{"lr", settings->lr, GSC_OPTIM_NOT_NEGATIVE},
                                          {"weight_decay", settings->weight_decay, GSC_OPTIM_NOT_NEGATIVE},
                                          {"beta1", settings->beta1, GSC_OPTIM_BELOW_ONE},
                                          {"beta2", settings->beta2, GSC_OPTIM_BELOW_ONE},
                                          {"eps", settings->eps, GSC_OPTIM_NOT_NEGATIVE},
                                          {"momentum", settings->momentum, GSC_OPTIM_UNREAD},
                                          {"dampening", settings->dampening, GSC_OPTIM_UNREAD},
                                          {"nesterov", settings->nesterov, GSC_OPTIM_UNREAD}};
    return gsc__optim_check_numbers(function, group, numbers, sizeof numbers / sizeof numbers[0]);
}

static inline gsc_status gsc__optim_check_settings(gsc__optim_kind kind, const char *function, size_t group,
                                                   const gsc__optim_settings *settings)
{
    return kind == GSC_OPTIM_SGD ? gsc__optim_check_sgd(function, group, settings)
                                 : gsc__optim_check_adam(function, group, settings);
}

/* No run gets there, and counting on from there does not overflow. */
#define GSC_OPTIM_MAX_STEP_COUNT (INT64_C(1) << 62)

static inline gsc_status gsc__optim_check_step_count(const char *function, size_t param, int64_t count)
{
    if (count >= 0 && count <= GSC_OPTIM_MAX_STEP_COUNT)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: the step count of parameter %zu is %" PRId64 ", allowed are 0 to 2^62",
                    function, param, count);
}

static inline const char *gsc__optim_kind_name(gsc__optim_kind kind)
{
    static const char *const names[] = {
        [GSC_OPTIM_SGD] = "sgd", [GSC_OPTIM_ADAM] = "adam", [GSC_OPTIM_ADAMW] = "adamw"};
    return names[kind];
}

enum { GSC_OPTIM_STATES = 2 }; /* at most */

/* How many states each parameter of a group has. */
static inline size_t gsc__optim_state_count(gsc__optim_kind kind, const gsc__optim_settings *settings)
{
    if (kind != GSC_OPTIM_SGD)
        return 2;
    return settings->momentum != 0 ? 1 : 0;
}

/* The index-th of those. */
static inline const char *gsc__optim_state_name(gsc__optim_kind kind, size_t index)
{
    static const char *const adam_names[] = {"exp_avg", "exp_avg_sq"};
    return kind == GSC_OPTIM_SGD ? "momentum_buffer" : adam_names[index];
}

#endif
