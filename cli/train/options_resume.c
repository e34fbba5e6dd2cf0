/* SPDX-License-Identifier: Apache-2.0 */
/* What a run keeps of its options, and how those that are given beside --resume go with it. */
#include "common/message.h"
#include "train/option_table.h"

#include <stdio.h>
#include <string.h>

#define TEXT_SIZE 4200 /* of a value; a folder's name is the longest */

static void print_value(const train_options *options, size_t id, char out[TEXT_SIZE])
{
    const option *o = &option_table[id];
    o->kind->print(&o->range, (const char *)options + o->field, out, TEXT_SIZE);
}

static bool is_recorded(size_t id) { return option_table[id].on_resume != RESUME_NOT; }

json_t *options_record(const train_options *options)
{
    json_t *record = json_object();
    char text[TEXT_SIZE];
    for (size_t i = 0; record && i < OPTION_COUNT; i++) {
        if (!is_recorded(i) || !option_in(options->known, i))
            continue;
        print_value(options, i, text);
        if (json_object_set_new(record, option_table[i].name, json_string(text)) != 0) {
            json_decref(record);
            record = NULL;
        }
    }
    return record;
}

static const char *recorded_text(const json_t *recorded, size_t id)
{
    return json_string_value(json_object_get(recorded, option_table[id].name));
}

/* Whether the value that was given is the one that the run has. */
static bool is_same(const train_options *options, const json_t *recorded, size_t id)
{
    char text[TEXT_SIZE];
    const char *own = recorded_text(recorded, id);
    print_value(options, id, text);
    return own && strcmp(own, text) == 0;
}

static const char elsewhere[] = "leave it out, or begin another run with --out";

static bool refuse_change(const train_options *options, const json_t *recorded, size_t id)
{
    char text[TEXT_SIZE];
    const char *name = option_table[id].name, *own = recorded_text(recorded, id);
    print_value(options, id, text);
    if (!own)
        say("--%s %s: the run in %s has none; %s", name, text, options->resume, elsewhere);
    else if (option_table[id].on_resume == RESUME_LENGTH)
        say("--%s %s: the run in %s has --%s %s, where its linear learning rate ends; %s", name, text, options->resume,
            name, own, elsewhere);
    else
        say("--%s %s: the run in %s has --%s %s; %s", name, text, options->resume, name, own, elsewhere);
    return false;
}

/* The whole of a linear schedule depends on where it ends. */
static bool has_fixed_length(const json_t *recorded)
{
    const char *schedule = recorded_text(recorded, OPTION_LR_SCHEDULE);
    return !schedule || strcmp(schedule, schedule_names[SCHEDULE_CONSTANT]) != 0;
}

/* *other_length: the run is to end elsewhere. */
static bool check_given(const train_options *options, const json_t *recorded, bool *other_length)
{
    *other_length = false;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const enum on_resume rule = option_table[i].on_resume;
        if (!option_in(options->given, i) || rule == RESUME_NOT || rule == RESUME_FREE || is_same(options, recorded, i))
            continue;
        if (rule != RESUME_LENGTH || has_fixed_length(recorded))
            return refuse_change(options, recorded, i);
        *other_length = true;
    }
    return true;
}

static size_t find_recorded(const char *name)
{
    size_t id = 0;
    while (id < OPTION_COUNT && !(is_recorded(id) && strcmp(option_table[id].name, name) == 0))
        id++;
    return id;
}

/* A run by another version of the command may have options and values that this one lacks. */
static bool check_recorded(const train_options *options, const json_t *recorded)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)recorded, name, value)
    {
        train_options scratch;
        const size_t id = find_recorded(name);
        const char *text = json_string_value(value);
        if (id < OPTION_COUNT && text &&
            option_table[id].kind->parse(&option_table[id].range, text, option_field(&scratch, id)))
            continue;
        say("%s/run.json: this version does not know --%s %s; resume with the version that began the run",
            options->resume, name, text ? text : "(not a text)");
        return false;
    }
    return true;
}

bool options_resume(train_options *options, const json_t *recorded)
{
    bool other_length;
    if (!check_recorded(options, recorded) || !check_given(options, recorded, &other_length))
        return false;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option *o = &option_table[i];
        const char *text = is_recorded(i) ? recorded_text(recorded, i) : NULL;
        if (!text || option_in(options->given, i) || (other_length && o->on_resume == RESUME_LENGTH))
            continue;
        o->kind->parse(&o->range, text, option_field(options, i));
        options->known |= UINT64_C(1) << i;
    }
    return true;
}
