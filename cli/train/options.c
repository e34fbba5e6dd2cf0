/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: parsing, defaults and help, all by the table of options. */
#include "train/options.h"
#include "common/message.h"
#include "train/option_table.h"

#include <string.h>

static bool wrong_value(const option *o, const char *text)
{
    char allowed[160];
    o->kind->describe(&o->range, allowed, sizeof allowed);
    say("--%s '%s' is not possible; give %s", o->name, text, allowed);
    return false;
}

/* The option that `argument` names, *value at what follows its "=" (NULL: no "="); NULL: unknown. */
static const option *find_option(const char *argument, const char **value)
{
    if (strncmp(argument, "--", 2) != 0)
        return NULL;
    const char *name = argument + 2;
    size_t length = strcspn(name, "=");
    *value = name[length] == '=' ? name + length + 1 : NULL;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strlen(option_table[i].name) == length && strncmp(option_table[i].name, name, length) == 0)
            return &option_table[i];
    }
    return NULL;
}

static bool unknown_argument(const char *argument)
{
    if (argument[0] == '-')
        say("unknown option '%s'; `gradscaler train --help` lists the options", argument);
    else
        say("unexpected argument '%s'; every value needs its option, see `gradscaler train --help`", argument);
    return false;
}

static bool set_flag(train_options *options, const option *o, const char *value)
{
    if (value) {
        say("--%s takes no value, but got '%s'", o->name, value);
        return false;
    }
    *(bool *)option_field(options, (size_t)(o - option_table)) = true;
    return true;
}

static bool set_value(train_options *options, const option *o, const char *value)
{
    if (!value) {
        char allowed[160];
        o->kind->describe(&o->range, allowed, sizeof allowed);
        say("--%s needs a value: %s", o->name, allowed);
        return false;
    }
    return o->kind->parse(&o->range, value, option_field(options, (size_t)(o - option_table))) || wrong_value(o, value);
}

bool options_parse(int argc, char **argv, train_options *out)
{
    train_options options = {0};
    for (int i = 0; i < argc && !options.help; i++) {
        const char *value = NULL;
        const option *o = find_option(strcmp(argv[i], "-h") == 0 ? "--help" : argv[i], &value);
        if (!o)
            return unknown_argument(argv[i]);
        /* "--lr --json" is a forgotten value; one that really begins so can be written --data=--name. */
        if (o->kind && !value && i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0)
            value = argv[++i];
        if (!(o->kind ? set_value(&options, o, value) : set_flag(&options, o, value)))
            return false;
        options.given |= UINT64_C(1) << (o - option_table);
    }
    options.known = options.given;
    *out = options;
    return true;
}

/* Options that would be read and have no effect are refused. */
static bool check_meaning(const train_options *options, bool synthetic)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option *o = &option_table[i];
        if (!option_in(options->given, i))
            continue;
        if (o->scaler_modes && (o->scaler_modes >> options->scaler & 1) == 0) {
            say("--%s has no meaning with --scaler %s; leave one of them out", o->name, scaler_names[options->scaler]);
            return false;
        }
        if (synthetic && o->images_only) {
            say("--%s cannot be used with the synthetic data, whose gradients are made tiny on purpose", o->name);
            return false;
        }
    }
    return true;
}

/* Options about keeping a run. */
static bool check_folders(const train_options *options)
{
    if (!option_in(options->given, OPTION_CHECKPOINT_EVERY) || options->out || options->resume)
        return true;
    say("--checkpoint-every has no meaning without --out or --resume; give one of them or leave it out");
    return false;
}

static bool check_limits(const train_options *options)
{
    const char *hint = option_in(options->given, OPTION_INIT_SCALE) ? "" : " (the default; set it with --init-scale)";
    const double low = options->min_scale, init = options->init_scale, high = options->max_scale;
    if (low > init) {
        say("--min-scale %.9g is above the initial scale %.9g%s; give at most that", low, init, hint);
        return false;
    }
    if (high < init) {
        say("--max-scale %.9g is below the initial scale %.9g%s; give at least that", high, init, hint);
        return false;
    }
    return true;
}

void options_set_data(train_options *options, const char *name)
{
    options->data = name;
    options->known |= UINT64_C(1) << OPTION_DATA;
}

bool options_complete(train_options *options, bool synthetic)
{
    /* The user's own limit replaces the default one: --steps alone may go beyond the default's epochs. */
    const bool limited = option_in(options->known, OPTION_EPOCHS) || option_in(options->known, OPTION_STEPS);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *preset = option_table[i].preset[synthetic ? PRESET_SYNTHETIC : PRESET_IMAGES];
        const bool is_limit = i == OPTION_EPOCHS || i == OPTION_STEPS;
        if (!preset || option_in(options->known, i) || (is_limit && limited))
            continue;
        option_table[i].kind->parse(&option_table[i].range, preset, option_field(options, i));
        options->known |= UINT64_C(1) << i;
    }
    return check_meaning(options, synthetic) && check_limits(options) && check_folders(options);
}

static void print_default(FILE *out, const option *o)
{
    const char *images = o->preset[PRESET_IMAGES], *synthetic = o->preset[PRESET_SYNTHETIC];
    if (images && synthetic && strcmp(images, synthetic) != 0)
        fprintf(out, " (default %s; synthetic %s)", images, synthetic);
    else if (images)
        fprintf(out, " (default %s)", images);
    else if (synthetic)
        fprintf(out, " (synthetic: default %s)", synthetic);
}

void options_help(FILE *out)
{
    fputs("Usage: gradscaler train [OPTION VALUE | OPTION=VALUE]...\n"
          "Trains a network with a loss scaler and prints a summary.\n\n",
          out);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", option_table[i].name,
                 option_table[i].value ? option_table[i].value : "");
        fprintf(out, "  %-26s %s", left, option_table[i].help);
        print_default(out, &option_table[i]);
        fputc('\n', out);
    }
    fputs("\nWithout --data it is fashion-mnist where that is installed, else synthetic.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
          out);
}
