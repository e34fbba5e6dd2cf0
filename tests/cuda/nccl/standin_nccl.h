/* SPDX-License-Identifier: Apache-2.0 */
/* standin_nccl.h: a stand-in for NCCL (libnccl.so.2) whose ranks are worlds of the stand-in for the driver. It knows
 * what the module uses of NCCL; anything else is ncclInvalidArgument. */
#ifndef GSC_TESTS_STANDIN_NCCL_H
#define GSC_TESTS_STANDIN_NCCL_H

#include "standin/standin.h"

struct ncclComm {
    standin_world *world;
    int rank;
    int fails;       /* the next collective returns this and does nothing; 0: it works */
    int in_progress; /* that many times a call answers ncclInProgress before it has its result */
    int calls;       /* of ncclAllReduce */
    void *stream;    /* of the last one */
};

#endif
