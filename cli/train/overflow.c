/* SPDX-License-Identifier: Apache-2.0 */
/* overflow.c: the gradients of an overflow as text and as JSON. */
#include "train/overflow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEY_STEP "step"
#define KEY_GRADIENTS "gradients"
#define KEY_MORE "more"
#define KEY_NAME "name"
#define KEY_INF "inf"
#define KEY_NAN "nan"
#define KEY_FIRST "first_index"

overflow_report overflow_collect(const gsc_scaler *scaler, const gsc_optimizer *optimizer, int64_t step)
{
    gsc_overflow list[OVERFLOW_MAX];
    const size_t n = gsc_scaler_overflows(scaler, optimizer, list, OVERFLOW_MAX);
    overflow_report report = {.step = step, .count = n < OVERFLOW_MAX ? (int64_t)n : OVERFLOW_MAX};
    report.more = (int64_t)n - report.count;
    for (int64_t i = 0; i < report.count; i++) {
        overflow_gradient *g = &report.gradients[i];
        snprintf(g->name, sizeof g->name, "%s", list[i].name ? list[i].name : "?");
        g->inf = (int64_t)list[i].inf_count;
        g->nan = (int64_t)list[i].nan_count;
        g->first_index = (int64_t)list[i].first_index;
    }
    return report;
}

void overflow_print(const overflow_report *report, char out[OVERFLOW_TEXT_SIZE])
{
    size_t used = 0;
    out[0] = '\0';
    for (int64_t i = 0; i < report->count; i++) {
        const overflow_gradient *g = &report->gradients[i];
        used += (size_t)snprintf(out + used, OVERFLOW_TEXT_SIZE - used, "%s%s (%" PRId64 " inf, %" PRId64 " nan)",
                                 i > 0 ? ", " : "", g->name, g->inf, g->nan);
    }
    if (report->more > 0)
        snprintf(out + used, OVERFLOW_TEXT_SIZE - used, ", and %" PRId64 " more", report->more);
}

json_t *overflow_gradients_to_json(const overflow_report *report)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < report->count; i++) {
        const overflow_gradient *g = &report->gradients[i];
        json_t *item = json_pack("{s:s, s:I, s:I, s:I}", KEY_NAME, g->name, KEY_INF, (json_int_t)g->inf, KEY_NAN,
                                 (json_int_t)g->nan, KEY_FIRST, (json_int_t)g->first_index);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

json_t *overflow_to_json(const overflow_report *report)
{
    if (report->step == 0)
        return json_null();
    return json_pack("{s:I, s:o, s:I}", KEY_STEP, (json_int_t)report->step, KEY_GRADIENTS,
                     overflow_gradients_to_json(report), KEY_MORE, (json_int_t)report->more);
}

static bool read_gradient(const json_t *value, overflow_gradient *out)
{
    const json_t *name = json_object_get(value, KEY_NAME), *inf = json_object_get(value, KEY_INF);
    const json_t *nan = json_object_get(value, KEY_NAN), *first = json_object_get(value, KEY_FIRST);
    if (!json_is_string(name) || !json_is_integer(inf) || !json_is_integer(nan) || !json_is_integer(first))
        return false;
    snprintf(out->name, sizeof out->name, "%s", json_string_value(name));
    out->inf = json_integer_value(inf);
    out->nan = json_integer_value(nan);
    out->first_index = json_integer_value(first);
    return true;
}

bool overflow_from_json(const json_t *value, overflow_report *out)
{
    const json_t *step = json_object_get(value, KEY_STEP), *more = json_object_get(value, KEY_MORE);
    const json_t *list = json_object_get(value, KEY_GRADIENTS);
    overflow_report report = {0};
    if (json_is_null(value)) {
        *out = report;
        return true;
    }
    if (!json_is_integer(step) || !json_is_integer(more) || json_array_size(list) > OVERFLOW_MAX)
        return false;
    report.step = json_integer_value(step);
    report.more = json_integer_value(more);
    report.count = (int64_t)json_array_size(list);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_gradient(json_array_get(list, i), &report.gradients[i]))
            return false;
    *out = report;
    return report.step > 0 && report.more >= 0;
}
