#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The kernels' PTX, from nvcc and from clang where they are: no product and sum become one rounding, nothing is flushed to
# zero, nothing is approximated. ptxas may fuse a product and a sum that do not say .rn.
. "$(dirname "$0")/common.sh"

# What changes numbers in floating-point instructions of PTX.
wrong='^[[:space:]]*(@!?%?[a-z0-9]+[[:space:]]+)?((fma|mad)\.[a-z0-9.]*f(32|64)|[a-z0-9.]+\.(ftz|approx|full)[. ]|(add|sub|mul|div|sqrt)\.(r[zmp]\.)?f(32|64))'

check_ptx() { # FILE
    kernels=$(grep -c '\.entry gsc__kernel_' "$1") || true
    [ "$kernels" -gt 0 ] || fail "$1 has no kernel"
    ! grep -nE "$wrong" "$1" >"$WORK/wrong" || fail "$1: these change results:
$(head "$WORK/wrong")"
    grep -qE '(mul|add)\.rn\.f32' "$1" || fail "$1 has no arithmetic: the search would find nothing"
}

# The search finds what it looks for.
for instruction in 'fma.rn.f32 %f1, %f2, %f3, %f4;' 'mul.ftz.f32 %f1, %f2, %f3;' '@%p1 div.approx.f32 %f1, %f2, %f3;' \
    'div.full.f32 %f1, %f2, %f3;' 'mad.rn.f64 %fd1, %fd2, %fd3, %fd4;' 'sqrt.approx.ftz.f32 %f1, %f2;' 'add.rz.f32 %f1, %f2, %f3;' \
    'cvt.ftz.f64.f32 %fd1, %f1;' 'mul.f32 %f1, %f2, %f3;' '@!%p1 add.f64 %fd1, %fd2, %fd3;'; do
    echo "	$instruction" | grep -qE "$wrong" || fail "the search does not find $instruction"
done
for instruction in 'mad.lo.s32 %r1, %r2, %r3, %r4;' 'mul.rn.f32 %f1, %f2, %f3;' 'mul.wide.u32 %rd1, %r1, %r2;' 'div.rn.f32 %f1, %f2, %f3;' \
    'cvt.rn.f32.f64 %f1, %fd1;' 'cvt.rzi.s64.f64 %rd1, %fd1;'; do
    ! echo "	$instruction" | grep -qE "$wrong" || fail "the search finds $instruction"
done

checked=""
for compiler in "$("$SOURCE/scripts/nvcc" --find 2>/dev/null || true)" "$(command -v clang || true)"; do
    [ -n "$compiler" ] || continue
    name=$(basename "$compiler")
    if [ "$name" = clang ] && ! clang -x cuda --cuda-device-only -nocudainc -nocudalib -S -o /dev/null /dev/null 2>/dev/null; then
        continue # built without this target
    fi
    cmake -S "$SOURCE" -B "$WORK/$name" -DCMAKE_C_COMPILER="$CC" -DDLPACK_INCLUDE_DIR="$DLPACK_INCLUDE_DIR" \
        -DGSC_CUDA=ON -DGSC_CUDA_COMPILER="$compiler" -DGSC_TRAIN=OFF -DGSC_CLI=OFF -DGSC_BUILD_TESTS=OFF \
        >"$WORK/$name.log" 2>&1 &&
        cmake --build "$WORK/$name" --target gradscaler-cuda-ptx >>"$WORK/$name.log" 2>&1 ||
        { cat "$WORK/$name.log" >&2; fail "$compiler does not compile the kernels"; }
    check_ptx "$WORK/$name/src/cuda/kernels.ptx"
    checked="$checked $name"
done
[ -n "$checked" ] || skip "there is neither nvcc (scripts/install cuda) nor clang"
echo "checked the PTX of$checked"
