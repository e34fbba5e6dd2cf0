/* SPDX-License-Identifier: Apache-2.0 */
#include "summary.h"
#include "message.h"
#include "model.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

#define MAX_OVERFLOWS 8

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
    char sizes[96];
    model_describe(task, sizes, sizeof sizes);
    print_label("data");
    printf("%s, %zu training %s", task->data, gsc_dataset_count(task->train), task->unit);
    if (task->test)
        printf(", %zu test %s", gsc_dataset_count(task->test), task->unit);
    printf("\n");
    print_label("model");
    printf("%s %s\n", model_names[model], sizes);
}

static void print_scaling(const train_run *run)
{
    const train_options *options = run->options;
    gsc_scaler_stats stats;
    gsc_scaler_get_stats(run->scaler, &stats);
    print_label("precision");
    printf("%s\n", precision_names[options->precision]);
    print_label("scaler");
    printf("%s\n", scaler_names[options->scaler]);
    if (options->scaler == SCALER_OFF)
        return;
    print_label("scale");
    printf("%g at the start, %g at the end: %" PRId64 " growths, %" PRId64 " backoffs\n", options->init_scale,
           gsc_scaler_get_scale(run->scaler), stats.growths, stats.backoffs);
}

static void print_overflows(const train_run *run, int64_t step)
{
    gsc_overflow list[MAX_OVERFLOWS];
    const size_t n = gsc_scaler_overflows(run->scaler, gsc_optim_optimizer(run->optim), list, MAX_OVERFLOWS);
    if (n == 0)
        return;
    print_label("last overflow");
    printf("step %" PRId64 ":", step);
    for (size_t i = 0; i < n && i < MAX_OVERFLOWS; i++)
        printf("%s %s (%" PRIu64 " inf, %" PRIu64 " nan)", i > 0 ? "," : "", list[i].name ? list[i].name : "?",
               list[i].inf_count, list[i].nan_count);
    printf(n > MAX_OVERFLOWS ? ", and %zu more\n" : "\n", n - MAX_OVERFLOWS);
}

void summary_print(const train_run *run, const summary *s)
{
    print_data(run->task, run->options->model);
    print_scaling(run);
    print_label("steps");
    printf("%" PRId64 " made, %" PRId64 " skipped, in %" PRId64 " epoch%s\n", s->loop.steps, s->loop.skipped,
           s->loop.epochs, s->loop.epochs == 1 ? "" : "s");
    print_overflows(run, s->loop.last_overflow);
    print_label("loss");
    printf("%.4g at the start, %.4g at the end\n", s->before.loss, s->after.loss);
    if (run->task->test) {
        print_label("test accuracy");
        printf("%.2f %%\n", 100 * s->test_accuracy);
    }
    print_label("speed");
    printf("%.0f %s/s, %.1f s in all, %.0f MB of memory at most\n", s->loop.examples_per_s, run->task->unit, s->seconds,
           peak_rss_mb());
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
    gsc_scaler_stats stats;
    gsc_scaler_get_stats(run->scaler, &stats);
    json_t *accuracy = isnan(s->test_accuracy) ? json_null() : json_real(s->test_accuracy);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:f, s:f, s:f, s:f}", /**/
                     "data", run->task->data, "model", model_names[options->model],                           /**/
                     "precision", precision_names[options->precision],                                        /**/
                     "scaler", scaler_names[options->scaler],                                                 /**/
                     "seed", (json_int_t)options->seed,                                                       /**/
                     "epochs", (json_int_t)s->loop.epochs,                                                    /**/
                     "steps", (json_int_t)s->loop.steps,                                                      /**/
                     "skipped", (json_int_t)s->loop.skipped,                                                  /**/
                     "growths", (json_int_t)stats.growths,                                                    /**/
                     "backoffs", (json_int_t)stats.backoffs,                                                  /**/
                     "initial_loss", s->before.loss,                                                          /**/
                     "loss", s->after.loss,                                                                   /**/
                     "accuracy", accuracy,                                                                    /**/
                     "final_scale", gsc_scaler_get_scale(run->scaler),                                        /**/
                     "images_per_s", s->loop.examples_per_s,                                                  /**/
                     "seconds", s->seconds,                                                                   /**/
                     "peak_rss_mb", peak_rss_mb());
}

bool summary_print_json(const train_run *run, const summary *s)
{
    json_t *object = make_json(run, s);
    char *text = object ? json_dumps(object, 0) : NULL;
    json_decref(object);
    if (!text) {
        say("the summary could not be made: a value is not finite, or there is no memory");
        return false;
    }
    printf("%s\n", text);
    free(text);
    return true;
}
