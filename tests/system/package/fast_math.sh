#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A distribution's or a user's CFLAGS cannot break the numbers: the library built with -ffast-math finds NaN and
# infinity, keeps subnormals and leaves the process's floating-point mode alone; so it does for a program built that way.
# package_fast_math shows: rule 4.6, 16.3, case 22
. "$(dirname "$0")/common.sh"

GSC_TRAIN=OFF
GSC_CUDA=OFF
configure_and_install fast -DGSC_TRAIN=OFF -DGSC_CLI=OFF -DGSC_BUILD_TESTS=OFF -DCMAKE_C_FLAGS="-O3 -ffast-math"
lib=$WORK/fast/prefix/lib
export PKG_CONFIG_PATH="$lib/pkgconfig"
for options in "" "-DFAST_MATH -ffast-math"; do
    # shellcheck disable=SC2086 # a list of flags
    compile_with "--cflags --libs gradscaler" "$here/fast_math.c" $options -Wl,-rpath,"$lib"
done
