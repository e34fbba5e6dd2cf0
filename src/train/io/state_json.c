/* SPDX-License-Identifier: Apache-2.0 */
/* state_json.c: the scaler's state dict to JSON and back. */
#include "gradscaler/state_json.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/reserved.h"
#include "base/scaler_state.h"
#include "base/try.h"
#include "train/io/json.h"

#define TO_JSON "gsc_scaler_state_to_json"
#define FROM_JSON "gsc_scaler_state_from_json"
#define TWO_TO_63 9223372036854775808.0

void gsc_free(void *memory) { free(memory); }

static bool set_real(json_t *object, const char *key, double value)
{
    return json_object_set_new(object, key, json_real(value)) == 0;
}

static bool set_integer(json_t *object, const char *key, int64_t value)
{
    return json_object_set_new(object, key, json_integer(value)) == 0;
}

/* Zero means "keep the scaler's own", and so does a missing key. */
static bool set_extras(json_t *object, const gsc_scaler_state *state)
{
    bool done = true;
    bool has_tracker = state->hysteresis_tracker != state->hysteresis;
    if (state->min_scale != 0.0 && state->min_scale != FLT_MIN)
        done = done && set_real(object, "min_scale", state->min_scale);
    if (state->max_scale != 0.0 && state->max_scale != FLT_MAX)
        done = done && set_real(object, "max_scale", state->max_scale);
    if ((state->hysteresis != 0 && state->hysteresis != 1) || has_tracker) /* the tracker needs its hysteresis */
        done = done && set_integer(object, "hysteresis", state->hysteresis);
    if (has_tracker)
        done = done && set_integer(object, "hysteresis_tracker", state->hysteresis_tracker);
    if (state->consecutive_skips != 0)
        done = done && set_integer(object, "consecutive_skips", state->consecutive_skips);
    return done;
}

static bool set_state(json_t *object, const gsc_scaler_state *state)
{
    return gsc__scaler_state_is_empty(state) ||
           (set_real(object, "scale", state->scale) && set_real(object, "growth_factor", state->growth_factor) &&
            set_real(object, "backoff_factor", state->backoff_factor) &&
            set_integer(object, "growth_interval", state->growth_interval) &&
            set_integer(object, "_growth_tracker", state->growth_tracker) && set_extras(object, state));
}

static gsc_status check_writable(const gsc_scaler_state *state)
{
    if (!state)
        return gsc_fail(GSC_ERR_VALUE, TO_JSON ": state is NULL");
    const struct {
        const char *key;
        double value;
    } reals[] = {{"scale", state->scale},
                 {"growth_factor", state->growth_factor},
                 {"backoff_factor", state->backoff_factor},
                 {"min_scale", state->min_scale},
                 {"max_scale", state->max_scale}};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        if (!isfinite(reals[i].value))
            return gsc_fail(GSC_ERR_VALUE, TO_JSON ": %s is %g, JSON has finite numbers only", reals[i].key,
                            reals[i].value);
    return GSC_CHECK_RESERVED(state, TO_JSON, "state");
}

char *gsc_scaler_state_to_json(const gsc_scaler_state *state)
{
    if (check_writable(state) != GSC_OK)
        return NULL;
    gsc__fpenv caller = gsc__fpenv_enter();
    json_t *object = json_object();
    size_t size;
    char *text = object && set_state(object, state) ? gsc__json_print(object, GSC_JSON_REALS, &size) : NULL;
    json_decref(object);
    gsc__fpenv_leave(caller);
    if (!text)
        gsc_fail(GSC_ERR_MEMORY, TO_JSON ": out of memory");
    return text;
}

static gsc_status find_number(const json_t *object, const char *key, const json_t **value)
{
    *value = json_object_get(object, key);
    if (!*value)
        return gsc_fail(GSC_ERR_VALUE, FROM_JSON ": %s is missing", key);
    if (!json_is_number(*value))
        return gsc_fail(GSC_ERR_VALUE, FROM_JSON ": %s is %s, it must be a number", key, gsc__json_type(*value));
    return GSC_OK;
}

static gsc_status get_real(const json_t *object, const char *key, double *out)
{
    const json_t *value;
    GSC_TRY(find_number(object, key, &value));
    *out = json_number_value(value);
    return GSC_OK;
}

static gsc_status get_integer(const json_t *object, const char *key, int64_t least, int64_t greatest, int64_t *out)
{
    const json_t *value;
    GSC_TRY(find_number(object, key, &value));
    int64_t integer;
    if (json_is_real(value)) {
        double real = json_real_value(value);
        if (real != floor(real))
            return gsc_fail(GSC_ERR_VALUE, FROM_JSON ": %s is %.17g, it must be an integer", key, real);
        if (!(real >= -TWO_TO_63 && real < TWO_TO_63))
            return gsc_fail(GSC_ERR_VALUE, FROM_JSON ": %s is %.17g, it must be %lld to %lld", key, real,
                            (long long)least, (long long)greatest);
        integer = (int64_t)real;
    } else {
        integer = json_integer_value(value);
    }
    if (integer < least || integer > greatest)
        return gsc_fail(GSC_ERR_VALUE, FROM_JSON ": %s is %lld, it must be %lld to %lld", key, (long long)integer,
                        (long long)least, (long long)greatest);
    *out = integer;
    return GSC_OK;
}

static gsc_status get_int64(const json_t *object, const char *key, int64_t *out)
{
    return get_integer(object, key, INT64_MIN, INT64_MAX, out);
}

static gsc_status get_int32(const json_t *object, const char *key, int32_t *out)
{
    int64_t integer = 0;
    GSC_TRY(get_integer(object, key, INT32_MIN, INT32_MAX, &integer));
    *out = (int32_t)integer;
    return GSC_OK;
}

/* PyTorch's name, or the one without the underscore. */
static gsc_status get_growth_tracker(const json_t *object, int64_t *out)
{
    static const char key[] = "_growth_tracker", other_key[] = "growth_tracker";
    if (!json_object_get(object, other_key))
        return get_int64(object, key, out);
    int64_t other = 0;
    GSC_TRY(get_int64(object, other_key, &other));
    *out = other;
    if (json_object_get(object, key))
        GSC_TRY(get_int64(object, key, out));
    if (*out != other)
        return gsc_fail(GSC_ERR_VALUE, FROM_JSON ": %s is %lld but %s is %lld; give one of them", key, (long long)*out,
                        other_key, (long long)other);
    return GSC_OK;
}

static gsc_status get_required(const json_t *object, gsc_scaler_state *state)
{
    GSC_TRY(get_real(object, "scale", &state->scale));
    GSC_TRY(get_real(object, "growth_factor", &state->growth_factor));
    GSC_TRY(get_real(object, "backoff_factor", &state->backoff_factor));
    GSC_TRY(get_int64(object, "growth_interval", &state->growth_interval));
    return get_growth_tracker(object, &state->growth_tracker);
}

static gsc_status get_hysteresis_tracker(const json_t *object, int32_t *out)
{
    static const char key[] = "hysteresis_tracker", needed_key[] = "hysteresis";
    GSC_TRY(get_int32(object, key, out));
    if (!json_object_get(object, needed_key))
        return gsc_fail(GSC_ERR_VALUE, FROM_JSON ": %s is %d but %s is missing; give both or neither", key, (int)*out,
                        needed_key);
    return GSC_OK;
}

static gsc_status get_extras(const json_t *object, gsc_scaler_state *state)
{
    if (json_object_get(object, "min_scale"))
        GSC_TRY(get_real(object, "min_scale", &state->min_scale));
    if (json_object_get(object, "max_scale"))
        GSC_TRY(get_real(object, "max_scale", &state->max_scale));
    if (json_object_get(object, "hysteresis"))
        GSC_TRY(get_int32(object, "hysteresis", &state->hysteresis));
    state->hysteresis_tracker = state->hysteresis;
    if (json_object_get(object, "hysteresis_tracker"))
        GSC_TRY(get_hysteresis_tracker(object, &state->hysteresis_tracker));
    if (json_object_get(object, "consecutive_skips"))
        GSC_TRY(get_int64(object, "consecutive_skips", &state->consecutive_skips));
    return GSC_OK;
}

static gsc_status read_object(const json_t *object, gsc_scaler_state *state)
{
    if (!json_is_object(object))
        return gsc_fail(GSC_ERR_VALUE, FROM_JSON ": the text is %s, it must be an object", gsc__json_type(object));
    if (json_object_size(object) == 0)
        return GSC_OK;
    GSC_TRY(get_required(object, state));
    return get_extras(object, state);
}

static gsc_status parse_state(const char *text, gsc_scaler_state *state)
{
    json_t *object;
    GSC_TRY(gsc__json_parse(FROM_JSON, text, strlen(text), &object));
    gsc_status status = read_object(object, state);
    json_decref(object);
    return status;
}

gsc_status gsc_scaler_state_from_json(const char *text, gsc_scaler_state *out)
{
    if (!text || !out)
        return gsc_fail(GSC_ERR_VALUE, FROM_JSON ": %s is NULL", text ? "out" : "text");
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_scaler_state state = {0};
    gsc_status status = parse_state(text, &state);
    gsc__fpenv_leave(caller);
    if (status == GSC_OK)
        *out = state;
    return status;
}
