/* SPDX-License-Identifier: Apache-2.0 */
/* The names that fragments of the documentation use and a reader would have declared. docs.sh compiles
 * each fragment as the body of a function behind this file. */
#ifndef DOCS_CONTEXT_H
#define DOCS_CONTEXT_H

#include <gradscaler/cuda.h>
#include <gradscaler/gradscaler.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

extern gsc_scaler *scaler;
extern gsc_scaler_options options;
extern gsc_scaler_state state;
extern gsc_optimizer *optimizer, *second_optimizer;
extern void *generator, *critic;
extern gsc_buffer gradients[2], critic_gradients[2];
extern gsc_step_result result;
extern DLTensor *half_grads[2], *master_grads[2];
extern DLTensor loss;
extern void *world;
extern void *stream;
extern struct ncclComm *nccl;
extern float *device_grads;
extern DLTensor *params[2], *grads[2];
void launch_backward(const float *scale, void *stream);
void launch_step(void *stream);
extern int step, steps, micro_batches;
extern float w_grad[1024], b_grad[16];
extern void *my_model;
gsc_status my_step(void *model);

void forward(int batch);
void backward(double seed); /* gradients of seed * loss are added to the parameters' */
void zero_grad(void);
void scheduler_step(void);
void ema_update(void);
void ascend_to_neighbour(void);
void return_from_neighbour(void);
bool save(const char *path, const gsc_scaler_state *state);
bool load(const char *path, gsc_scaler_state *state);
int world_max(void *self, DLTensor *values, void *stream);

#endif
