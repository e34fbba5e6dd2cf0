/* SPDX-License-Identifier: Apache-2.0 */
/* support.h: what the fuzz targets share. A target is LLVMFuzzerTestOneInput of fuzz_<topic>.c: it turns any bytes into
 * calls and states with require() what must hold afterwards. The main function of libFuzzer looks for bytes that break
 * this; that of replay.c gives the target the inputs of corpus/<topic>.txt. */
#ifndef GSC_FUZZ_SUPPORT_H
#define GSC_FUZZ_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradscaler/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program with what was expected, in words. libFuzzer reports that as a finding. */
#define require(condition, ...) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__))
_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...) GSC_PRINTF(4, 5);

/* Requires a message that begins with `start` and goes on, as every refusal leaves one. */
void require_message(const char *start);
/* Replaces the last error message, so that it is not mistaken for that of the next call. */
void forget_message(void);

/* Take numbers off the front of an input; an exhausted input gives zeros. */
typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

uint8_t take_byte(input *in);
uint32_t take_u32(input *in);
uint64_t take_u64(input *in);
double take_double(input *in);          /* any bit pattern */
size_t take_below(input *in, size_t n); /* 0 … n - 1, n in 1 … 256 */

/* Writes a file in memory and returns its path, which is valid until the next call with this slot. */
enum { FUZZ_FILES = 2 };
const char *fuzz_file(int slot, const void *data, size_t size);

#endif
