#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A project that adds this one gets libgradscaler and nothing else: no tests, no command, no other library is looked for, and
# its own build type, flags and installation stay its own. The CMake examples of docs/build.md are the projects.
# package_subproject shows: fresh 5
. "$(dirname "$0")/common.sh"

page=$SOURCE/docs/build.md

# The block of the page, in the given language, that has a line with the text.
block() { # LANGUAGE TEXT
    awk -v first="\`\`\`$1" -v text="$2" '
        /^```/ { if (in_block && wanted) { printf "%s", lines; exit } in_block = $0 == first; lines = ""; wanted = 0; next }
        in_block { lines = lines $0 "\n"; if (index($0, text)) wanted = 1 }' "$page"
}

# configure FOLDER OPTION...: with Makefiles, in which the flags of a file can be read
configure() {
    folder=$1
    shift
    cmake -G "Unix Makefiles" -S "$WORK/$folder" -B "$WORK/$folder/build" -DCMAKE_C_COMPILER="$CC" \
        -DDLPACK_INCLUDE_DIR="$DLPACK_INCLUDE_DIR" "$@" >"$WORK/$folder.log" 2>&1 ||
        { cat "$WORK/$folder.log" >&2; fail "the project $folder is not configured with: $*"; }
}

build() { # FOLDER OPTION...
    configure "$@"
    cmake --build "$WORK/$1/build" -j 2 >>"$WORK/$1.log" 2>&1 || { cat "$WORK/$1.log" >&2; fail "the project $1 does not build"; }
    "$WORK/$1/build/my_program" || fail "the program of $1 fails"
}

# add_project FOLDER TEXT: the example that has the text, with the page's program
add_project() {
    mkdir -p "$WORK/$1"
    block cmake "$2" >"$WORK/$1/CMakeLists.txt"
    block c "int main" >"$WORK/$1/main.c"
    [ -s "$WORK/$1/CMakeLists.txt" ] && [ -s "$WORK/$1/main.c" ] || fail "$page has no example with $2"
}

nothing_is_set() { # FOLDER BUILD_TYPE
    cache=$WORK/$1/build/CMakeCache.txt
    ! grep -iE '^(cmocka|dnnl|jansson|zlib)_|^BUILD_SHARED_LIBS' "$cache" || fail "$1: these are looked for, or set"
    grep -qE "^CMAKE_BUILD_TYPE:[A-Z]+=$2\$" "$cache" || fail "$1: the build type is $(grep ^CMAKE_BUILD_TYPE "$cache")"
}

nothing_else_is_built() { # FOLDER
    build=$WORK/$1/build
    find "$build" -path '*/CMakeFiles/*' -prune -o -type f \( -perm -100 -o -name '*.a' -o -name '*.so*' \) -print |
        sed 's|.*/||' | sort >"$WORK/made"
    printf '%s\n' libgradscaler.a my_program | diff -u - "$WORK/made" || fail "$1: other things are built"
    DESTDIR=$WORK/$1/stage cmake --install "$build" >>"$WORK/$1.log" 2>&1 || fail "$1 does not install"
    [ ! -e "$WORK/$1/stage" ] || fail "$1: its installation has files: $(find "$WORK/$1/stage" -type f)"
    ! (cd "$build" && ctest -N) | grep 'Test *#' || fail "$1: these are not its own tests"
}

add_project added add_subdirectory
mkdir "$WORK/added/third_party"
ln -s "$SOURCE" "$WORK/added/third_party/gradscaler"
configure added
nothing_is_set added ""
flags=$WORK/added/build/CMakeFiles/my_program.dir/flags.make
grep -q '^C_FLAGS = *$' "$flags" || fail "the program's flags are $(grep ^C_FLAGS "$flags")"
build added -DCMAKE_BUILD_TYPE=Debug
nothing_else_is_built added

# What docs/build.md says can be asked for.
build added -DGSC_INSTALL=ON -DBUILD_SHARED_LIBS=ON
DESTDIR=$WORK/added/asked cmake --install "$WORK/added/build" >>"$WORK/added.log" || fail "added does not install what it asks for"
find "$WORK/added/asked" -name libgradscaler.so | grep -q . || fail "GSC_INSTALL=ON installs no library"
if with_train; then
    sed 's/gradscaler::gradscaler /gradscaler::gradscaler-train /' "$WORK/added/CMakeLists.txt" >"$WORK/new"
    mv "$WORK/new" "$WORK/added/CMakeLists.txt"
    configure added -DGSC_TRAIN=ON -DBUILD_SHARED_LIBS=OFF
    grep -q libgradscaler-train.a "$WORK/added/build/CMakeFiles/my_program.dir/link.txt" ||
        fail "gradscaler::gradscaler-train is not what added links"
fi

# FetchContent would download what is here already.
add_project fetched FetchContent
build fetched -DCMAKE_BUILD_TYPE=Debug -DFETCHCONTENT_SOURCE_DIR_GRADSCALER="$SOURCE"
nothing_is_set fetched Debug
nothing_else_is_built fetched

# An installed one.
add_project found find_package
cmake --install "$BUILD" --prefix "$WORK/prefix" >"$WORK/install.log" || fail "cmake --install: $(cat "$WORK/install.log")"
build found -DCMAKE_PREFIX_PATH="$WORK/prefix"
