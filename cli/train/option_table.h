/* SPDX-License-Identifier: Apache-2.0 */
/* option_table.h: each option of `gradscaler train` once: its name, what it takes, and what it goes with. */
#ifndef CLI_TRAIN_OPTION_TABLE_H
#define CLI_TRAIN_OPTION_TABLE_H

#include "common/value.h"
#include "train/options.h"

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
    OPTION_OUT,
    OPTION_RESUME,
    OPTION_CHECKPOINT_EVERY,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_COUNT
};

enum preset { PRESET_IMAGES, PRESET_SYNTHETIC, PRESETS };

/* What a run that goes on does with the option. */
enum on_resume {
    RESUME_SAME,   /* as the run began */
    RESUME_LENGTH, /* the same, but where the learning rate does not depend on it */
    RESUME_FREE,   /* as the run began, or as given now */
    RESUME_NOT     /* not a part of the run: only as given now */
};

typedef struct option {
    const char *name, *value, *help; /* value NULL: a flag */
    const value_kind *kind;          /* NULL: a flag */
    size_t field;                    /* in train_options */
    value_range range;
    const char *preset[PRESETS]; /* the default as it would be typed; NULL: none */
    unsigned scaler_modes;       /* the modes of --scaler in which it has a meaning; 0: all */
    bool images_only;            /* not with the synthetic data */
    enum on_resume on_resume;
} option;

extern const option option_table[OPTION_COUNT];

/* A set of options, as in train_options: by their place in the table. */
static inline bool option_in(uint64_t set, size_t id) { return (set >> id & 1) != 0; }

static inline void *option_field(train_options *options, size_t id) { return (char *)options + option_table[id].field; }

#endif
