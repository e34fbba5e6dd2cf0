#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The core alone needs a C compiler, CMake and dlpack.h: nothing else is looked for, linked or installed.
. "$(dirname "$0")/common.sh"

GSC_TRAIN=OFF
GSC_CUDA=OFF
configure_and_install core -DCMAKE_BUILD_TYPE=Debug -DGSC_TRAIN=OFF -DGSC_CLI=OFF -DGSC_BUILD_TESTS=OFF
! grep -iE '^(dnnl|zlib|jansson|cmocka)' "$WORK/core/CMakeCache.txt" || fail "the core looks for libraries that it must not need"
check_needed "$WORK/core/prefix/lib/libgradscaler.so" libgcc_s
! (cd "$WORK/core/prefix" && find .) | grep -E 'train|tensor|autocast|cuda' || fail "parts of other layers were installed"

export PKG_CONFIG_PATH="$WORK/core/prefix/lib/pkgconfig"
compile_with "--cflags --libs gradscaler" "$here/use_core.c" -Wl,-rpath,"$WORK/core/prefix/lib"
use_cmake_package "$WORK/core/prefix"
