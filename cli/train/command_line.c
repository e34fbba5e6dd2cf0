/* SPDX-License-Identifier: Apache-2.0 */
/* command_line.c: train's command line: defaults, and combinations that are refused. */
#include "train/command_line.h"
#include "common/message.h"

bool command_line_parse(int argc, char **argv, train_options *out)
{
    train_options options = {0};
    if (!option_table_parse(&train_option_table, argc, argv, &options, &options.given))
        return false;
    options.known = options.given;
    *out = options;
    return true;
}

/* Refuses options that would have no effect. */
static bool check_meaning(const train_options *options, bool synthetic)
{
    for (size_t id = 0; id < OPTION_COUNT; id++) {
        const train_option *o = &train_option_rows[id];
        if (!option_in(options->given, id))
            continue;
        if (o->scaler_modes && (o->scaler_modes >> options->scaler & 1) == 0) {
            say("--%s has no meaning with --scaler %s; leave one of them out", o->option.name,
                scaler_names[options->scaler]);
            return false;
        }
        if (synthetic && o->images_only) {
            say("--%s cannot be used with the synthetic data, whose gradients are made tiny on purpose",
                o->option.name);
            return false;
        }
    }
    return true;
}

static bool check_folders(const train_options *options)
{
    if (!option_in(options->given, OPTION_CHECKPOINT_EVERY) || options->out || options->resume)
        return true;
    say("--checkpoint-every has no meaning without --out or --resume; give one of them or leave it out");
    return false;
}

/* Options that belong to another one. */
static bool check_partners(const train_options *options)
{
    if (options->skip_window == 1) {
        say("--skip-window '1' is not possible; give 0 or a whole number from 2 to 4096");
        return false;
    }
    if (option_in(options->given, OPTION_MAX_SKIP_SHARE) && options->skip_window == 0) {
        say("--max-skip-share has no meaning without --skip-window; give both or leave it out");
        return false;
    }
    if (option_in(options->given, OPTION_HYSTERESIS_UNTIL_GROWTH) && options->hysteresis < 2) {
        say("--hysteresis-until-growth has no meaning without --hysteresis of at least 2; give both or leave it out");
        return false;
    }
    return true;
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

bool command_line_complete(train_options *options, bool synthetic)
{
    /* One given limit replaces the default one: --steps alone may go beyond the default number of epochs. */
    const bool is_limited = option_in(options->known, OPTION_EPOCHS) || option_in(options->known, OPTION_STEPS);
    for (size_t id = 0; id < OPTION_COUNT; id++) {
        const train_option *o = &train_option_rows[id];
        const char *preset = o->preset[synthetic ? PRESET_SYNTHETIC : PRESET_IMAGES];
        const bool is_limit = id == OPTION_EPOCHS || id == OPTION_STEPS;
        if (!preset || option_in(options->known, id) || (is_limit && is_limited))
            continue;
        o->option.kind->parse(&o->option.range, preset, option_field(&train_option_table, id, options));
        option_add(&options->known, id);
    }
    return check_meaning(options, synthetic) && check_partners(options) && check_limits(options) &&
           check_folders(options);
}

void command_line_help(FILE *out)
{
    fputs("Usage: gradscaler train [OPTION VALUE | OPTION=VALUE]...\n"
          "Trains a network with a loss scaler and prints a summary.\n\n",
          out);
    option_table_print(&train_option_table, out);
    fputs("\nWithout --data: fashion-mnist if it is installed, else synthetic.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
          out);
}
