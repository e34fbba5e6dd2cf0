/* SPDX-License-Identifier: Apache-2.0 */
/* options_resume.c: recording options in JSON, and taking them over with --resume. */
#include "train/options_resume.h"
#include "common/message.h"

#include <stdio.h>
#include <string.h>

#define TEXT_SIZE 4200 /* of a value; a folder's name is the longest */

static const option *row(size_t id) { return &train_option_rows[id].option; }

#define FLAG_TEXT "true" /* what is recorded for a flag that was given */

static bool parse_text(train_options *options, size_t id, const char *text)
{
    if (option_is_flag(row(id)))
        return strcmp(text, FLAG_TEXT) == 0 && (*(bool *)option_field(&train_option_table, id, options) = true);
    return row(id)->kind->parse(&row(id)->range, text, option_field(&train_option_table, id, options));
}

static void print_value(const train_options *options, size_t id, char out[TEXT_SIZE])
{
    if (option_is_flag(row(id))) {
        snprintf(out, TEXT_SIZE, FLAG_TEXT);
        return;
    }
    row(id)->kind->print(&row(id)->range, (const char *)options + row(id)->field, out, TEXT_SIZE);
}

static bool is_recorded(size_t id) { return train_option_rows[id].on_resume != RESUME_NOT; }

json_t *options_record(const train_options *options)
{
    json_t *record = json_object();
    char text[TEXT_SIZE];
    for (size_t id = 0; record && id < OPTION_COUNT; id++) {
        if (!is_recorded(id) || !option_in(options->known, id))
            continue;
        print_value(options, id, text);
        if (json_object_set_new(record, row(id)->name, json_string(text)) != 0) {
            json_decref(record);
            record = NULL;
        }
    }
    return record;
}

/* NULL: the run did not have this option. */
static const char *recorded_text(const json_t *recorded, size_t id)
{
    return json_string_value(json_object_get(recorded, row(id)->name));
}

/* Whether the given value is the run's. */
static bool is_unchanged(const train_options *options, const json_t *recorded, size_t id)
{
    char text[TEXT_SIZE];
    const char *run_text = recorded_text(recorded, id);
    print_value(options, id, text);
    return run_text && strcmp(run_text, text) == 0;
}

static bool refuse_change(const train_options *options, const json_t *recorded, size_t id)
{
    static const char advice[] = "leave it out, or begin another run with --out";
    char text[TEXT_SIZE];
    const char *name = row(id)->name, *run_text = recorded_text(recorded, id);
    const bool is_flag = option_is_flag(row(id));
    print_value(options, id, text);
    if (!run_text)
        say("--%s%s%s: the run in %s has none; %s", name, is_flag ? "" : " ", is_flag ? "" : text, options->resume,
            advice);
    else if (train_option_rows[id].on_resume == RESUME_LENGTH)
        say("--%s %s: the run in %s has --%s %s, where its linear learning rate ends; %s", name, text, options->resume,
            name, run_text, advice);
    else
        say("--%s %s: the run in %s has --%s %s; %s", name, text, options->resume, name, run_text, advice);
    return false;
}

/* A linear schedule depends on the length of the run, from the first step. */
static bool has_fixed_length(const json_t *recorded)
{
    const char *schedule = recorded_text(recorded, OPTION_LR_SCHEDULE);
    return !schedule || strcmp(schedule, schedule_names[SCHEDULE_CONSTANT]) != 0;
}

/* *new_length: another length was given, and is allowed. */
static bool check_given(const train_options *options, const json_t *recorded, bool *new_length)
{
    *new_length = false;
    for (size_t id = 0; id < OPTION_COUNT; id++) {
        const enum on_resume rule = train_option_rows[id].on_resume;
        if (!option_in(options->given, id) || rule == RESUME_NOT || rule == RESUME_FREE ||
            is_unchanged(options, recorded, id))
            continue;
        if (rule != RESUME_LENGTH || has_fixed_length(recorded))
            return refuse_change(options, recorded, id);
        *new_length = true;
    }
    return true;
}

/* OPTION_COUNT: no such option is recorded. */
static size_t find_recorded(const char *name)
{
    size_t id = 0;
    while (id < OPTION_COUNT && !(is_recorded(id) && strcmp(row(id)->name, name) == 0))
        id++;
    return id;
}

/* A run of another version of the command may have options or values that this version lacks. */
static bool check_recorded(const train_options *options, const json_t *recorded)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)recorded, name, value)
    {
        train_options scratch;
        const size_t id = find_recorded(name);
        const char *text = json_string_value(value);
        if (id < OPTION_COUNT && text && parse_text(&scratch, id, text))
            continue;
        say("%s/run.json: this version does not know --%s %s; resume with the version that began the run",
            options->resume, name, text ? text : "(not a text)");
        return false;
    }
    return true;
}

bool options_resume(train_options *options, const json_t *recorded)
{
    bool new_length;
    if (!check_recorded(options, recorded) || !check_given(options, recorded, &new_length))
        return false;
    for (size_t id = 0; id < OPTION_COUNT; id++) {
        const char *text = is_recorded(id) ? recorded_text(recorded, id) : NULL;
        const bool is_replaced = new_length && train_option_rows[id].on_resume == RESUME_LENGTH;
        if (!text || option_in(options->given, id) || is_replaced)
            continue;
        parse_text(options, id, text);
        option_add(&options->known, id);
    }
    return true;
}
