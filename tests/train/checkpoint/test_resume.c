/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint holds everything that a run needs to continue, and is loaded as a whole or not at all. */
#define _XOPEN_SOURCE 700
#include "checkpoint_rig.h"

#include <locale.h>

static const rule_case adam = {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};
static const rule_case sgd = {gsc_optim_create_sgd, {.lr = 0.1}};

/* A run to save, and two equal ones: one to load into, the other one to compare with. */
typedef struct fixture {
    char *dir;
    run_rig saved, into, twin;
} fixture;

static void fixture_create(fixture *f)
{
    *f = (fixture){.dir = temp_dir_create()};
    rig_create(&f->saved, &adam, 1);
    rig_create(&f->into, &adam, 2);
    rig_create(&f->twin, &adam, 2);
}

static void fixture_free(fixture *f)
{
    rig_free(&f->saved);
    rig_free(&f->into);
    rig_free(&f->twin);
    temp_tree_remove(f->dir);
}

enum { BEFORE = 6, AFTER = 6 };

/* Overflows just before and just after the cut. */
static void run_some(run_rig *rig, size_t begin, size_t end)
{
    for (size_t step = begin; step < end; step++)
        rig_step(rig, step, step == BEFORE - 1 || step == BEFORE);
}

/* resume 1 */
static void a_loaded_run_continues_like_the_saved_one(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof rule_cases / sizeof rule_cases[0]; c++) {
        char *dir = temp_dir_create();
        run_rig whole, resumed;
        rig_create(&whole, &rule_cases[c], 100);
        rig_create(&resumed, &rule_cases[c], 200);
        run_some(&whole, 0, BEFORE);
        assert_ok(gsc_checkpoint_save(dir, &whole.checkpoint));
        assert_ok(gsc_checkpoint_load(dir, &resumed.checkpoint, NULL));
        assert_true(rigs_equal(&whole, &resumed));
        run_some(&whole, BEFORE, BEFORE + AFTER);
        assert_false(rigs_equal(&whole, &resumed));
        run_some(&resumed, BEFORE, BEFORE + AFTER);
        assert_true(rigs_equal(&whole, &resumed));
        rig_free(&whole);
        rig_free(&resumed);
        temp_tree_remove(dir);
    }
}

static void assert_run(const char *dir, const char *expected)
{
    char *run = NULL;
    assert_ok(gsc_checkpoint_read_run(dir, &run));
    assert_string_equal(run, expected);
    gsc_free(run);
}

static void the_callers_json_is_returned(void **state)
{
    (void)state;
    fixture f;
    char *run = NULL;
    fixture_create(&f);
    f.saved.checkpoint.run =
        "{\"z\": [1, {\"a\": 0.1}], \"big\": -9223372036854775808, \"t\\u00e4g\\n\": \"\\\"\",\"n\":null}";
    assert_ok(gsc_checkpoint_save(f.dir, &f.saved.checkpoint));
    const char *expected = "{\"z\": [1, {\"a\": 0.10000000000000001}], \"big\": -9223372036854775808, "
                           "\"t\xc3\xa4g\\n\": \"\\\"\", \"n\": null}";
    assert_ok(gsc_checkpoint_load(f.dir, &f.saved.checkpoint, &run));
    assert_string_equal(run, expected);
    gsc_free(run);
    assert_run(f.dir, expected);
    f.saved.checkpoint.run = NULL;
    assert_ok(gsc_checkpoint_save(f.dir, &f.saved.checkpoint));
    assert_run(f.dir, "{}");
    fixture_free(&f);
}

/* Skipped if the locale is not installed. */
static void the_locale_does_not_matter(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    f.saved.checkpoint.run = "{\"a\": 0.1}";
    setlocale(LC_ALL, "de_DE.UTF-8");
    assert_ok(gsc_checkpoint_save(f.dir, &f.saved.checkpoint));
    assert_run(f.dir, "{\"a\": 0.10000000000000001}");
    setlocale(LC_ALL, "C");
    fixture_free(&f);
}

static void the_files_open_under_their_plain_names(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    rig_step(&f.saved, 0, false);
    for (int save = 0; save < 3; save++) {
        assert_ok(gsc_checkpoint_save(f.dir, &f.saved.checkpoint));
        gsc_safetensors *file;
        assert_ok(gsc_safetensors_open(temp_path(f.dir, "model.safetensors"), &file));
        assert_int_equal(gsc_safetensors_count(file), PARAMS);
        assert_string_equal(gsc_safetensors_metadata_find(file, "format"), "pt");
        gsc_safetensors_close(file);
        assert_ok(gsc_safetensors_open(temp_path(f.dir, "optimizer.safetensors"), &file));
        assert_int_equal(gsc_safetensors_count(file), 1 + PARAMS * 3);
        assert_string_equal(gsc_safetensors_metadata_find(file, "optimizer"), "adam");
        assert_int_equal(*(const int64_t *)gsc_safetensors_find(file, "0.bias.step")->data, 1);
        assert_int_equal(gsc_safetensors_find(file, "1.weight.exp_avg")->dtype.bits, 64);
        assert_true(*(const double *)gsc_safetensors_find(file, "lr")->data == gsc_optim_get_lr(f.saved.optim, 0));
        gsc_safetensors_close(file);
        assert_int_equal(access(temp_path(f.dir, "run.json"), R_OK), 0);
        char text[512] = "";
        FILE *scaler = fopen(temp_path(f.dir, "scaler.json"), "r");
        assert_non_null(scaler);
        assert_non_null(fgets(text, sizeof text, scaler));
        fclose(scaler);
        gsc_scaler_state read, own;
        assert_ok(gsc_scaler_state_from_json(text, &read));
        assert_ok(gsc_scaler_state_dict(f.saved.scaler, &own));
        assert_true(read.scale == own.scale && read.growth_tracker == own.growth_tracker);
    }
    fixture_free(&f);
}

/* A kind that the last checkpoint lacks is gone; a kind that is left out of a load is not changed. */
static void kinds_may_be_left_out(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    rig_step(&f.saved, 0, false);
    assert_ok(gsc_checkpoint_save(f.dir, &f.saved.checkpoint));
    gsc_checkpoint part = {.tensors = f.into.tensors, .tensor_count = PARAMS};
    assert_ok(gsc_checkpoint_load(f.dir, &part, NULL));
    assert_true(tensors_equal(f.saved.params[1], f.saved.tensors[1].tensor, f.into.tensors[1].tensor));
    assert_int_equal(gsc_optim_get_step_count(f.into.optim, 0), 0);
    part = (gsc_checkpoint){.scalers = &f.saved.named_scaler, .scaler_count = 1};
    assert_ok(gsc_checkpoint_save(f.dir, &part));
    assert_int_equal(access(temp_path(f.dir, "model.safetensors"), F_OK), -1);
    assert_int_equal(access(temp_path(f.dir, "scaler.json"), F_OK), 0);
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_load(f.dir, &f.twin.checkpoint, NULL), "model.safetensors", "not saved");
    assert_ok(gsc_checkpoint_save(f.dir, &(gsc_checkpoint){0}));
    assert_ok(gsc_checkpoint_load(f.dir, &(gsc_checkpoint){0}, NULL));
    fixture_free(&f);
}

static void several_have_names(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    run_rig a, b, c, d;
    rig_create(&a, &adam, 1);
    rig_create(&b, &sgd, 2);
    rig_create(&c, &adam, 3);
    rig_create(&d, &sgd, 4);
    rig_step(&a, 0, false);
    rig_step(&b, 0, true);
    const gsc_named_optim optims[] = {{"generator", a.optim}, {"critic", b.optim}};
    const gsc_named_scaler scalers[] = {{"one", a.scaler}, {"two", b.scaler}};
    const gsc_checkpoint saved = {.optims = optims, .optim_count = 2, .scalers = scalers, .scaler_count = 2};
    assert_ok(gsc_checkpoint_save(dir, &saved));
    const gsc_named_optim other_optims[] = {{"critic", d.optim}, {"generator", c.optim}};
    const gsc_named_scaler other_scalers[] = {{"two", d.scaler}, {"one", c.scaler}};
    gsc_checkpoint into = {.optims = other_optims, .optim_count = 2, .scalers = other_scalers, .scaler_count = 2};
    assert_ok(gsc_checkpoint_load(dir, &into, NULL));
    assert_int_equal(gsc_optim_get_step_count(c.optim, 0), 1);
    assert_int_equal(gsc_optim_get_step_count(d.optim, 0), 0);
    assert_true(tensors_equal(a.params[2], gsc_optim_state(a.optim, 2, "exp_avg_sq"),
                              gsc_optim_state(c.optim, 2, "exp_avg_sq")));
    gsc_scaler_state b_state, d_state;
    assert_ok(gsc_scaler_state_dict(b.scaler, &b_state));
    assert_ok(gsc_scaler_state_dict(d.scaler, &d_state));
    assert_memory_equal(&b_state, &d_state, sizeof b_state);
    into.scaler_count = 1;
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_load(dir, &into, NULL), "scaler.json", "scale is missing");
    into = (gsc_checkpoint){.optims = optims, .optim_count = 1};
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_load(dir, &into, NULL), "holds tensor \"critic/", "no place");
    rig_free(&a);
    rig_free(&b);
    rig_free(&c);
    rig_free(&d);
    temp_tree_remove(dir);
}

/* Refused, and `into` is unchanged. */
#define refuse_load(dir, into, twin, status, ...)                                                                      \
    do {                                                                                                               \
        char *run_ = NULL;                                                                                             \
        assert_fails(status, gsc_checkpoint_load(dir, &(into)->checkpoint, &run_), __VA_ARGS__);                       \
        assert_null(run_);                                                                                             \
        assert_true(rigs_equal(into, twin));                                                                           \
    } while (0)

static void objects_that_differ_load_nothing(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    rig_step(&f.saved, 0, true);
    assert_ok(gsc_checkpoint_save(f.dir, &f.saved.checkpoint));

    gsc_named_tensor *last = &f.into.tensors[PARAMS - 1];
    last->name = "other";
    refuse_load(f.dir, &f.into, &f.twin, GSC_ERR_VALUE, "model.safetensors", "holds no tensor \"other\"");
    last->name = "0.bias";
    refuse_load(f.dir, &f.into, &f.twin, GSC_ERR_VALUE, "two tensors are named \"0.bias\"");
    last->name = rig_names[PARAMS - 1];
    f.into.checkpoint.tensor_count--;
    refuse_load(f.dir, &f.into, &f.twin, GSC_ERR_VALUE, "holds tensor \"1.weight\"", "no place");
    f.into.checkpoint.tensor_count++;
    DLTensor shorter = *last->tensor;
    int64_t shape = 8;
    shorter.shape = &shape;
    last->tensor = &shorter;
    refuse_load(f.dir, &f.into, &f.twin, GSC_ERR_VALUE, "\"1.weight\" is F64 [9]", "F64 [8]");
    shorter.shape = gsc_tensor_data(f.into.params[PARAMS - 1])->shape;
    shorter.dtype = GSC_INT64;
    refuse_load(f.dir, &f.into, &f.twin, GSC_ERR_VALUE, "\"1.weight\" is F64 [9]", "I64 [9]");
    last->tensor = gsc_tensor_data(f.into.params[PARAMS - 1]);
    assert_ok(gsc_scaler_skip(f.into.scaler, gsc_optim_optimizer(f.into.optim)));
    refuse_load(f.dir, &f.into, &f.twin, GSC_ERR_STATE, "scaler.json", "iteration");
    assert_ok(gsc_scaler_update(f.into.scaler));
    assert_ok(gsc_checkpoint_load(f.dir, &f.into.checkpoint, NULL));
    assert_true(rigs_equal(&f.saved, &f.into));
    fixture_free(&f);
}

static void another_optimizer_loads_nothing(void **state)
{
    (void)state;
    char *dir = temp_dir_create();
    run_rig saved;
    rig_create(&saved, &adam, 1);
    assert_ok(gsc_checkpoint_save(dir, &saved.checkpoint));
    const rule_case adamw = {gsc_optim_create_adamw, adam.group};
    const rule_case *const others[] = {&adamw, &sgd};
    for (size_t i = 0; i < 2; i++) {
        run_rig into, twin;
        rig_create(&into, others[i], 2);
        rig_create(&twin, others[i], 2);
        refuse_load(dir, &into, &twin, GSC_ERR_VALUE, "optimizer.safetensors", "\"optimizer\" is adam, but");
        rig_free(&into);
        rig_free(&twin);
    }
    rig_free(&saved);
    temp_tree_remove(dir);
}

/* resume 6 */
static void a_state_saved_while_disabled_is_explained(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    gsc_scaler_options options = gsc_scaler_options_default();
    options.enabled = false;
    gsc_scaler *disabled;
    assert_ok(gsc_scaler_create(&options, &disabled));
    f.saved.named_scaler.scaler = disabled;
    assert_ok(gsc_checkpoint_save(f.dir, &f.saved.checkpoint));
    refuse_load(f.dir, &f.into, &f.twin, GSC_ERR_STATE, "scaler.json", "disabled");
    f.into.named_scaler.scaler = disabled;
    assert_ok(gsc_checkpoint_load(f.dir, &f.into.checkpoint, NULL));
    gsc_scaler_destroy(disabled);
    fixture_free(&f);
}

/* The second scaler refuses: the first one gets its old state back. */
static void a_refusing_scaler_undoes_the_others(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    rig_step(&f.saved, 0, true);
    rig_step(&f.saved, 1, true);
    gsc_scaler *busy;
    assert_ok(gsc_scaler_create(NULL, &busy));
    gsc_named_scaler scalers[] = {{"a", f.saved.scaler}, {"b", busy}};
    f.saved.checkpoint.scalers = scalers;
    f.saved.checkpoint.scaler_count = 2;
    assert_ok(gsc_checkpoint_save(f.dir, &f.saved.checkpoint));
    scalers[0].scaler = f.into.scaler;
    f.into.checkpoint.scalers = scalers;
    f.into.checkpoint.scaler_count = 2;
    assert_ok(gsc_scaler_skip(busy, gsc_optim_optimizer(f.into.optim)));
    refuse_load(f.dir, &f.into, &f.twin, GSC_ERR_STATE, "scaler.json", "iteration");
    assert_ok(gsc_scaler_update(busy));
    assert_ok(gsc_checkpoint_load(f.dir, &f.into.checkpoint, NULL));
    assert_true(rigs_equal(&f.saved, &f.into));
    gsc_scaler_destroy(busy);
    fixture_free(&f);
}

static void refuse_save(const char *dir, const gsc_checkpoint *checkpoint, const char *part)
{
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_save(dir, checkpoint), "gsc_checkpoint_save", part);
    assert_int_equal(access(temp_path(dir, "checkpoint-0"), F_OK), -1); /* nothing was written */
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    fixture f;
    char *run = NULL;
    fixture_create(&f);
    const gsc_checkpoint good = f.saved.checkpoint;
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_save(NULL, &good), "dir is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_save(f.dir, NULL), "checkpoint is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_load(NULL, &good, NULL), "dir is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_load(f.dir, NULL, NULL), "checkpoint is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_read_run(NULL, &run), "dir is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_checkpoint_read_run(f.dir, NULL), "run is NULL");
    gsc_checkpoint bad = good;
    bad.reserved[3] = 1;
    refuse_save(f.dir, &bad, "reserved[3]");
    const char *const runs[] = {"", "[]", "{\"a\":1,\"a\":2}", "{\"a\":NaN}", "{\"\xff\":1}"};
    const char *const problems[] = {"line", "is an array", "duplicate", "line", "0xff"};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        bad = good;
        bad.run = runs[i];
        refuse_save(f.dir, &bad, problems[i]);
    }
    bad = good;
    bad.tensors = NULL;
    refuse_save(f.dir, &bad, "tensors is NULL");
    bad = good;
    bad.optims = NULL;
    refuse_save(f.dir, &bad, "optims is NULL");
    gsc_named_scaler scalers[] = {{"a", f.saved.scaler}, {"a", f.saved.scaler}};
    bad = good;
    bad.scalers = scalers;
    bad.scaler_count = 2;
    refuse_save(f.dir, &bad, "scalers[1].name is \"a\"");
    scalers[1].name = NULL;
    refuse_save(f.dir, &bad, "scalers[1].name is NULL");
    scalers[1].name = "";
    refuse_save(f.dir, &bad, "scalers[1].name is empty");
    scalers[1] = (gsc_named_scaler){"b", NULL};
    refuse_save(f.dir, &bad, "entry 1 of scalers is NULL");
    assert_ok(gsc_tensor_set_name(f.saved.params[2], "0.bias"));
    refuse_save(f.dir, &good, "optimizers: two tensors are named \"0.bias.");
    fixture_free(&f);
}

/* The parser reads 2,048 levels, and run.json adds one. */
static void json_that_could_not_be_read_back_is_not_written(void **state)
{
    (void)state;
    enum { DEPTH = 2047 };
    char *dir = temp_dir_create(), run[2 * DEPTH + 16] = "{\"x\":";
    memset(run + 5, '[', DEPTH);
    memset(run + 5 + DEPTH, ']', DEPTH);
    strcpy(run + 5 + 2 * DEPTH, "}");
    gsc_checkpoint checkpoint = {.run = run};
    refuse_save(dir, &checkpoint, "depth");
    temp_tree_remove(dir);
}

/* A parameter without a name has its index as its name. */
static void parameters_need_no_name(void **state)
{
    (void)state;
    fixture f;
    fixture_create(&f);
    for (size_t k = 0; k < PARAMS; k++)
        assert_ok(gsc_tensor_set_name(f.saved.params[k], NULL));
    rig_step(&f.saved, 0, false);
    assert_ok(gsc_checkpoint_save(f.dir, &f.saved.checkpoint));
    gsc_safetensors *file;
    assert_ok(gsc_safetensors_open(temp_path(f.dir, "optimizer.safetensors"), &file));
    assert_non_null(gsc_safetensors_find(file, "2.exp_avg"));
    gsc_safetensors_close(file);
    assert_ok(gsc_checkpoint_load(f.dir, &f.saved.checkpoint, NULL));
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_run_continues_like_the_saved_one),
        cmocka_unit_test(the_callers_json_is_returned),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(the_files_open_under_their_plain_names),
        cmocka_unit_test(kinds_may_be_left_out),
        cmocka_unit_test(several_have_names),
        cmocka_unit_test(objects_that_differ_load_nothing),
        cmocka_unit_test(another_optimizer_loads_nothing),
        cmocka_unit_test(a_state_saved_while_disabled_is_explained),
        cmocka_unit_test(a_refusing_scaler_undoes_the_others),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(json_that_could_not_be_read_back_is_not_written),
        cmocka_unit_test(parameters_need_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
