#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` leaves behind works for programs outside the tree, through pkg-config and find_package, also
# after the folder was moved.
. "$(dirname "$0")/common.sh"

cmake --install "$BUILD" --prefix "$WORK/staged" >"$WORK/install.log" || fail "cmake --install: $(cat "$WORK/install.log")"
mv "$WORK/staged" "$WORK/prefix"
prefix=$WORK/prefix

lib=$(dirname "$(find "$prefix" -name libgradscaler.so)")
[ -L "$lib/libgradscaler.so" ] && [ -L "$lib/libgradscaler.so.0" ] || fail "$lib lacks the links of a versioned library"
export PKG_CONFIG_PATH="$lib/pkgconfig"

compile_with "--cflags --libs gradscaler" "$here/use_core.c" -Wl,-rpath,"$lib"
compile_with "--cflags --libs gradscaler" "$here/static_dtypes.c" -Wl,-rpath,"$lib"
if with_train; then
    compile_with "--cflags --libs gradscaler-train" "$here/use_train.c" -Wl,-rpath,"$lib"
fi
if with_cuda; then
    compile_with "--cflags --libs gradscaler-cuda" "$here/use_cuda.c" -Wl,-rpath,"$lib"
fi
for mpi in $GSC_MPIS; do
    compile_with "--cflags --libs gradscaler-mpi-$mpi" "$here/use_mpi.c" -Wl,-rpath,"$lib"
done
if with_mpi; then
    compile_with "--cflags --libs gradscaler-mpi" "$here/use_mpi.c" -Wl,-rpath,"$lib"
fi
use_cmake_package "$prefix"
