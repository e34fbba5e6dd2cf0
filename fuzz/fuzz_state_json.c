/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_state_json.c: the input is a text. A state that is read, written and read again is the same, also for a scaler
 * that loads it; a refused text changes nothing. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "gradscaler/state_json.h"
#include "support.h"

#define FROM_JSON "gsc_scaler_state_from_json"
#define TO_JSON "gsc_scaler_state_to_json"

/* state_json.h: a field at its default is not written, and a field that is not written is read as zero, "keep". */
static gsc_scaler_state as_written(const gsc_scaler_state *state)
{
    gsc_scaler_state out = *state;
    if (out.min_scale == (double)FLT_MIN)
        out.min_scale = 0.0;
    if (out.max_scale == (double)FLT_MAX)
        out.max_scale = 0.0;
    if (out.hysteresis == 1 && out.hysteresis_tracker == 1)
        out.hysteresis = out.hysteresis_tracker = 0;
    return out;
}

static bool equal(const gsc_scaler_state *one, const gsc_scaler_state *other)
{
    return one->scale == other->scale && one->growth_factor == other->growth_factor &&
           one->backoff_factor == other->backoff_factor && one->growth_interval == other->growth_interval &&
           one->growth_tracker == other->growth_tracker && one->min_scale == other->min_scale &&
           one->max_scale == other->max_scale && one->hysteresis == other->hysteresis &&
           one->hysteresis_tracker == other->hysteresis_tracker && one->consecutive_skips == other->consecutive_skips &&
           memcmp(one->reserved, other->reserved, sizeof one->reserved) == 0;
}

/* Returns false if the text is refused. */
static bool read_text(const char *text, gsc_scaler_state *out)
{
    gsc_scaler_state untouched;
    memset(out, 0xa5, sizeof *out);
    memset(&untouched, 0xa5, sizeof untouched);
    forget_message();
    gsc_status status = gsc_scaler_state_from_json(text, out);
    if (status == GSC_OK)
        return true;
    require(status == GSC_ERR_VALUE, "a text is refused for its content, not with %s", gsc_status_name(status));
    require(memcmp(out, &untouched, sizeof untouched) == 0, "a refusal leaves the output alone");
    require_message(FROM_JSON ": ");
    return false;
}

static char *write_text(const gsc_scaler_state *state)
{
    forget_message();
    char *text = gsc_scaler_state_to_json(state);
    require(text, "a state that was read can be written");
    require(strchr(text, '\n') == NULL, "a state is one line");
    return text;
}

/* Loads the state into a new scaler; *after: the state of the scaler afterwards. */
static gsc_status load(const gsc_scaler_state *state, gsc_scaler_state *after)
{
    gsc_scaler_state before;
    gsc_scaler *scaler;
    require(gsc_scaler_create(NULL, &scaler) == GSC_OK, "a scaler can be created");
    gsc_scaler_state_dict(scaler, &before);
    forget_message();
    gsc_status status = gsc_scaler_load_state_dict(scaler, state);
    gsc_scaler_state_dict(scaler, after);
    if (status != GSC_OK) {
        require_message("gsc_scaler_load_state_dict: ");
        require(equal(&before, after), "a refused state leaves the scaler alone");
    }
    gsc_scaler_destroy(scaler);
    return status;
}

/* Writes and reads back: the struct, the text and a scaler that loads it must be the same. */
static void check_round_trip(const gsc_scaler_state *state)
{
    char *text = write_text(state);
    gsc_scaler_state again, loaded, loaded_again, expected = as_written(state);
    require(read_text(text, &again), "what was written can be read: %s", text);
    require(equal(&again, &expected), "what was written is read as it was: %s", text);
    char *text_again = write_text(&again);
    /* A state of zeros and defaults is written as the empty state; scalers refuse both. */
    bool is_empty = strcmp(text_again, "{}") == 0;
    require(is_empty || strcmp(text, text_again) == 0, "the same state is the same text: %s and %s", text, text_again);
    gsc_status status = load(state, &loaded), status_again = load(&again, &loaded_again);
    require(status == status_again || (is_empty && status != GSC_OK && status_again != GSC_OK),
            "both states are loaded, or none: %s", text);
    require(equal(&loaded, &loaded_again), "both states give the same scaler: %s", text);
    free(text);
    free(text_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    require(text, "there is memory");
    memcpy(text, data, size);
    text[size] = '\0';
    gsc_scaler_state state, loaded;
    if (read_text(text, &state)) {
        check_round_trip(&state);
        if (load(&state, &loaded) == GSC_OK)
            check_round_trip(&loaded);
    }
    free(text);
    return 0;
}
