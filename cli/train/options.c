/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: the table of train's options. */
#include "train/options.h"
#include "train/model.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const char *const precision_names[] = {"fp32", "fp16", "bf16", NULL};
const char *const scaler_names[] = {"dynamic", "static", "off", NULL};
static const char *const optimizer_names[] = {"sgd", "adam", "adamw", NULL};
const char *const schedule_names[] = {"constant", "linear", NULL};

/* The data that need no folder. */
static const char *const data_names[] = {"fashion-mnist", "synthetic", NULL};

/* float32's smallest normal and largest number: the scaler rounds these decimals to exactly them. */
#define SCALE_LOW 1.1754943e-38
#define SCALE_HIGH 3.4028235e38

#define MODE(mode) (1u << (mode))
#define MODES_SCALING (MODE(SCALER_DYNAMIC) | MODE(SCALER_STATIC))

/* The kind of value, its range, and its field in train_options. */
#define TEXT(name) .kind = &value_text, .field = offsetof(train_options, name)
#define CHOICE(name, words) .kind = &value_choice, .field = offsetof(train_options, name), .range.choices = words
#define REAL(name, from, to)                                                                                           \
    .kind = &value_real, .field = offsetof(train_options, name), .range = {.low = from, .high = to}
#define REAL_BETWEEN(name, from, to)                                                                                   \
    .kind = &value_real, .field = offsetof(train_options, name), .range = {.low = from, .high = to, .open = true}
#define INTEGER(name, from, to)                                                                                        \
    .kind = &value_integer, .field = offsetof(train_options, name), .range = {.least = from, .most = to}
#define FLAG(name) .field = offsetof(train_options, name)
#define ALIASES(words) .aliases = words
#define DEFAULT(text) .preset = {text, text}
#define DEFAULTS(images, synthetic) .preset = {images, synthetic}

const train_option train_option_rows[OPTION_COUNT] = {
    [OPTION_DATA] = {{"data", "NAME|DIR", "fashion-mnist, synthetic, or a folder of IDX files as MNIST's", TEXT(data),
                      .range.choices = data_names, ALIASES("dataset data-dir data-path data-set train-data input")},
                     .on_resume = RESUME_FREE},
    [OPTION_MODEL] = {{"model", "NAME", "the network: mlp", CHOICE(model, model_names),
                       ALIASES("arch architecture net network")},
                      DEFAULT("mlp")},
    [OPTION_PRECISION] = {{"precision", "NAME", "precision of matrix products: fp32, fp16 or bf16",
                           CHOICE(precision, precision_names), ALIASES("dtype mixed-precision amp type")},
                          DEFAULT("fp16")},
    [OPTION_SCALER] = {{"scaler", "MODE", "loss scaling: dynamic, static (a fixed scale) or off",
                        CHOICE(scaler, scaler_names), ALIASES("loss-scaler grad-scaler scaling")},
                       DEFAULT("dynamic")},
    [OPTION_INIT_SCALE] = {{"init-scale", "X", "initial scale", REAL(init_scale, SCALE_LOW, SCALE_HIGH),
                            ALIASES("loss-scale initial-scale init-loss-scale initial-loss-scale scale")},
                           DEFAULT("65536"),
                           .scaler_modes = MODES_SCALING},
    [OPTION_GROWTH_FACTOR] = {{"growth-factor", "X", "factor by which the scale grows",
                               REAL_BETWEEN(growth_factor, 1, INFINITY)},
                              DEFAULT("2"),
                              .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_BACKOFF_FACTOR] = {{"backoff-factor", "X", "factor by which the scale shrinks after an overflow",
                                REAL_BETWEEN(backoff_factor, 0, 1)},
                               DEFAULT("0.5"),
                               .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_GROWTH_INTERVAL] = {{"growth-interval", "N", "steps in a row without overflow until the scale grows",
                                 INTEGER(growth_interval, 1, INT64_MAX), ALIASES("scale-window loss-scale-window")},
                                DEFAULT("50"),
                                .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_MIN_SCALE] = {{"min-scale", "X", "lower limit of the scale", REAL(min_scale, SCALE_LOW, SCALE_HIGH),
                           ALIASES("min-loss-scale")},
                          DEFAULT("1.1754943e-38"),
                          .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_MAX_SCALE] = {{"max-scale", "X", "upper limit of the scale", REAL(max_scale, SCALE_LOW, SCALE_HIGH),
                           ALIASES("max-loss-scale")},
                          DEFAULT("3.4028235e38"),
                          .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_HYSTERESIS] = {{"hysteresis", "N", "overflows until the scale shrinks", INTEGER(hysteresis, 1, INT32_MAX)},
                           DEFAULT("1"),
                           .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_HYSTERESIS_UNTIL_GROWTH] =
        {{"hysteresis-until-growth", NULL,
          "restore the credit of --hysteresis when the scale grows, not after every clean step",
          FLAG(hysteresis_until_growth)},
         .scaler_modes = MODE(SCALER_DYNAMIC)},
    [OPTION_MAX_CONSECUTIVE_SKIPS] = {{"max-consecutive-skips", "N",
                                       "give up after this many skipped steps in a row; 0: never",
                                       INTEGER(max_consecutive_skips, 0, INT64_MAX), ALIASES("max-skips patience")},
                                      DEFAULT("100"),
                                      .scaler_modes = MODES_SCALING,
                                      .on_resume = RESUME_FREE},
    [OPTION_SKIP_WINDOW] = {{"skip-window", "N",
                             "look at the share of skipped steps among the last N, 2 to 4096; 0: never",
                             INTEGER(skip_window, 0, 4096), ALIASES("overflow-window")},
                            DEFAULT("0"),
                            .scaler_modes = MODES_SCALING,
                            .on_resume = RESUME_FREE},
    [OPTION_MAX_SKIP_SHARE] = {{"max-skip-share", "X", "give up if more than this share of --skip-window is skipped",
                                REAL_BETWEEN(max_skip_share, 0, 1),
                                ALIASES("overflow-share max-overflow-share skip-share")},
                               DEFAULT("0.5"),
                               .scaler_modes = MODES_SCALING,
                               .on_resume = RESUME_FREE},
    [OPTION_OPTIMIZER] = {{"optimizer", "NAME", "sgd (momentum 0.9), adam or adamw", CHOICE(optimizer, optimizer_names),
                           ALIASES("optim opt")},
                          DEFAULTS("adam", "sgd")},
    [OPTION_LR] = {{"lr", "X", "learning rate", REAL(lr, 0, 1e6), ALIASES("learning-rate learningrate alpha")},
                   DEFAULTS("1e-3", "0.05")},
    [OPTION_LR_SCHEDULE] = {{"lr-schedule", "NAME", "constant, or linear: falls to 0 at the end of the run",
                             CHOICE(lr_schedule, schedule_names),
                             ALIASES("scheduler lr-scheduler schedule decay lr-decay")},
                            DEFAULT("linear")},
    [OPTION_BATCH] = {{"batch", "N", "examples per step", INTEGER(batch, 1, 1000000),
                       ALIASES("batch-size batchsize bs b minibatch mini-batch-size train-batch-size")},
                      DEFAULTS("128", "256")},
    [OPTION_EPOCHS] = {{"epochs", "N", "passes over the training data", INTEGER(epochs, 1, 1000000),
                        ALIASES("num-epochs n-epochs max-epochs num-train-epochs e")},
                       DEFAULTS("5", NULL),
                       .on_resume = RESUME_LENGTH},
    [OPTION_STEPS] = {{"steps", "N", "stop after this many steps, skipped ones included",
                       INTEGER(steps, 1, 1000000000000),
                       ALIASES("max-steps num-steps iterations iters max-iters iter")},
                      DEFAULTS(NULL, "600"),
                      .on_resume = RESUME_LENGTH},
    [OPTION_CLIP_NORM] =
        {{"clip-norm", "X", "clip the total norm of the gradients to this (default: no clipping)",
          REAL_BETWEEN(clip_norm, 0, INFINITY),
          ALIASES("clip clip-grad clip-grad-norm max-grad-norm grad-clip gradient-clip gradient-clip-val max-norm")},
         .images_only = true},
    [OPTION_SEED] = {{"seed", "N", "seed of the initial weights and of the order of the examples",
                      INTEGER(seed, 0, INT64_MAX), ALIASES("random-seed manual-seed random-state")},
                     DEFAULT("0")},
    [OPTION_THREADS] = {{"threads", "N", "number of threads; 0: one per core, within the CPU quota",
                         INTEGER(threads, 0, 4096), ALIASES("num-threads workers num-workers jobs j")},
                        DEFAULT("0"),
                        .on_resume = RESUME_FREE},
    [OPTION_OUT] = {{"out", "DIR", "keep the run in this folder: checkpoint and metrics.jsonl", TEXT(out),
                     ALIASES("output output-dir out-dir save save-dir o logdir log-dir")},
                    .on_resume = RESUME_NOT},
    [OPTION_RESUME] = {{"resume", "DIR", "continue the run in this folder", TEXT(resume),
                        ALIASES("resume-from resume-from-checkpoint checkpoint load restore continue")},
                       .on_resume = RESUME_NOT},
    [OPTION_CHECKPOINT_EVERY] = {{"checkpoint-every", "N", "steps between checkpoints (default: once an epoch)",
                                  INTEGER(checkpoint_every, 1, 1000000000000),
                                  ALIASES("save-every save-steps save-interval checkpoint-interval checkpoint-freq")},
                                 .on_resume = RESUME_FREE},
    [OPTION_JSON] = {{"json", NULL, "print the summary as one JSON object", FLAG(json),
                      ALIASES("format-json json-output")},
                     .on_resume = RESUME_NOT},
    [OPTION_HELP] = {{"help", NULL, "print this page", FLAG(help), ALIASES("usage")}, .on_resume = RESUME_NOT},
};

static void print_default(size_t id, FILE *out)
{
    const char *images = train_option_rows[id].preset[PRESET_IMAGES];
    const char *synthetic = train_option_rows[id].preset[PRESET_SYNTHETIC];
    if (images && synthetic && strcmp(images, synthetic) != 0)
        fprintf(out, " (default %s; synthetic %s)", images, synthetic);
    else if (images)
        fprintf(out, " (default %s)", images);
    else if (synthetic)
        fprintf(out, " (synthetic: default %s)", synthetic);
}

const option_table train_option_table = {"gradscaler train", train_option_rows, sizeof *train_option_rows,
                                         OPTION_COUNT,       OPTION_HELP,       print_default};
