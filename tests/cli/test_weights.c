/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that are not finite never replace a whole checkpoint, and a run does not go on from them. */
#define _DEFAULT_SOURCE /* mkdtemp */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "asserts.h"
#include "temp_dir.h"
#include "train/checkpoint.h"
#include "train/command_line.h"
#include "train/loop.h"
#include "train/synthetic.h"

typedef struct fixture {
    char *dir;
    train_options options;
    train_task task;
    output output;
    train_run run;
    run_state state;
} fixture;

/* A run of four steps; `every_text`: the steps between its checkpoints. */
static void fixture_create(fixture *f, const char *every_text)
{
    char every[8];
    snprintf(every, sizeof every, "%s", every_text);
    *f = (fixture){.dir = temp_dir_create()};
    /* The options borrow these. */
    static char data[] = "--data=synthetic", steps[] = "--steps=4", period[] = "--checkpoint-every", out[] = "--out";
    char *given[] = {data, steps, period, every, out, f->dir};
    assert_true(command_line_parse(6, given, &f->options));
    assert_true(command_line_complete(&f->options, true));
    f->task = (train_task){.data = "synthetic"};
    assert_ok(synthetic_load(&f->task));
    assert_ok(output_create(f->dir, &f->output));
    assert_ok(fingerprint_compute(&f->task, &f->output.data));
    assert_ok(run_create(&f->options, &f->task, &f->run));
    f->run.output = &f->output;
    f->state = run_begin(&f->run);
    f->state.initial_loss = 1;
}

static void fixture_free(fixture *f)
{
    char command[1300];
    run_release(&f->run);
    output_close(&f->output);
    task_release(&f->task);
    snprintf(command, sizeof command, "rm -r '%s'", f->dir);
    assert_int_equal(system(command), 0);
    free(f->dir);
}

static float *weight(const fixture *f, size_t param)
{
    return gsc_tensor_data(gsc_module_param(f->run.model, param))->data;
}

/* trial T9 */
static void weights_that_are_not_finite_are_not_saved(void **state)
{
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t param = 0; param < 4; param++) {
        fixture f;
        fixture_create(&f, "2");
        assert_ok(loop_run(&f.run, &f.state));
        assert_int_equal(checkpoint_step(f.dir), 4);
        f.state.step = 0; /* as if it began anew, with a broken weight */
        weight(&f, param)[0] = values[param % 3];
        assert_fails(GSC_ERR_DIVERGED, loop_run(&f.run, &f.state),
                     gsc_tensor_get_name(gsc_module_param(f.run.model, param)), "infinite or NaN",
                     "in the checkpoint of step 0");
        assert_int_equal(checkpoint_step(f.dir), 4);
        fixture_free(&f);
    }
}

/* A huge rate makes the weights infinite in the first step, whose own loss and gradients are finite.
 * trial T9 */
static void a_step_that_ruins_the_weights_is_named_at_the_next_checkpoint(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f, "1");
    weight(&f, 3)[0] = 1e8f; /* the output's bias: its gradient is about 2e8 */
    f.state.lr = 7e31;
    assert_fails(GSC_ERR_DIVERGED, loop_run(&f.run, &f.state), "infinite or NaN since step 1", "lower --lr");
    assert_int_equal(checkpoint_step(f.dir), 0);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_that_are_not_finite_are_not_saved),
        cmocka_unit_test(a_step_that_ruins_the_weights_is_named_at_the_next_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
