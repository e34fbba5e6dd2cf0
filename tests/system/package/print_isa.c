/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the instruction set in use: how .ci/run knows that GSC_ISA was obeyed. */
#include <stdio.h>

#include "gradscaler/gradscaler.h"

int main(void) { return puts(gsc_isa()) < 0; }
