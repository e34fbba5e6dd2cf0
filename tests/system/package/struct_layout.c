/* SPDX-License-Identifier: Apache-2.0 */
/* struct_layout.c: sizes and offsets of the public structs are those of version 0.1.0, so that programs that were
 * compiled against it go on working. New fields take the place of `reserved` words. Holds for 64-bit Linux. */
#include <assert.h>
#include <stddef.h>

#include "gradscaler/gradscaler.h"
#ifdef WITH_TRAIN
#include "gradscaler/train.h"
#endif

#define SIZE(type, size) static_assert(sizeof(type) == (size), "the size of " #type " has changed")
#define FIELD(type, field, offset)                                                                                     \
    static_assert(offsetof(type, field) == (offset), "the offset of " #type "." #field " has changed")

SIZE(gsc_step_args, 104);
FIELD(gsc_step_args, closure, 0);
FIELD(gsc_step_args, closure_ctx, 8);
FIELD(gsc_step_args, extra, 16);
FIELD(gsc_step_args, clip_norm, 24);
FIELD(gsc_step_args, clip_norm_type, 32);
FIELD(gsc_step_args, stream, 40);

SIZE(gsc_grad_scaling, 96);
FIELD(gsc_grad_scaling, multiplier, 0);
FIELD(gsc_grad_scaling, multiplier_dev, 8);
FIELD(gsc_grad_scaling, found_inf_dev, 16);
FIELD(gsc_grad_scaling, stream, 24);
FIELD(gsc_grad_scaling, multiplier64_dev, 32);

SIZE(gsc_optimizer, 112);
FIELD(gsc_optimizer, self, 0);
FIELD(gsc_optimizer, grad_count, 8);
FIELD(gsc_optimizer, grad, 16);
FIELD(gsc_optimizer, name, 24);
FIELD(gsc_optimizer, step, 32);
FIELD(gsc_optimizer, step_scaled, 40);

SIZE(gsc_buffer, 32);
FIELD(gsc_buffer, data, 0);
FIELD(gsc_buffer, count, 8);
FIELD(gsc_buffer, dtype, 16);
FIELD(gsc_buffer, name, 24);

SIZE(gsc_event, 104);
FIELD(gsc_event, kind, 0);
FIELD(gsc_event, scale, 8);
FIELD(gsc_event, update, 16);
FIELD(gsc_event, optimizer, 24);
FIELD(gsc_event, scaler, 32);
FIELD(gsc_event, scale_before, 40);

SIZE(gsc_comm, 88);
FIELD(gsc_comm, self, 0);
FIELD(gsc_comm, allreduce_max, 8);
FIELD(gsc_comm, allreduce_sum, 16);
FIELD(gsc_comm, allreduce_max64, 24);

SIZE(gsc_scaler_options, 184);
FIELD(gsc_scaler_options, device, 0);
FIELD(gsc_scaler_options, backend, 8);
FIELD(gsc_scaler_options, init_scale, 16);
FIELD(gsc_scaler_options, growth_factor, 24);
FIELD(gsc_scaler_options, backoff_factor, 32);
FIELD(gsc_scaler_options, growth_interval, 40);
FIELD(gsc_scaler_options, enabled, 48);
FIELD(gsc_scaler_options, min_scale, 56);
FIELD(gsc_scaler_options, max_scale, 64);
FIELD(gsc_scaler_options, hysteresis, 72);
FIELD(gsc_scaler_options, max_consecutive_skips, 80);
FIELD(gsc_scaler_options, allow_fp16_grads, 88);
FIELD(gsc_scaler_options, comm, 96);
FIELD(gsc_scaler_options, observer, 104);
FIELD(gsc_scaler_options, observer_ctx, 112);
FIELD(gsc_scaler_options, strict, 120);
FIELD(gsc_scaler_options, hysteresis_until_growth, 121);
FIELD(gsc_scaler_options, skip_window, 124);
FIELD(gsc_scaler_options, max_skip_share, 128);

SIZE(gsc_step_result, 96);
FIELD(gsc_step_result, outcome, 0);
FIELD(gsc_step_result, has_value, 4);
FIELD(gsc_step_result, value, 8);
FIELD(gsc_step_result, grad_norm, 16);
FIELD(gsc_step_result, max_abs, 24);
FIELD(gsc_step_result, scale, 32);

SIZE(gsc_scaler_state, 136);
FIELD(gsc_scaler_state, scale, 0);
FIELD(gsc_scaler_state, growth_factor, 8);
FIELD(gsc_scaler_state, backoff_factor, 16);
FIELD(gsc_scaler_state, growth_interval, 24);
FIELD(gsc_scaler_state, growth_tracker, 32);
FIELD(gsc_scaler_state, min_scale, 40);
FIELD(gsc_scaler_state, max_scale, 48);
FIELD(gsc_scaler_state, hysteresis, 56);
FIELD(gsc_scaler_state, hysteresis_tracker, 60);
FIELD(gsc_scaler_state, consecutive_skips, 64);

SIZE(gsc_overflow, 56);
FIELD(gsc_overflow, index, 0);
FIELD(gsc_overflow, name, 8);
FIELD(gsc_overflow, inf_count, 16);
FIELD(gsc_overflow, nan_count, 24);
FIELD(gsc_overflow, first_index, 32);
FIELD(gsc_overflow, repeats, 40);

SIZE(gsc_scaler_stats, 112);
FIELD(gsc_scaler_stats, updates, 0);
FIELD(gsc_scaler_stats, steps, 8);
FIELD(gsc_scaler_stats, skipped_steps, 16);
FIELD(gsc_scaler_stats, backoffs, 24);
FIELD(gsc_scaler_stats, growths, 32);
FIELD(gsc_scaler_stats, consecutive_skips, 40);

SIZE(gsc_grad_stats, 2352);
FIELD(gsc_grad_stats, count, 0);
FIELD(gsc_grad_stats, zeros, 8);
FIELD(gsc_grad_stats, infs, 16);
FIELD(gsc_grad_stats, nans, 24);
FIELD(gsc_grad_stats, min_abs, 32);
FIELD(gsc_grad_stats, max_abs, 40);
FIELD(gsc_grad_stats, exponents, 48);

#ifdef WITH_TRAIN
SIZE(gsc_param_group, 144);
FIELD(gsc_param_group, params, 0);
FIELD(gsc_param_group, count, 8);
FIELD(gsc_param_group, lr, 16);
FIELD(gsc_param_group, weight_decay, 24);
FIELD(gsc_param_group, momentum, 32);
FIELD(gsc_param_group, dampening, 40);
FIELD(gsc_param_group, nesterov, 48);
FIELD(gsc_param_group, beta1, 56);
FIELD(gsc_param_group, beta2, 64);
FIELD(gsc_param_group, eps, 72);

SIZE(gsc_random, 24);
FIELD(gsc_random, seed, 0);
FIELD(gsc_random, stream, 8);
FIELD(gsc_random, counter, 16);

SIZE(gsc_idx, 56);
FIELD(gsc_idx, ndim, 0);
FIELD(gsc_idx, shape, 8);
FIELD(gsc_idx, data, 40);
FIELD(gsc_idx, count, 48);

SIZE(gsc_named_tensor, 16);
FIELD(gsc_named_tensor, name, 0);
FIELD(gsc_named_tensor, tensor, 8);

SIZE(gsc_metadata, 16);
FIELD(gsc_metadata, key, 0);
FIELD(gsc_metadata, value, 8);

SIZE(gsc_named_optim, 16);
FIELD(gsc_named_optim, name, 0);
FIELD(gsc_named_optim, optim, 8);

SIZE(gsc_named_scaler, 16);
FIELD(gsc_named_scaler, name, 0);
FIELD(gsc_named_scaler, scaler, 8);

SIZE(gsc_checkpoint, 120);
FIELD(gsc_checkpoint, tensors, 0);
FIELD(gsc_checkpoint, tensor_count, 8);
FIELD(gsc_checkpoint, optims, 16);
FIELD(gsc_checkpoint, optim_count, 24);
FIELD(gsc_checkpoint, scalers, 32);
FIELD(gsc_checkpoint, scaler_count, 40);
FIELD(gsc_checkpoint, run, 48);
#endif
