/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: what a caller can set, at creation and later. Messages name the field, its value and what is allowed. */
#include <float.h>
#include <math.h>

#include "base/dtype_text.h"
#include "core/entry.h"

enum { MAX_SKIP_WINDOW = 4096 };

gsc_scaler_options gsc_scaler_options_default(void)
{
    return (gsc_scaler_options){.device = {kDLCPU, 0},
                                .init_scale = 65536.0,
                                .growth_factor = 2.0,
                                .backoff_factor = 0.5,
                                .growth_interval = 2000,
                                .enabled = true,
                                .min_scale = (double)FLT_MIN,
                                .max_scale = (double)FLT_MAX,
                                .hysteresis = 1};
}

gsc_status gsc__check_device(DLDevice device, const char *api)
{
    if (device.device_type == kDLCPU)
        return GSC_OK;
    return gsc_fail(GSC_ERR_DEVICE, "%s: device is %s; without a backend only the CPU is served%s", api,
                    gsc__describe_device(device).text,
                    GSC_WORDS("; create the scaler with options.backend of that device's module", ""));
}

gsc_status gsc__check_growth_factor(double factor, const char *api)
{
    if (factor > 1.0 && isfinite(factor))
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: growth_factor is %.9g, allowed are finite values > 1", api, factor);
}

gsc_status gsc__check_backoff_factor(double factor, const char *api)
{
    if (factor > 0.0 && factor < 1.0)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: backoff_factor is %.9g, allowed are values between 0 and 1, both excluded", api,
                    factor);
}

gsc_status gsc__check_growth_interval(int64_t interval, const char *api)
{
    if (interval > 0)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: growth_interval is %lld, allowed are integers >= 1", api, (long long)interval);
}

gsc_status gsc__round_scale(double *scale, double low, double high, const char *what)
{
    float rounded = (float)*scale;
    if (!((double)rounded >= low && (double)rounded <= high))
        return gsc_fail(GSC_ERR_VALUE, "%s is %.9g, allowed are values from %.9g to %.9g (as float32)", what, *scale,
                        low, high);
    *scale = (double)rounded;
    return GSC_OK;
}

static gsc_status check_scales(gsc_scaler_options *options)
{
    const double least = (double)FLT_MIN, greatest = (double)FLT_MAX;
    GSC_TRY(gsc__round_scale(&options->min_scale, least, greatest, "gsc_scaler_create: min_scale"));
    GSC_TRY(gsc__round_scale(&options->max_scale, least, greatest, "gsc_scaler_create: max_scale"));
    GSC_TRY(gsc__round_scale(&options->init_scale, least, greatest, "gsc_scaler_create: init_scale"));
    if (options->min_scale > options->init_scale)
        return gsc_fail(GSC_ERR_VALUE, "gsc_scaler_create: min_scale is %.9g, above init_scale %.9g",
                        options->min_scale, options->init_scale);
    if (options->init_scale > options->max_scale)
        return gsc_fail(GSC_ERR_VALUE, "gsc_scaler_create: init_scale is %.9g, above max_scale %.9g",
                        options->init_scale, options->max_scale);
    return GSC_OK;
}

static gsc_status check_comm(const gsc_comm *comm)
{
    if (!comm)
        return GSC_OK;
    if (!comm->allreduce_max)
        return gsc_fail(GSC_ERR_VALUE, "gsc_scaler_create: comm->allreduce_max is NULL; the ranks need it to agree");
    return GSC_CHECK_RESERVED(comm, "gsc_scaler_create", "comm");
}

static gsc_status check_skips(const gsc_scaler_options *options, const char *api)
{
    if (options->max_consecutive_skips < 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: max_consecutive_skips is %lld, allowed are 0 (no limit) and more", api,
                        (long long)options->max_consecutive_skips);
    if (options->skip_window == 0)
        return GSC_OK;
    if (options->skip_window < 2 || options->skip_window > MAX_SKIP_WINDOW)
        return gsc_fail(GSC_ERR_VALUE, "%s: skip_window is %d, allowed are 0 (off) and 2 to %d", api,
                        (int)options->skip_window, (int)MAX_SKIP_WINDOW);
    if (options->max_skip_share > 0.0 && options->max_skip_share < 1.0)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE,
                    "%s: max_skip_share is %.9g, allowed with a skip_window are values between 0 and 1, both excluded",
                    api, options->max_skip_share);
}

static gsc_status check_schedule(gsc_scaler_options *options, const char *api)
{
    GSC_TRY(check_scales(options));
    GSC_TRY(gsc__check_growth_factor(options->growth_factor, api));
    GSC_TRY(gsc__check_backoff_factor(options->backoff_factor, api));
    GSC_TRY(gsc__check_growth_interval(options->growth_interval, api));
    if (options->hysteresis < 1)
        return gsc_fail(GSC_ERR_VALUE, "%s: hysteresis is %d, allowed are integers >= 1", api,
                        (int)options->hysteresis);
    return check_skips(options, api);
}

#define ZEROED_WORDS GSC_WORDS("; other fields are 0, too: start from gsc_scaler_options_default()", "")

/* A struct of zeros with a few fields set: no default is 0 in any of these. */
static bool looks_zeroed(const gsc_scaler_options *options)
{
    int zeros = (options->init_scale == 0.0) + (options->min_scale == 0.0) + (options->max_scale == 0.0) +
                (options->growth_factor == 0.0) + (options->backoff_factor == 0.0) + (options->growth_interval == 0) +
                (options->hysteresis == 0);
    return zeros > 1;
}

gsc_status gsc__check_options(gsc_scaler_options *options)
{
    const char *api = "gsc_scaler_create";
    GSC_TRY(GSC_CHECK_RESERVED(options, api, "options"));
    bool zeroed = looks_zeroed(options);
    gsc_status status = check_schedule(options, api);
    if (status != GSC_OK)
        return zeroed ? gsc_fail(status, "%s%s", gsc_last_error(), ZEROED_WORDS) : status;
    GSC_TRY(check_comm(options->comm));
    return options->backend ? GSC_OK : gsc__check_device(options->device, api);
}

/* The options with one of the schedule's rules changed. */
static gsc_status set_rules(gsc_scaler *scaler, const gsc_scaler_options *options, const char *api)
{
    if (scaler->device)
        GSC_TRY(gsc__device_set_rules(scaler, options, api));
    gsc__set_options(scaler, options);
    return GSC_OK;
}

gsc_status gsc_scaler_set_growth_factor(gsc_scaler *scaler, double factor)
{
    const char *api = "gsc_scaler_set_growth_factor";
    GSC_TRY(gsc__check_scaler(scaler, api));
    gsc__env_enter(scaler);
    GSC_TRY(gsc__env_leave(scaler, gsc__check_growth_factor(factor, api)));
    gsc_scaler_options options = scaler->options;
    options.growth_factor = factor;
    return set_rules(scaler, &options, api);
}

gsc_status gsc_scaler_set_backoff_factor(gsc_scaler *scaler, double factor)
{
    const char *api = "gsc_scaler_set_backoff_factor";
    GSC_TRY(gsc__check_scaler(scaler, api));
    gsc__env_enter(scaler);
    GSC_TRY(gsc__env_leave(scaler, gsc__check_backoff_factor(factor, api)));
    gsc_scaler_options options = scaler->options;
    options.backoff_factor = factor;
    return set_rules(scaler, &options, api);
}

gsc_status gsc_scaler_set_growth_interval(gsc_scaler *scaler, int64_t interval)
{
    const char *api = "gsc_scaler_set_growth_interval";
    GSC_TRY(gsc__check_scaler(scaler, api));
    GSC_TRY(gsc__check_growth_interval(interval, api));
    gsc_scaler_options options = scaler->options;
    options.growth_interval = interval;
    return set_rules(scaler, &options, api);
}
