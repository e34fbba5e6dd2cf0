/* SPDX-License-Identifier: Apache-2.0 */
/* scaler.c: scaler.json: the state dict of one scaler, or an object with those of several under their names. */
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "gradscaler/state_json.h"
#include "train/checkpoint/scaler.h"
#include "train/io/json.h"

static char *print_state(const gsc_scaler *scaler)
{
    gsc_scaler_state state;
    return gsc_scaler_state_dict(scaler, &state) == GSC_OK ? gsc_scaler_state_to_json(&state) : NULL;
}

/* false with a message on failure. */
static bool add_state(json_t *object, const gsc_named_scaler *named)
{
    char *text = print_state(named->scaler);
    if (!text)
        return false;
    json_t *state = NULL;
    bool added = gsc__json_parse("scaler.json", text, strlen(text), &state) == GSC_OK;
    free(text);
    if (added && json_object_set_new(object, named->name, state) != 0) {
        gsc_fail(GSC_ERR_MEMORY, "scaler.json: out of memory");
        added = false;
    }
    return added;
}

char *gsc__scalers_print(const gsc_named_scaler *scalers, size_t n)
{
    if (n == 1)
        return print_state(scalers[0].scaler);
    json_t *object = json_object();
    bool complete = object != NULL;
    for (size_t i = 0; complete && i < n; i++)
        complete = add_state(object, &scalers[i]);
    size_t size;
    char *text = complete ? gsc__json_print(object, JSON_INDENT(2) | GSC_JSON_REALS, &size) : NULL;
    if (!text && (complete || !object))
        gsc_fail(GSC_ERR_MEMORY, "scaler.json: out of memory");
    json_decref(object);
    return text;
}

static gsc_status parse_state(const char *path, const json_t *value, gsc_scaler_state *out)
{
    size_t size;
    char *text = gsc__json_print(value, GSC_JSON_REALS | JSON_ENCODE_ANY, &size);
    if (!text)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    gsc_status status = gsc_scaler_state_from_json(text, out);
    free(text);
    return status == GSC_OK ? GSC_OK : gsc_fail(status, "%s: %s", path, gsc_last_error());
}

static gsc_status parse_states(const char *path, const json_t *root, const gsc_named_scaler *scalers, size_t n,
                               gsc_scaler_state *states)
{
    if (n == 1)
        return parse_state(path, root, &states[0]);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(root, scalers[i].name);
        if (!value)
            return gsc_fail(GSC_ERR_VALUE, "%s: holds no scaler \"%s\"", path, scalers[i].name);
        GSC_TRY(parse_state(path, value, &states[i]));
    }
    if (json_object_size(root) != n)
        return gsc_fail(GSC_ERR_VALUE, "%s: holds %zu scalers, %zu are to be loaded", path, json_object_size(root), n);
    return GSC_OK;
}

gsc_status gsc__scalers_parse(const char *path, const char *text, size_t size, const gsc_named_scaler *scalers,
                              size_t n, gsc_scaler_state *states)
{
    json_t *root;
    GSC_TRY(gsc__json_parse(path, text, size, &root));
    gsc_status status = parse_states(path, root, scalers, n, states);
    json_decref(root);
    return status;
}
