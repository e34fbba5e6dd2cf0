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
    # shellcheck disable=SC2086 # a list of arguments
    "$compiler" -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "$@" \
        -I"$SOURCE/include" -idirafter "$DLPACK_INCLUDE_DIR" $mpi_flags "$file" || fail "$header: $compiler refuses it"
    echo "$header: $compiler $1"
}

compile_everywhere() { # FILE.c FILE.cpp
    compile gcc "$1" -std=c11 -Wstrict-prototypes -Wmissing-prototypes
    compile clang "$1" -std=c11 -Wstrict-prototypes -Wmissing-prototypes
    compile g++ "$2" -std=c++17
    compile clang++ "$2" -std=c++17
}

# MPI's own header is in folders of its own, which are given as -isystem so that its warnings do not count.
mpi_flags=
compile_header() { # PATH
    header=gradscaler/$(basename "$1")
    for suffix in c cpp; do
        printf '#include "%s"\n#include "%s"\nextern int user;\n' "$header" "$header" >"$WORK/user.$suffix"
    done
    compile_everywhere "$WORK/user.c" "$WORK/user.cpp"
}

for path in "$SOURCE"/include/gradscaler/*.h; do
    [ "$(basename "$path")" = mpi.h ] || compile_header "$path"
done >"$WORK/compiled"
for wrapper in $GSC_MPI_WRAPPERS; do
    mpi_flags=$("$wrapper" -show | tr ' ' '\n' | sed -n 's/^-I/-isystem /p')
    compile_header "$SOURCE/include/gradscaler/mpi.h"
done >>"$WORK/compiled"
mpi_flags=

header=static_dtypes.c
cp "$here/static_dtypes.c" "$WORK/static_dtypes.cpp"
compile_everywhere "$here/static_dtypes.c" "$WORK/static_dtypes.cpp" >>"$WORK/compiled"
[ -s "$WORK/compiled" ] || fail "no compiler was found"
