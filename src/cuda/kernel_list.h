/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_list.h: every kernel, once: X(name). The kernel is gsc__kernel_<name>, its argument the struct
 * gsc__cuda_<name>_args of cuda/shared.h or cuda/optim_shared.h. The host's handles and the stand-in's table follow. */
#ifndef GSC_CUDA_KERNEL_LIST_H
#define GSC_CUDA_KERNEL_LIST_H

/* The scaler's. */
#define GSC_CUDA_SCALER_KERNELS(X)                                                                                     \
    X(upload)      /* words into device memory */                                                                      \
    X(items)       /* which tensor each item belongs to */                                                             \
    X(begin)       /* a check: its factor, empty results */                                                            \
    X(scan)        /* multiplies, checks */                                                                            \
    X(sum)         /* the same, and a sum of |y|^p for each item, p = 1 and 2 */                                       \
    X(power)       /* a sum of powers for each item, other p */                                                        \
    X(tree)        /* one level of the sum over items */                                                               \
    X(gather)      /* another device's results into those of the scaler's device */                                    \
    X(pack)        /* what ranks agree on */                                                                           \
    X(decide)      /* the verdict, and the report */                                                                   \
    X(prepare)     /* another pass: its factor, empty results */                                                       \
    X(exponent)    /* of a norm with another p */                                                                      \
    X(norm_values) /* what ranks add up */                                                                             \
    X(clip)        /* norm and coefficient */                                                                          \
    X(finish)      /* counts a step */                                                                                 \
    X(update)      /* the schedule, and a snapshot */                                                                  \
    X(load)        /* what the host changes */                                                                         \
    X(snapshot)    /* for settle */                                                                                    \
    X(scale)       /* out = in * scale */

/* The optimizers'. */
#define GSC_CUDA_OPTIM_KERNELS(X)                                                                                      \
    X(optim_items)   /* which parameter each item belongs to */                                                        \
    X(optim_counts)  /* sets the step counts */                                                                        \
    X(optim_prepare) /* the factors of each parameter's step */                                                        \
    X(optim_sgd)     /* the step */                                                                                    \
    X(optim_adam)    /* the same, Adam and AdamW */

#define GSC_CUDA_KERNELS(X) GSC_CUDA_SCALER_KERNELS(X) GSC_CUDA_OPTIM_KERNELS(X)

enum {
#define GSC_CUDA_NAME_KERNEL(name) GSC_CUDA_KERNEL_##name,
    GSC_CUDA_KERNELS(GSC_CUDA_NAME_KERNEL)
#undef GSC_CUDA_NAME_KERNEL
        GSC_CUDA_KERNEL_COUNT
};

#endif
