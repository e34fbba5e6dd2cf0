#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone, and twice, as C11 and as C++17, without a warning, with every compiler at hand; so
# do the initialisers of dtype.h.
. "$(dirname "$0")/common.sh"

compile() { # COMPILER FILE OPTION...
    compiler=$1
    file=$2
    shift 2
    command -v "$compiler" >/dev/null || return 0
    "$compiler" -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "$@" \
        -I"$SOURCE/include" -isystem "$DLPACK_INCLUDE_DIR" "$file" || fail "$header: $compiler refuses it"
    echo "$header: $compiler $1"
}

compile_everywhere() { # FILE.c FILE.cpp
    compile gcc "$1" -std=c11 -Wstrict-prototypes -Wmissing-prototypes
    compile clang "$1" -std=c11 -Wstrict-prototypes -Wmissing-prototypes
    compile g++ "$2" -std=c++17
    compile clang++ "$2" -std=c++17
}

for path in "$SOURCE"/include/gradscaler/*.h; do
    header=gradscaler/$(basename "$path")
    for suffix in c cpp; do
        printf '#include "%s"\n#include "%s"\nextern int user;\n' "$header" "$header" >"$WORK/user.$suffix"
    done
    compile_everywhere "$WORK/user.c" "$WORK/user.cpp"
done >"$WORK/compiled"

header=static_dtypes.c
cp "$here/static_dtypes.c" "$WORK/static_dtypes.cpp"
compile_everywhere "$here/static_dtypes.c" "$WORK/static_dtypes.cpp" >>"$WORK/compiled"
[ -s "$WORK/compiled" ] || fail "no compiler was found"
