/* SPDX-License-Identifier: Apache-2.0 */
/* calls_0_1_0.c: a call of each public function as a program written for version 0.1.0 makes it: with arguments of the
 * types that its headers declared, returning the result as the type that they declared. Compiled, never run. */
#include <gradscaler/gradscaler.h>
#ifdef WITH_TRAIN
#include <gradscaler/train.h>
#endif

const char *call_gsc_status_name(gsc_status status) { return gsc_status_name(status); }

const char *call_gsc_last_error(void) { return gsc_last_error(); }

gsc_status call_gsc_fail(gsc_status status, int value) { return gsc_fail(status, "%d", value); }

const char *call_gsc_version(void) { return gsc_version(); }

const char *call_gsc_isa(void) { return gsc_isa(); }

void call_gsc_set_num_threads(int32_t n) { gsc_set_num_threads(n); }

void call_gsc_set_parallel_for(gsc_parallel_for *fn, void *host) { gsc_set_parallel_for(fn, host); }

void call_gsc_parallel_run(size_t count, gsc_task *task, void *ctx) { gsc_parallel_run(count, task, ctx); }

gsc_status call_gsc_optimizer_from_buffers(const gsc_buffer *grads, size_t n, gsc_status (*step)(void *ctx), void *ctx,
                                           gsc_optimizer **out)
{
    return gsc_optimizer_from_buffers(grads, n, step, ctx, out);
}

void call_gsc_optimizer_free(gsc_optimizer *optimizer) { gsc_optimizer_free(optimizer); }

gsc_scaler_options call_gsc_scaler_options_default(void) { return gsc_scaler_options_default(); }

gsc_status call_gsc_scaler_create(const gsc_scaler_options *options, gsc_scaler **out)
{
    return gsc_scaler_create(options, out);
}

void call_gsc_scaler_destroy(gsc_scaler *scaler) { gsc_scaler_destroy(scaler); }

gsc_status call_gsc_scaler_scale(gsc_scaler *scaler, const DLTensor *in, DLTensor *out)
{
    return gsc_scaler_scale(scaler, in, out);
}

gsc_status call_gsc_scaler_scale_list(gsc_scaler *scaler, DLTensor *const *in, DLTensor *const *out, size_t n)
{
    return gsc_scaler_scale_list(scaler, in, out, n);
}

gsc_status call_gsc_scaler_scale_view(gsc_scaler *scaler, DLDevice device, DLTensor *out)
{
    return gsc_scaler_scale_view(scaler, device, out);
}

gsc_status call_gsc_scaler_unscale(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    return gsc_scaler_unscale(scaler, optimizer);
}

gsc_status call_gsc_scaler_record(gsc_scaler *scaler, const gsc_optimizer *optimizer, bool found_inf)
{
    return gsc_scaler_record(scaler, optimizer, found_inf);
}

gsc_status call_gsc_scaler_step(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc_step_args *args,
                                gsc_step_result *result)
{
    return gsc_scaler_step(scaler, optimizer, args, result);
}

gsc_status call_gsc_scaler_result(gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc_step_result *result)
{
    return gsc_scaler_result(scaler, optimizer, result);
}

gsc_status call_gsc_scaler_clip_grad_norm(gsc_scaler *scaler, const gsc_optimizer *optimizer, double max_norm,
                                          double norm_type, double *total_norm)
{
    return gsc_scaler_clip_grad_norm(scaler, optimizer, max_norm, norm_type, total_norm);
}

gsc_status call_gsc_scaler_skip(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    return gsc_scaler_skip(scaler, optimizer);
}

gsc_status call_gsc_scaler_rearm(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    return gsc_scaler_rearm(scaler, optimizer);
}

gsc_status call_gsc_scaler_update(gsc_scaler *scaler) { return gsc_scaler_update(scaler); }

gsc_status call_gsc_scaler_update_to(gsc_scaler *scaler, double new_scale)
{
    return gsc_scaler_update_to(scaler, new_scale);
}

gsc_status call_gsc_scaler_update_to_tensor(gsc_scaler *scaler, const DLTensor *new_scale)
{
    return gsc_scaler_update_to_tensor(scaler, new_scale);
}

void call_gsc_scaler_forget(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    gsc_scaler_forget(scaler, optimizer);
}

gsc_status call_gsc_scaler_set_stream(gsc_scaler *scaler, DLDevice device, void *stream)
{
    return gsc_scaler_set_stream(scaler, device, stream);
}

double call_gsc_scaler_get_scale(const gsc_scaler *scaler) { return gsc_scaler_get_scale(scaler); }

double call_gsc_scaler_get_growth_factor(const gsc_scaler *scaler) { return gsc_scaler_get_growth_factor(scaler); }

double call_gsc_scaler_get_backoff_factor(const gsc_scaler *scaler) { return gsc_scaler_get_backoff_factor(scaler); }

int64_t call_gsc_scaler_get_growth_interval(const gsc_scaler *scaler) { return gsc_scaler_get_growth_interval(scaler); }

bool call_gsc_scaler_is_enabled(const gsc_scaler *scaler) { return gsc_scaler_is_enabled(scaler); }

gsc_status call_gsc_scaler_set_growth_factor(gsc_scaler *scaler, double factor)
{
    return gsc_scaler_set_growth_factor(scaler, factor);
}

gsc_status call_gsc_scaler_set_backoff_factor(gsc_scaler *scaler, double factor)
{
    return gsc_scaler_set_backoff_factor(scaler, factor);
}

gsc_status call_gsc_scaler_set_growth_interval(gsc_scaler *scaler, int64_t interval)
{
    return gsc_scaler_set_growth_interval(scaler, interval);
}

gsc_stage call_gsc_scaler_get_stage(const gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    return gsc_scaler_get_stage(scaler, optimizer);
}

bool call_gsc_scaler_found_inf(const gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    return gsc_scaler_found_inf(scaler, optimizer);
}

gsc_status call_gsc_scaler_state_dict(const gsc_scaler *scaler, gsc_scaler_state *out)
{
    return gsc_scaler_state_dict(scaler, out);
}

gsc_status call_gsc_scaler_load_state_dict(gsc_scaler *scaler, const gsc_scaler_state *in)
{
    return gsc_scaler_load_state_dict(scaler, in);
}

size_t call_gsc_scaler_overflows(const gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc_overflow *out,
                                 size_t capacity)
{
    return gsc_scaler_overflows(scaler, optimizer, out, capacity);
}

void call_gsc_scaler_get_stats(const gsc_scaler *scaler, gsc_scaler_stats *out) { gsc_scaler_get_stats(scaler, out); }

gsc_status call_gsc_unscale_grads(DLTensor *const *grads, size_t n, double scale, bool *found_inf)
{
    return gsc_unscale_grads(grads, n, scale, found_inf);
}

gsc_status call_gsc_check_grads(DLTensor *const *grads, size_t n, bool *found_inf)
{
    return gsc_check_grads(grads, n, found_inf);
}

gsc_status call_gsc_grad_norm(DLTensor *const *grads, size_t n, double norm_type, double *norm)
{
    return gsc_grad_norm(grads, n, norm_type, norm);
}

gsc_status call_gsc_clip_grad_norm(DLTensor *const *grads, size_t n, double max_norm, double norm_type,
                                   double *total_norm)
{
    return gsc_clip_grad_norm(grads, n, max_norm, norm_type, total_norm);
}

gsc_status call_gsc_clip_grad_value(DLTensor *const *grads, size_t n, double clip_value)
{
    return gsc_clip_grad_value(grads, n, clip_value);
}

gsc_status call_gsc_grad_statistics(const DLTensor *grad, gsc_grad_stats *out)
{
    return gsc_grad_statistics(grad, out);
}

#ifdef WITH_TRAIN

gsc_status call_gsc_tensor_create(DLDataType dtype, int32_t ndim, const int64_t *shape, gsc_tensor **out)
{
    return gsc_tensor_create(dtype, ndim, shape, out);
}

void call_gsc_tensor_free(gsc_tensor *tensor) { gsc_tensor_free(tensor); }

DLTensor *call_gsc_tensor_data(gsc_tensor *tensor) { return gsc_tensor_data(tensor); }

DLTensor *call_gsc_tensor_grad(gsc_tensor *tensor) { return gsc_tensor_grad(tensor); }

size_t call_gsc_tensor_count(const gsc_tensor *tensor) { return gsc_tensor_count(tensor); }

double call_gsc_tensor_item(const gsc_tensor *tensor) { return gsc_tensor_item(tensor); }

gsc_status call_gsc_tensor_set_requires_grad(gsc_tensor *tensor, bool requires_grad)
{
    return gsc_tensor_set_requires_grad(tensor, requires_grad);
}

bool call_gsc_tensor_requires_grad(const gsc_tensor *tensor) { return gsc_tensor_requires_grad(tensor); }

void call_gsc_tensor_zero_grad(gsc_tensor *tensor) { gsc_tensor_zero_grad(tensor); }

gsc_status call_gsc_tensor_set_name(gsc_tensor *tensor, const char *name) { return gsc_tensor_set_name(tensor, name); }

const char *call_gsc_tensor_name(const gsc_tensor *tensor) { return gsc_tensor_name(tensor); }

gsc_status call_gsc_tape_create(gsc_tape **out) { return gsc_tape_create(out); }

void call_gsc_tape_destroy(gsc_tape *tape) { gsc_tape_destroy(tape); }

void call_gsc_tape_clear(gsc_tape *tape) { gsc_tape_clear(tape); }

gsc_status call_gsc_tape_backward(gsc_tape *tape, gsc_tensor *root) { return gsc_tape_backward(tape, root); }

gsc_tensor *call_gsc_tape_input(gsc_tape *tape, const DLTensor *values) { return gsc_tape_input(tape, values); }

gsc_tensor *call_gsc_tape_param(gsc_tape *tape, gsc_tensor *param) { return gsc_tape_param(tape, param); }

gsc_tensor *call_gsc_add(gsc_tensor *a, gsc_tensor *b) { return gsc_add(a, b); }

gsc_tensor *call_gsc_mul(gsc_tensor *a, gsc_tensor *b) { return gsc_mul(a, b); }

gsc_tensor *call_gsc_matmul(gsc_tensor *a, gsc_tensor *b) { return gsc_matmul(a, b); }

gsc_tensor *call_gsc_linear(gsc_tensor *x, gsc_tensor *weight, gsc_tensor *bias) { return gsc_linear(x, weight, bias); }

gsc_tensor *call_gsc_relu(gsc_tensor *x) { return gsc_relu(x); }

gsc_tensor *call_gsc_tanh(gsc_tensor *x) { return gsc_tanh(x); }

gsc_tensor *call_gsc_cast(gsc_tensor *x, DLDataType dtype) { return gsc_cast(x, dtype); }

gsc_tensor *call_gsc_sum(gsc_tensor *x) { return gsc_sum(x); }

gsc_tensor *call_gsc_mean(gsc_tensor *x) { return gsc_mean(x); }

gsc_tensor *call_gsc_reshape(gsc_tensor *x, int32_t ndim, const int64_t *shape) { return gsc_reshape(x, ndim, shape); }

gsc_tensor *call_gsc_mse_loss(gsc_tensor *x, gsc_tensor *target) { return gsc_mse_loss(x, target); }

gsc_tensor *call_gsc_cross_entropy_loss(gsc_tensor *logits, gsc_tensor *labels)
{
    return gsc_cross_entropy_loss(logits, labels);
}

gsc_tensor *call_gsc_scale_loss(gsc_scaler *scaler, gsc_tensor *loss) { return gsc_scale_loss(scaler, loss); }

gsc_status call_gsc_autocast_begin(DLDataType dtype, bool enabled) { return gsc_autocast_begin(dtype, enabled); }

gsc_status call_gsc_autocast_end(void) { return gsc_autocast_end(); }

bool call_gsc_autocast_enabled(DLDataType *dtype) { return gsc_autocast_enabled(dtype); }

gsc_status call_gsc_nn_linear(int64_t in_features, int64_t out_features, bool bias, gsc_random *random,
                              gsc_module **out)
{
    return gsc_nn_linear(in_features, out_features, bias, random, out);
}

gsc_status call_gsc_nn_relu(gsc_module **out) { return gsc_nn_relu(out); }

gsc_status call_gsc_nn_tanh(gsc_module **out) { return gsc_nn_tanh(out); }

gsc_status call_gsc_nn_sequential(gsc_module *const *children, size_t n, gsc_module **out)
{
    return gsc_nn_sequential(children, n, out);
}

gsc_status call_gsc_nn_mlp(const int64_t *sizes, size_t n, gsc_activation activation, gsc_random *random,
                           gsc_module **out)
{
    return gsc_nn_mlp(sizes, n, activation, random, out);
}

gsc_tensor *call_gsc_module_forward(gsc_module *module, gsc_tensor *x) { return gsc_module_forward(module, x); }

size_t call_gsc_module_param_count(const gsc_module *module) { return gsc_module_param_count(module); }

gsc_tensor *call_gsc_module_param(gsc_module *module, size_t index) { return gsc_module_param(module, index); }

void call_gsc_module_free(gsc_module *module) { gsc_module_free(module); }

gsc_param_group call_gsc_sgd_group(gsc_tensor *const *params, size_t count, double lr)
{
    return gsc_sgd_group(params, count, lr);
}

gsc_param_group call_gsc_adam_group(gsc_tensor *const *params, size_t count, double lr)
{
    return gsc_adam_group(params, count, lr);
}

gsc_status call_gsc_optim_sgd(const gsc_param_group *groups, size_t n, gsc_optim **out)
{
    return gsc_optim_sgd(groups, n, out);
}

gsc_status call_gsc_optim_adam(const gsc_param_group *groups, size_t n, gsc_optim **out)
{
    return gsc_optim_adam(groups, n, out);
}

gsc_status call_gsc_optim_adamw(const gsc_param_group *groups, size_t n, gsc_optim **out)
{
    return gsc_optim_adamw(groups, n, out);
}

void call_gsc_optim_free(gsc_optim *optim) { gsc_optim_free(optim); }

const gsc_optimizer *call_gsc_optim_optimizer(gsc_optim *optim) { return gsc_optim_optimizer(optim); }

gsc_status call_gsc_optim_step(gsc_optim *optim) { return gsc_optim_step(optim); }

void call_gsc_optim_zero_grad(gsc_optim *optim) { gsc_optim_zero_grad(optim); }

size_t call_gsc_optim_group_count(const gsc_optim *optim) { return gsc_optim_group_count(optim); }

gsc_status call_gsc_optim_set_lr(gsc_optim *optim, size_t group, double lr)
{
    return gsc_optim_set_lr(optim, group, lr);
}

double call_gsc_optim_get_lr(const gsc_optim *optim, size_t group) { return gsc_optim_get_lr(optim, group); }

size_t call_gsc_optim_param_count(const gsc_optim *optim) { return gsc_optim_param_count(optim); }

const char *call_gsc_optim_param_name(const gsc_optim *optim, size_t param)
{
    return gsc_optim_param_name(optim, param);
}

size_t call_gsc_optim_find_param(const gsc_optim *optim, const char *name) { return gsc_optim_find_param(optim, name); }

const char *call_gsc_optim_kind_name(const gsc_optim *optim) { return gsc_optim_kind_name(optim); }

int64_t call_gsc_optim_step_count(const gsc_optim *optim, size_t param) { return gsc_optim_step_count(optim, param); }

gsc_status call_gsc_optim_set_step_count(gsc_optim *optim, size_t param, int64_t count)
{
    return gsc_optim_set_step_count(optim, param, count);
}

const char *call_gsc_optim_state_name(const gsc_optim *optim, size_t param, size_t index)
{
    return gsc_optim_state_name(optim, param, index);
}

DLTensor *call_gsc_optim_state(gsc_optim *optim, size_t param, const char *name)
{
    return gsc_optim_state(optim, param, name);
}

gsc_random call_gsc_random_init(uint64_t seed, uint64_t stream) { return gsc_random_init(seed, stream); }

uint64_t call_gsc_random_bits(gsc_random *random) { return gsc_random_bits(random); }

double call_gsc_random_uniform(gsc_random *random) { return gsc_random_uniform(random); }

double call_gsc_random_normal(gsc_random *random) { return gsc_random_normal(random); }

uint64_t call_gsc_random_below(gsc_random *random, uint64_t bound) { return gsc_random_below(random, bound); }

gsc_status call_gsc_random_fill_uniform(gsc_random *random, DLTensor *out, double low, double high)
{
    return gsc_random_fill_uniform(random, out, low, high);
}

gsc_status call_gsc_random_fill_normal(gsc_random *random, DLTensor *out, double mean, double deviation)
{
    return gsc_random_fill_normal(random, out, mean, deviation);
}

void call_gsc_random_shuffle(gsc_random *random, int64_t *values, size_t n) { gsc_random_shuffle(random, values, n); }

gsc_status call_gsc_idx_read(const char *path, gsc_idx *out) { return gsc_idx_read(path, out); }

void call_gsc_idx_free(gsc_idx *idx) { gsc_idx_free(idx); }

gsc_status call_gsc_dataset_mnist(const char *dir, const char *prefix, int64_t classes, gsc_dataset **out)
{
    return gsc_dataset_mnist(dir, prefix, classes, out);
}

gsc_status call_gsc_dataset_regression(const float *x, const float *y, size_t count, int64_t features, int64_t targets,
                                       gsc_dataset **out)
{
    return gsc_dataset_regression(x, y, count, features, targets, out);
}

void call_gsc_dataset_free(gsc_dataset *dataset) { gsc_dataset_free(dataset); }

size_t call_gsc_dataset_count(const gsc_dataset *dataset) { return gsc_dataset_count(dataset); }

int64_t call_gsc_dataset_features(const gsc_dataset *dataset) { return gsc_dataset_features(dataset); }

int64_t call_gsc_dataset_classes(const gsc_dataset *dataset) { return gsc_dataset_classes(dataset); }

gsc_status call_gsc_loader_create(const gsc_dataset *dataset, size_t batch, bool shuffle, uint64_t seed,
                                  gsc_loader **out)
{
    return gsc_loader_create(dataset, batch, shuffle, seed, out);
}

void call_gsc_loader_free(gsc_loader *loader) { gsc_loader_free(loader); }

size_t call_gsc_loader_batches(const gsc_loader *loader) { return gsc_loader_batches(loader); }

void call_gsc_loader_start(gsc_loader *loader, uint64_t epoch) { gsc_loader_start(loader, epoch); }

uint64_t call_gsc_loader_epoch(const gsc_loader *loader) { return gsc_loader_epoch(loader); }

size_t call_gsc_loader_batch(const gsc_loader *loader) { return gsc_loader_batch(loader); }

gsc_status call_gsc_loader_seek(gsc_loader *loader, uint64_t epoch, size_t batch)
{
    return gsc_loader_seek(loader, epoch, batch);
}

size_t call_gsc_loader_next(gsc_loader *loader, const DLTensor **x, const DLTensor **y)
{
    return gsc_loader_next(loader, x, y);
}

gsc_status call_gsc_safetensors_write(const char *path, const gsc_named_tensor *tensors, size_t n,
                                      const gsc_metadata *metadata, size_t m)
{
    return gsc_safetensors_write(path, tensors, n, metadata, m);
}

gsc_status call_gsc_safetensors_open(const char *path, gsc_safetensors **out)
{
    return gsc_safetensors_open(path, out);
}

void call_gsc_safetensors_close(gsc_safetensors *file) { gsc_safetensors_close(file); }

size_t call_gsc_safetensors_count(const gsc_safetensors *file) { return gsc_safetensors_count(file); }

const char *call_gsc_safetensors_name(const gsc_safetensors *file, size_t index)
{
    return gsc_safetensors_name(file, index);
}

const DLTensor *call_gsc_safetensors_tensor(const gsc_safetensors *file, size_t index)
{
    return gsc_safetensors_tensor(file, index);
}

const DLTensor *call_gsc_safetensors_find(const gsc_safetensors *file, const char *name)
{
    return gsc_safetensors_find(file, name);
}

size_t call_gsc_safetensors_metadata_count(const gsc_safetensors *file) { return gsc_safetensors_metadata_count(file); }

gsc_metadata call_gsc_safetensors_metadata(const gsc_safetensors *file, size_t index)
{
    return gsc_safetensors_metadata(file, index);
}

const char *call_gsc_safetensors_metadata_find(const gsc_safetensors *file, const char *key)
{
    return gsc_safetensors_metadata_find(file, key);
}

gsc_status call_gsc_checkpoint_save(const char *dir, const gsc_checkpoint *checkpoint)
{
    return gsc_checkpoint_save(dir, checkpoint);
}

gsc_status call_gsc_checkpoint_load(const char *dir, const gsc_checkpoint *into, char **run)
{
    return gsc_checkpoint_load(dir, into, run);
}

gsc_status call_gsc_checkpoint_read_run(const char *dir, char **run) { return gsc_checkpoint_read_run(dir, run); }

char *call_gsc_scaler_state_to_json(const gsc_scaler_state *state) { return gsc_scaler_state_to_json(state); }

gsc_status call_gsc_scaler_state_from_json(const char *text, gsc_scaler_state *out)
{
    return gsc_scaler_state_from_json(text, out);
}

void call_gsc_free(void *memory) { gsc_free(memory); }

#endif
