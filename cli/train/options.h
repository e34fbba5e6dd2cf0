/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the options of `gradscaler train`. */
#ifndef CLI_TRAIN_OPTIONS_H
#define CLI_TRAIN_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum precision { PRECISION_FP32, PRECISION_FP16, PRECISION_BF16 };
enum scaler_mode { SCALER_DYNAMIC, SCALER_STATIC, SCALER_OFF };
enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };
enum lr_schedule { SCHEDULE_CONSTANT, SCHEDULE_LINEAR };

/* How each of these choices is spelled; ends in NULL. */
extern const char *const precision_names[];
extern const char *const scaler_names[];
extern const char *const schedule_names[];

typedef struct train_options {
    const char *data; /* NULL: not given */
    int32_t model;    /* index into model_names of model.h */
    int32_t precision, scaler, optimizer, lr_schedule;
    double init_scale, growth_factor, backoff_factor, min_scale, max_scale;
    int64_t growth_interval, hysteresis, max_consecutive_skips;
    double lr, clip_norm; /* clip_norm 0: no clipping */
    int64_t batch;
    int64_t epochs, steps; /* 0: no limit from this one; never both 0 */
    int64_t seed, threads; /* threads 0: all cores */
    const char *out;       /* NULL: not given; so with resume */
    const char *resume;
    int64_t checkpoint_every; /* 0: once an epoch */
    bool json, help;
    /* Sets of options, a bit for each, by its place in the table: */
    uint64_t given; /* on the command line */
    uint64_t known; /* that have a value: given, as the run to be resumed has it, or the default */
} train_options;

/* Reads `--name value` and `--name=value`; of an option given twice the last one counts. A wrong one: false, a line on
 * stderr, and *out as it was. Options that are not given are zero until options_complete. The texts of argv are
 * borrowed. */
bool options_parse(int argc, char **argv, train_options *out);

/* Fills in the defaults, which depend on the data, and checks what belongs together. false: as above. */
bool options_complete(train_options *options, bool synthetic);

/* Which data they turned out to be; borrowed. */
void options_set_data(train_options *options, const char *name);

/* The options that a run is made by, each as it would be typed: an object of texts. NULL: no memory, or a text is not
 * UTF-8. */
json_t *options_record(const train_options *options);

/* Between options_parse and options_complete: takes over what options_record kept of the run in the folder `resume`.
 * What was given beside --resume must be the same, where another value would make it another run. The texts of
 * `recorded` are borrowed. false: as above. */
bool options_resume(train_options *options, const json_t *recorded);

/* Writes the page of `gradscaler train --help`. */
void options_help(FILE *out);

#endif
