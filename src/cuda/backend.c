/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c: the module's functions as the core knows them. */
#include "cuda/module.h"
#include "gradscaler/cuda.h"

static const gsc_backend backend = {.version = GSC_BACKEND_VERSION,
                                    .name = "CUDA",
                                    .check_device = gsc__cuda_check_device,
                                    .create = gsc__cuda_create,
                                    .destroy = gsc__cuda_destroy,
                                    .set_stream = gsc__cuda_set_stream,
                                    .stream = gsc__cuda_stream,
                                    .step_stream = gsc__cuda_step_stream,
                                    .scale = gsc__cuda_scale,
                                    .scale_view = gsc__cuda_scale_view,
                                    .record_create = gsc__cuda_record_create,
                                    .record_destroy = gsc__cuda_record_destroy,
                                    .scan = gsc__cuda_scan,
                                    .agreement = gsc__cuda_agreement,
                                    .decide = gsc__cuda_decide,
                                    .replace = gsc__cuda_replace,
                                    .norm_exponent = gsc__cuda_norm_exponent,
                                    .norm_sums = gsc__cuda_norm_sums,
                                    .clip = gsc__cuda_clip,
                                    .multiply = gsc__cuda_multiply,
                                    .scaling = gsc__cuda_scaling,
                                    .finish = gsc__cuda_finish,
                                    .update = gsc__cuda_update,
                                    .update_to = gsc__cuda_update_to,
                                    .load = gsc__cuda_load,
                                    .set_rules = gsc__cuda_set_rules,
                                    .acknowledge = gsc__cuda_acknowledge,
                                    .settle = gsc__cuda_settle,
                                    .peek = gsc__cuda_peek,
                                    .verdict = gsc__cuda_verdict,
                                    .report = gsc__cuda_report,
                                    .read_element = gsc__cuda_read_element};

const gsc_backend *gsc_cuda_backend(void) { return &backend; }
