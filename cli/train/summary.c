/* SPDX-License-Identifier: Apache-2.0 */
/* summary.c: the summary as lines or as JSON. */
#include "train/summary.h"
#include "common/escape.h"
#include "common/message.h"
#include "train/model.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

static double peak_rss_mb(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
#ifdef __APPLE__
    return (double)usage.ru_maxrss / 1e6; /* bytes there, kilobytes elsewhere */
#else
    return (double)usage.ru_maxrss * 1024 / 1e6;
#endif
}

static void print_label(const char *label) { printf("%-14s ", label); }

static void print_data(const train_task *task, int32_t model)
{
    char sizes[96], name[ESCAPE_GROWTH * PATH_SIZE];
    model_describe(task, sizes, sizeof sizes);
    escape_text(name, sizeof name, task->data);
    print_label("data");
    printf("%s, %zu training %s", name, gsc_dataset_count(task->train), task->unit);
    if (task->test)
        printf(", %zu test %s", gsc_dataset_count(task->test), task->unit);
    printf("\n");
    print_label("model");
    printf("%s %s\n", model_names[model], sizes);
}

static void print_scaling(const train_run *run, const run_state *state)
{
    const train_options *options = run->options;
    print_label("precision");
    printf("%s\n", precision_names[options->precision]);
    print_label("scaler");
    printf("%s\n", scaler_names[options->scaler]);
    if (options->scaler == SCALER_OFF)
        return;
    print_label("scale");
    printf("%g at the start, %g at the end: %" PRId64 " growths, %" PRId64 " backoffs\n", options->init_scale,
           gsc_scaler_get_scale(run->scaler), state->growths, state->backoffs);
}

static double examples_per_s(const train_run *run, const run_state *state)
{
    return state->seconds > 0 ? (double)run_examples(run, state->step) / state->seconds : 0;
}

void summary_print(const train_run *run, const summary *s)
{
    print_data(run->task, run->options->model);
    print_scaling(run, &s->state);
    print_label("steps");
    const int64_t epochs = run_epochs(run, s->state.step);
    printf("%" PRId64 " made, %" PRId64 " skipped, in %" PRId64 " epoch%s\n", s->state.made, s->state.skipped, epochs,
           epochs == 1 ? "" : "s");
    if (s->state.last_overflow.step > 0) {
        char text[OVERFLOW_TEXT_SIZE];
        overflow_print(&s->state.last_overflow, text);
        print_label("last overflow");
        printf("step %" PRId64 ": %s\n", s->state.last_overflow.step, text);
    }
    print_label("loss");
    printf("%.4g at the start, %.4g at the end\n", s->state.initial_loss, s->after.loss);
    if (run->task->has_accuracy) {
        print_label("test accuracy");
        printf("%.2f %%\n", 100 * s->test_accuracy);
    }
    print_label("speed");
    printf("%.0f %s/s, %.1f s in all, %.0f MB of memory at most\n", examples_per_s(run, &s->state), run->task->unit,
           s->seconds, peak_rss_mb());
}

bool summary_can_name(const char *data)
{
    json_t *name = json_string(data);
    json_decref(name);
    return name != NULL;
}

static json_t *make_json(const train_run *run, const summary *s)
{
    const train_options *options = run->options;
    json_t *accuracy = isnan(s->test_accuracy) ? json_null() : json_real(s->test_accuracy);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:f, s:f, s:f, s:f, s:o}", /**/
                     "data", run->task->data, "model", model_names[options->model],                                /**/
                     "precision", precision_names[options->precision],                                             /**/
                     "scaler", scaler_names[options->scaler],                                                      /**/
                     "seed", (json_int_t)options->seed,                                                            /**/
                     "epochs", (json_int_t)run_epochs(run, s->state.step),                                         /**/
                     "steps", (json_int_t)s->state.made,                                                           /**/
                     "skipped", (json_int_t)s->state.skipped,                                                      /**/
                     "growths", (json_int_t)s->state.growths,                                                      /**/
                     "backoffs", (json_int_t)s->state.backoffs,                                                    /**/
                     "initial_loss", s->state.initial_loss,                                                        /**/
                     "loss", s->after.loss,                                                                        /**/
                     "accuracy", accuracy,                                                                         /**/
                     "final_scale", gsc_scaler_get_scale(run->scaler),                                             /**/
                     "images_per_s", examples_per_s(run, &s->state),                                               /**/
                     "seconds", s->seconds,                                                                        /**/
                     "peak_rss_mb", peak_rss_mb(), "last_overflow", overflow_to_json(&s->state.last_overflow));
}

/* JSON in ASCII with the one control character that it may hold as it is: stdout may be a terminal. */
static void print_safely(const char *json)
{
    for (const char *c = json; *c; c++)
        *c == 0x7f ? fputs("\\u007f", stdout) : putchar(*c);
    putchar('\n');
}

bool summary_print_json(const train_run *run, const summary *s)
{
    json_t *object = make_json(run, s);
    char *text = object ? json_dumps(object, JSON_ENSURE_ASCII) : NULL;
    json_decref(object);
    if (!text) {
        say("the summary could not be made: a value is not finite, or there is no memory");
        return false;
    }
    print_safely(text);
    free(text);
    return true;
}
