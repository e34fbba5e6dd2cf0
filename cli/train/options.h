/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the options of `gradscaler train`: their values, and the table that has each of them once. */
#ifndef CLI_TRAIN_OPTIONS_H
#define CLI_TRAIN_OPTIONS_H

#include "common/option_table.h"

enum precision { PRECISION_FP32, PRECISION_FP16, PRECISION_BF16 };
enum scaler_mode { SCALER_DYNAMIC, SCALER_STATIC, SCALER_OFF };
enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };
enum lr_schedule { SCHEDULE_CONSTANT, SCHEDULE_LINEAR };

/* The words for these choices; each list ends in NULL. */
extern const char *const precision_names[];
extern const char *const scaler_names[];
extern const char *const schedule_names[];

typedef struct train_options {
    const char *data; /* NULL: not given */
    int32_t model;    /* index into model_names of model.h */
    int32_t precision, scaler, optimizer, lr_schedule;
    double init_scale, growth_factor, backoff_factor, min_scale, max_scale;
    int64_t growth_interval, hysteresis;
    bool hysteresis_until_growth;
    int64_t max_consecutive_skips, skip_window; /* 0: no limit */
    double max_skip_share;
    double lr, clip_norm; /* clip_norm 0: no clipping */
    int64_t batch;
    int64_t epochs, steps;    /* 0: this one does not limit the run; never both 0 */
    int64_t seed, threads;    /* threads 0: one per core */
    const char *out;          /* NULL: not given */
    const char *resume;       /* NULL: not given */
    int64_t checkpoint_every; /* 0: once an epoch */
    bool json, help;
    /* Sets of options: */
    option_set given; /* on the command line */
    option_set known; /* with a value: given, recorded by the run to be resumed, or the default */
} train_options;

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
    OPTION_HYSTERESIS_UNTIL_GROWTH,
    OPTION_MAX_CONSECUTIVE_SKIPS,
    OPTION_SKIP_WINDOW,
    OPTION_MAX_SKIP_SHARE,
    OPTION_OPTIMIZER,
    OPTION_LR,
    OPTION_LR_SCHEDULE,
    OPTION_BATCH,
    OPTION_EPOCHS,
    OPTION_STEPS,
    OPTION_CLIP_NORM,
    OPTION_SEED,
    OPTION_THREADS,
    OPTION_OUT,
    OPTION_RESUME,
    OPTION_CHECKPOINT_EVERY,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_COUNT
};

enum preset { PRESET_IMAGES, PRESET_SYNTHETIC, PRESETS };

/* What --resume does with the option. */
enum on_resume {
    RESUME_SAME,   /* keeps the run's value; another one is refused */
    RESUME_LENGTH, /* the same, but another value is allowed if the learning rate is constant */
    RESUME_FREE,   /* keeps the run's value unless one is given */
    RESUME_NOT     /* the run does not record it */
};

typedef struct train_option {
    option option;
    const char *preset[PRESETS]; /* the default as it would be typed; NULL: none */
    unsigned scaler_modes;       /* bits of the scaler modes that it can be given with; 0: all */
    bool images_only;            /* not with the synthetic data */
    enum on_resume on_resume;
} train_option;

extern const train_option train_option_rows[OPTION_COUNT];
extern const option_table train_option_table;

#endif
