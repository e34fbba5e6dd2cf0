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

# shellcheck disable=SC2046 # a list of flags
compile_and_run "$here/use_core.c" $(pkg-config --cflags --libs gradscaler) -Wl,-rpath,"$lib"
# shellcheck disable=SC2046
compile_and_run "$here/static_dtypes.c" $(pkg-config --cflags --libs gradscaler) -Wl,-rpath,"$lib"
if with_train; then
    # shellcheck disable=SC2046
    compile_and_run "$here/use_train.c" $(pkg-config --cflags --libs gradscaler-train) -Wl,-rpath,"$lib"
fi
use_cmake_package "$prefix"
