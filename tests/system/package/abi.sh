#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs written for version 0.1.0 go on working: calls as its headers declare them compile, structs keep their sizes
# and offsets, and the libraries' binary interface is that of abi/*-0.1.0.abi, but for what abi/intended.suppr lists.
# A dump is made by `abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-show-locs
# --no-corpus-path --no-comp-dir-path --no-write-default-sizes` from a library built with -g.
. "$(dirname "$0")/common.sh"

with=""
! with_train || with=-DWITH_TRAIN
for compiler in "$CC -std=c11" "c++ -x c++ -std=c++17"; do
    for file in calls_0_1_0.c struct_layout.c; do
        # shellcheck disable=SC2086 # a command and its options
        $compiler -fsyntax-only -Wall -Wextra -Wpedantic -Werror $with -I"$SOURCE/include" \
            -isystem "$DLPACK_INCLUDE_DIR" "$here/$file" || fail "$file does not compile with $compiler"
    done
done

[ "$(uname -m)" = x86_64 ] || skip "the dumps were made on x86-64"
configure_and_install debug -DCMAKE_BUILD_TYPE=Debug -DGSC_TRAIN="$GSC_TRAIN" -DGSC_CLI=OFF -DGSC_BUILD_TESTS=OFF
libraries=gradscaler
! with_train || libraries="gradscaler gradscaler-train"
for library in $libraries; do
    # Bits 4 and 8 of the status: something changed, and not compatibly. New functions are welcome.
    abidiff --no-show-locs --no-added-syms --suppressions "$here/abi/intended.suppr" \
        "$here/abi/$library-0.1.0.abi" "$WORK/debug/src/lib$library.so" >"$WORK/$library.txt" ||
        fail "lib$library.so differs from version 0.1.0: $(cat "$WORK/$library.txt")"
done
