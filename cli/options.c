/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options, from which parsing, help and messages come. */
#include "options.h"
#include "message.h"
#include "model.h"
#include "value.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const char *const precision_names[] = {"fp32", "fp16", "bf16", NULL};
const char *const scaler_names[] = {"dynamic", "static", "off", NULL};
static const char *const optimizer_names[] = {"sgd", "adam", "adamw", NULL};
static const char *const schedule_names[] = {"constant", "linear", NULL};

/* float32's smallest normal and its largest number; the scaler rounds both to exactly those. */
#define SCALE_LOW 1.1754943e-38
#define SCALE_HIGH 3.4028235e38

#define MODE(mode) (1u << (mode))
#define MODES_SCALING (MODE(SCALER_DYNAMIC) | MODE(SCALER_STATIC))

enum preset { PRESET_IMAGES, PRESET_SYNTHETIC, PRESETS };

typedef struct option {
    const char *name, *value, *help; /* value NULL: a flag */
    const value_kind *kind;
    size_t field; /* in train_options */
    value_range range;
    const char *preset[PRESETS]; /* the default as it would be typed; NULL: none */
    unsigned scaler_modes;       /* the modes of --scaler in which it has a meaning; 0: all */
    bool images_only;            /* not with the synthetic data */
} option;

/* The kind of value, the field of train_options that it goes to, and what is allowed. */
#define TEXT(name) .kind = &value_text, .field = offsetof(train_options, name)
#define CHOICE(name, words) .kind = &value_choice, .field = offsetof(train_options, name), .range.choices = words
#define REAL(name, from, to)                                                                                           \
    .kind = &value_real, .field = offsetof(train_options, name), .range = {.low = from, .high = to}
#define REAL_BETWEEN(name, from, to)                                                                                   \
    .kind = &value_real, .field = offsetof(train_options, name), .range = {.low = from, .high = to, .open = true}
#define INTEGER(name, from, to)                                                                                        \
    .kind = &value_integer, .field = offsetof(train_options, name), .range = {.least = from, .most = to}
#define FLAG(name) .field = offsetof(train_options, name)
#define DEFAULT(text) .preset = {text, text}
#define DEFAULTS(images, synthetic) .preset = {images, synthetic}

enum option_id {
    OPTION_DATA,
    OPTION_MODEL,
    OPTION_PRECISION,
    OPTION_SCALER,
    OPTION_INIT_SCALE,
    OPTION_GROWTH_FACTOR,
    OPTION_BACKOFF_FACTOR,
    OPTION_GROWTH_INTERVAL,
    OPTION_MIN_SCALE,
    OPTION_MAX_SCALE,
    OPTION_HYSTERESIS,
    OPTION_MAX_CONSECUTIVE_SKIPS,
    OPTION_OPTIMIZER,
    OPTION_LR,
    OPTION_LR_SCHEDULE,
    OPTION_BATCH,
    OPTION_EPOCHS,
    OPTION_STEPS,
    OPTION_CLIP_NORM,
    OPTION_SEED,
    OPTION_THREADS,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_COUNT
};

static const option table[OPTION_COUNT] = {
    [OPTION_DATA] = {"data", "NAME|DIR", "fashion-mnist, synthetic, or a folder with MNIST's four files", TEXT(data)},
    [OPTION_MODEL] = {"model", "NAME", "the network: mlp", CHOICE(model, model_names), DEFAULT("mlp")},
    [OPTION_PRECISION] = {"precision", "NAME", "what matrix products compute in: fp32, fp16 or bf16",
                          CHOICE(precision, precision_names), DEFAULT("fp16")},
    [OPTION_SCALER] = {"scaler", "MODE", "loss scaling: dynamic, static (a fixed scale) or off",
                       CHOICE(scaler, scaler_names), DEFAULT("dynamic")},
    [OPTION_INIT_SCALE] = {"init-scale", "X", "the scale at the start", REAL(init_scale, SCALE_LOW, SCALE_HIGH),
                           DEFAULT("65536"), .scaler_modes = MODES_SCALING},
    [OPTION_GROWTH_FACTOR] = {"growth-factor", "X", "the scale grows by this factor",
                              REAL_BETWEEN(growth_factor, 1, INFINITY), DEFAULT("2"),
                              .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_BACKOFF_FACTOR] = {"backoff-factor", "X", "and shrinks by this one after an overflow",
                               REAL_BETWEEN(backoff_factor, 0, 1), DEFAULT("0.5"),
                               .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_GROWTH_INTERVAL] = {"growth-interval", "N", "steps in a row without overflow until the scale grows",
                                INTEGER(growth_interval, 1, INT64_MAX), DEFAULT("50"),
                                .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_MIN_SCALE] = {"min-scale", "X", "the scale never falls below this", REAL(min_scale, SCALE_LOW, SCALE_HIGH),
                          DEFAULT("1.1754943e-38"), .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_MAX_SCALE] = {"max-scale", "X", "and never grows above this", REAL(max_scale, SCALE_LOW, SCALE_HIGH),
                          DEFAULT("3.4028235e38"), .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_HYSTERESIS] = {"hysteresis", "N", "overflows until the scale shrinks", INTEGER(hysteresis, 1, INT32_MAX),
                           DEFAULT("1"), .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_MAX_CONSECUTIVE_SKIPS] = {"max-consecutive-skips", "N", "give up after so many in a row; 0: never",
                                      INTEGER(max_consecutive_skips, 0, INT64_MAX), DEFAULT("0"),
                                      .scaler_modes = MODES_SCALING},
    [OPTION_OPTIMIZER] = {"optimizer", "NAME", "sgd (momentum 0.9), adam or adamw", CHOICE(optimizer, optimizer_names),
                          DEFAULTS("adam", "sgd")},
    [OPTION_LR] = {"lr", "X", "learning rate", REAL(lr, 0, 1e6), DEFAULTS("1e-3", "0.05")},
    [OPTION_LR_SCHEDULE] = {"lr-schedule", "NAME", "constant, or linear: falls to 0 at the end of the run",
                            CHOICE(lr_schedule, schedule_names), DEFAULT("linear")},
    [OPTION_BATCH] = {"batch", "N", "examples per step", INTEGER(batch, 1, 1000000), DEFAULTS("128", "256")},
    [OPTION_EPOCHS] = {"epochs", "N", "passes over the training data", INTEGER(epochs, 1, 1000000),
                       DEFAULTS("5", NULL)},
    [OPTION_STEPS] = {"steps", "N", "stop after so many steps, skipped ones included", INTEGER(steps, 1, 1000000000000),
                      DEFAULTS(NULL, "600")},
    [OPTION_CLIP_NORM] = {"clip-norm", "X", "clip the gradients' total norm to this (default: no clipping)",
                          REAL_BETWEEN(clip_norm, 0, INFINITY), .images_only = true},
    [OPTION_SEED] = {"seed", "N", "of the weights and of the order of the examples", INTEGER(seed, 0, INT64_MAX),
                     DEFAULT("0")},
    [OPTION_THREADS] = {"threads", "N", "threads to compute with; 0: one per core", INTEGER(threads, 0, 4096),
                        DEFAULT("0")},
    [OPTION_JSON] = {"json", NULL, "print the summary as one JSON object", FLAG(json)},
    [OPTION_HELP] = {"help", NULL, "print this page", FLAG(help)},
};

static void *field_of(train_options *options, const option *o) { return (char *)options + o->field; }

static bool given(const train_options *options, enum option_id id) { return (options->given >> id & 1) != 0; }

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
        if (strlen(table[i].name) == length && strncmp(table[i].name, name, length) == 0)
            return &table[i];
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
    *(bool *)field_of(options, o) = true;
    return true;
}

bool options_parse(int argc, char **argv, train_options *out)
{
    *out = (train_options){0};
    for (int i = 0; i < argc && !out->help; i++) {
        const char *value = NULL;
        const option *o = find_option(strcmp(argv[i], "-h") == 0 ? "--help" : argv[i], &value);
        if (!o)
            return unknown_argument(argv[i]);
        out->given |= UINT64_C(1) << (o - table);
        if (!o->kind) {
            if (!set_flag(out, o, value))
                return false;
            continue;
        }
        /* "--lr --json" is a forgotten value; one that really begins so can be written --data=--name. */
        if (!value && i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0)
            value = argv[++i];
        if (!value) {
            char allowed[160];
            o->kind->describe(&o->range, allowed, sizeof allowed);
            say("--%s needs a value: %s", o->name, allowed);
            return false;
        }
        if (!o->kind->parse(&o->range, value, field_of(out, o)))
            return wrong_value(o, value);
    }
    return true;
}

/* Options that would be read and have no effect are refused. */
static bool check_meaning(const train_options *options, bool synthetic)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option *o = &table[i];
        if (!given(options, (enum option_id)i))
            continue;
        if (o->scaler_modes && !(o->scaler_modes & MODE(options->scaler))) {
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

static bool check_limits(const train_options *options)
{
    const char *hint = given(options, OPTION_INIT_SCALE) ? "" : " (the default; set it with --init-scale)";
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

bool options_complete(train_options *options, bool synthetic)
{
    /* The user's own limit replaces the default one: --steps alone may go beyond the default's epochs. */
    bool limited = given(options, OPTION_EPOCHS) || given(options, OPTION_STEPS);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *preset = table[i].preset[synthetic ? PRESET_SYNTHETIC : PRESET_IMAGES];
        bool limit = i == OPTION_EPOCHS || i == OPTION_STEPS;
        if (preset && !given(options, (enum option_id)i) && !(limit && limited))
            table[i].kind->parse(&table[i].range, preset, field_of(options, &table[i]));
    }
    return check_meaning(options, synthetic) && check_limits(options);
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
        snprintf(left, sizeof left, "--%s %s", table[i].name, table[i].value ? table[i].value : "");
        fprintf(out, "  %-26s %s", left, table[i].help);
        print_default(out, &table[i]);
        fputc('\n', out);
    }
    fputs("\nWithout --data it is fashion-mnist where that is installed, else synthetic.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
          out);
}
