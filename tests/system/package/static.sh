#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Static libraries: every global name has the prefix; pkg-config --static and find_package bring what they need.
. "$(dirname "$0")/common.sh"

configure_and_install static -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=OFF -DGSC_TRAIN="$GSC_TRAIN" -DGSC_CLI=OFF \
    -DGSC_CUDA="$GSC_CUDA" -DGSC_CUDA_COMPILER="$GSC_CUDA_COMPILER" -DGSC_BUILD_TESTS=OFF
lib=$WORK/static/prefix/lib
for library in "$lib"/*.a; do
    check_prefix "$library"
done

export PKG_CONFIG_PATH="$lib/pkgconfig"
compile_with "--static --cflags --libs gradscaler" "$here/use_core.c"
if with_train; then
    compile_with "--static --cflags --libs gradscaler-train" "$here/use_train.c"
fi
if with_cuda; then
    compile_with "--static --cflags --libs gradscaler-cuda" "$here/use_cuda.c"
fi
use_cmake_package "$WORK/static/prefix"
