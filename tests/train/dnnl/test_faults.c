/* SPDX-License-Identifier: Apache-2.0 */
/* Which products are left to oneDNN, and which are computed in float32 instead. */
#define _POSIX_C_SOURCE 200809L /* fork, setenv */
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gradscaler/status.h"
#include "tape_rig.h"
#include "train/dnnl/faults.h"

/* Values of dnnl_cpu_isa_t. */
enum { AVX2 = 0x7, AVX512_CORE = 0x27, AVX512_CORE_BF16 = 0xe7, AVX512_CORE_AMX = 0x3e7 };

/* trial T34 */
static void emulated_arithmetic_is_not_fast(void **state)
{
    (void)state;
    assert_false(gsc__dnnl_is_fast(GSC_BF16, "gemm:jit", AVX512_CORE));
    assert_false(gsc__dnnl_is_fast(GSC_BF16, "gemm:jit", AVX2));
    assert_true(gsc__dnnl_is_fast(GSC_BF16, "gemm:jit", AVX512_CORE_BF16));
    assert_true(gsc__dnnl_is_fast(GSC_BF16, "gemm:jit", AVX512_CORE_AMX));
    assert_true(gsc__dnnl_is_fast(GSC_BF16, "brg:avx512_core_bf16", AVX512_CORE_BF16));
    assert_true(gsc__dnnl_is_fast(GSC_BF16, "brg_matmul:avx2_vnni_2", AVX2));
    assert_true(gsc__dnnl_is_fast(GSC_BF16, "gemm:acl", 0));
    assert_true(gsc__dnnl_is_fast(GSC_F32, "gemm:jit", AVX2));
    assert_false(gsc__dnnl_is_fast(GSC_F16, "ref:any", AVX512_CORE_AMX));
    assert_false(gsc__dnnl_is_fast(GSC_BF16, "ref:any", AVX512_CORE_AMX));
}

/* trial T32 */
static void faults_end_with_the_version_that_mends_them(void **state)
{
    (void)state;
    const char *amx = "brg:avx512_core_amx_bf16", *avx512 = "brg:avx512_core_bf16";
    assert_false(gsc__dnnl_is_right(63, amx, 2, 6));
    assert_false(gsc__dnnl_is_right(63, amx, 3, 0));
    assert_true(gsc__dnnl_is_right(63, amx, 3, 1));
    assert_true(gsc__dnnl_is_right(63, amx, 4, 0));
    assert_true(gsc__dnnl_is_right(63, avx512, 2, 6));
    assert_true(gsc__dnnl_is_right(64, amx, 2, 6));
    assert_true(gsc__dnnl_is_right(31, amx, 2, 6));
}

/* a times b in the first element of an inner size of 64, the other elements 0. */
static double product(DLDataType dtype, double a, double b)
{
    gsc_tape *tape = new_tape();
    double left[64] = {a}, right[64] = {b};
    gsc_tensor *c = gsc_matmul(new_input(tape, dtype, SHAPE(1, 64), left), new_input(tape, dtype, SHAPE(64, 1), right));
    assert_non_null(c);
    double result = element(c, 0);
    gsc_tape_free(tape);
    return result;
}

/* What becomes of subnormal numbers in a product, bits of an exit status. */
enum { INPUT_KEPT = 1, RESULT_KEPT = 2, OTHER = 4 };

static int keeps(double result, double exact, int bit) { return result == exact ? bit : result == 0 ? 0 : OTHER; }

/* oneDNN reads its limit once, so each is tried in a child. */
static int subnormals(DLDataType dtype, const char *isa, double least)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("ONEDNN_MAX_CPU_ISA", isa, 1);
        setenv("DNNL_MAX_CPU_ISA", isa, 1); /* its name before version 2.3 */
        double big = 1024;
        _exit(keeps(product(dtype, least, big), least * big, INPUT_KEPT) |
              keeps(product(dtype, least * big, 1 / big), least, RESULT_KEPT));
    }
    int status;
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool processor_has_bfloat16(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

/* trial T33, T34 */
static void bfloat16_instructions_take_subnormals_as_zero(void **state)
{
    (void)state;
    const double least_bf16 = 0x1p-133, least_f32 = 0x1p-149, least_f16 = 0x1p-24;
    const int kept = INPUT_KEPT | RESULT_KEPT;
    static const char *const isas[] = {"DEFAULT", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2", "SSE41"};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(subnormals(GSC_FLOAT32, isas[i], least_f32), kept);
        assert_int_equal(subnormals(GSC_FLOAT16, isas[i], least_f16), kept);
        bool instructions = i < 2 && processor_has_bfloat16();
        assert_int_equal(subnormals(GSC_BFLOAT16, isas[i], least_bf16), instructions ? 0 : kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emulated_arithmetic_is_not_fast),
        cmocka_unit_test(faults_end_with_the_version_that_mends_them),
        cmocka_unit_test(bfloat16_instructions_take_subnormals_as_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
