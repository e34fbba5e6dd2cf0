/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the options of `gradscaler train`. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

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
    bool json, help;
    uint64_t given; /* a bit for each option on the command line, by its place in the table */
} train_options;

/* Reads `--name value` and `--name=value`; of an option given twice the last one counts. A wrong one: false, and a line
 * on stderr. Options that are not given stay zero until options_complete. The texts of argv are borrowed. */
bool options_parse(int argc, char **argv, train_options *out);

/* Fills in the defaults, which depend on the data, and checks what belongs together. false: as above. */
bool options_complete(train_options *options, bool synthetic);

/* Writes the page of `gradscaler train --help`. */
void options_help(FILE *out);

#endif
