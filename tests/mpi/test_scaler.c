/* SPDX-License-Identifier: Apache-2.0 */
/* A scaler of several processes: one decision, one norm, and what a rank that refuses or differs does to the others. */
#include "rig.h"

static float parameter, gradient;
static int steps;

static gsc_status step(void *ctx)
{
    (void)ctx;
    parameter -= gradient;
    steps++;
    return GSC_OK;
}

/* A scaler of scale 8 over all ranks and an optimizer of one gradient. */
typedef struct trainer {
    gsc_scaler *scaler;
    gsc_optimizer *optimizer;
} trainer;

static trainer start(double scale, bool sharded, DLDataType dtype, bool absent)
{
    trainer t = {.scaler = NULL};
    const gsc_comm comm = gsc_mpi_comm(rig.mpi, sharded);
    const gsc_buffer buffer = {.data = absent ? NULL : &gradient, .count = 1, .dtype = dtype, .name = "weight"};
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = scale;
    options.comm = &comm;
    parameter = 0;
    steps = 0;
    CHECK_OK(gsc_scaler_create(&options, &t.scaler));
    CHECK_OK(gsc_optimizer_from_buffers(&buffer, 1, step, NULL, &t.optimizer));
    return t;
}

static void stop(trainer *t)
{
    gsc_scaler_destroy(t->scaler);
    gsc_optimizer_free(t->optimizer);
}

static void test_overflow_on_one_rank(void)
{
    for (int bad = 0; bad < rig.size; bad++) {
        trainer t = start(8, false, GSC_FLOAT32, false);
        gsc_step_result result = {.outcome = GSC_PENDING};
        gradient = rig.rank == bad ? INFINITY : 16;
        CHECK_OK(gsc_scaler_step(t.scaler, t.optimizer, NULL, &result));
        CHECK(result.outcome == GSC_SKIPPED_OVERFLOW && steps == 0 && parameter == 0);
        CHECK(gsc_scaler_found_inf(t.scaler, t.optimizer));
        CHECK(gsc_scaler_overflows(t.scaler, t.optimizer, NULL, 0) == (rig.rank == bad));
        CHECK_OK(gsc_scaler_update(t.scaler));
        CHECK(gsc_scaler_get_scale(t.scaler) == 4);
        gradient = 16;
        CHECK_OK(gsc_scaler_step(t.scaler, t.optimizer, NULL, &result));
        CHECK(result.outcome == GSC_STEPPED && parameter == -4);
        stop(&t);
    }
}

static void test_rank_without_gradients(void)
{
    trainer t = start(8, false, GSC_FLOAT32, rig.rank == 0);
    gsc_step_result result = {.outcome = GSC_PENDING};
    gradient = 16;
    CHECK_OK(gsc_scaler_step(t.scaler, t.optimizer, NULL, &result));
    CHECK(result.outcome == (rig.size > 1 ? GSC_STEPPED : GSC_NO_GRADS) && steps == 1);
    CHECK_OK(gsc_scaler_update(t.scaler));
    stop(&t);
}

static void test_refused_gradient(void)
{
    trainer t = start(8, false, rig.rank == 0 ? GSC_FLOAT16 : GSC_FLOAT32, false);
    gsc_step_result result = {.outcome = GSC_PENDING};
    gradient = 16;
    CHECK_STATUS(gsc_scaler_step(t.scaler, t.optimizer, NULL, &result), rig.rank == 0 ? GSC_ERR_VALUE : GSC_ERR_COMM);
    CHECK_SAID(rig.rank == 0 ? "float16" : "another rank refused");
    CHECK(steps == 0);
    CHECK_OK(gsc_scaler_update_to(t.scaler, 8));
    stop(&t);
}

/* One rank has resumed, the others have not. */
static void test_scales_that_differ(void)
{
    trainer t = start(rig.rank == rig.size - 1 ? 16 : 8, false, GSC_FLOAT32, false);
    gsc_step_result result;
    gradient = 16;
    if (rig.size > 1) {
        CHECK_STATUS(gsc_scaler_step(t.scaler, t.optimizer, NULL, &result), GSC_ERR_COMM);
        CHECK_SAID("from 8 to 16");
        CHECK(steps == 0);
        CHECK_OK(gsc_scaler_update_to(t.scaler, 8)); /* the same on every rank, and they go on */
    }
    CHECK_OK(gsc_mpi_synchronize(rig.mpi, NULL, 0, t.scaler));
    CHECK_OK(gsc_scaler_step(t.scaler, t.optimizer, NULL, &result));
    CHECK(result.outcome == GSC_STEPPED && steps == 1);
    stop(&t);
}

/* Each rank has one of the gradients 3, 4, 12, 84: of all, the norms are Pythagorean. */
static void test_norms_of_shards(void)
{
    static const float shards[] = {3, 4, 12, 84}, norms[] = {3, 5, 13, 85};
    const double types[] = {1, 2, 3, INFINITY};
    for (int i = 0; i < 4; i++) {
        trainer t = start(8, true, GSC_FLOAT32, false);
        double norm = -1, sum = 0, cubes = 0;
        for (int r = 0; r < rig.size; r++) {
            sum += (double)shards[r];
            cubes += pow((double)shards[r], 3);
        }
        gradient = 8 * shards[rig.rank];
        CHECK_OK(gsc_scaler_clip_grad_norm(t.scaler, t.optimizer, 1, types[i], &norm));
        const double expected[] = {sum, (double)norms[rig.size - 1], cbrt(cubes), (double)shards[rig.size - 1]};
        CHECK(fabs(norm - expected[i]) < 1e-9 * expected[i]);
        CHECK(fabs((double)gradient - (double)shards[rig.rank] / expected[i]) < 1e-5);
        CHECK_OK(gsc_scaler_step(t.scaler, t.optimizer, NULL, NULL));
        stop(&t);
    }
}

/* A NaN that appears after the check, on one rank: p = infinity goes through the maximum. */
static void test_nan_in_a_norm(void)
{
    trainer t = start(8, true, GSC_FLOAT32, false);
    double norm = 0;
    gradient = 8;
    CHECK_OK(gsc_scaler_unscale(t.scaler, t.optimizer));
    gradient = rig.rank == 0 ? NAN : 1;
    CHECK_STATUS(gsc_scaler_clip_grad_norm(t.scaler, t.optimizer, 1, INFINITY, &norm), GSC_ERR_COMM);
    CHECK_SAID("NaN");
    CHECK(isnan(gradient) || gradient == 1);
    stop(&t);
}

int main(int argc, char **argv)
{
    rig_start(&argc, &argv, 10, 1 << 22);
    test_overflow_on_one_rank();
    test_rank_without_gradients();
    test_refused_gradient();
    test_scales_that_differ();
    test_norms_of_shards();
    test_nan_in_a_norm();
    return rig_end();
}
