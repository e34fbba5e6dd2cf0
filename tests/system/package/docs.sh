#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every C block of the documentation compiles; one that has a main runs and exits 0. Relative links lead somewhere, and
# the tests that docs/verification.md names exist.
. "$(dirname "$0")/common.sh"

# Writes the C blocks of a page to $WORK/<page>-<line>.c
extract() { # FILE PAGE
    awk -v stem="$WORK/$2" '
        /^```/ { if (out) { close(out); out = "" } else if ($0 == "```c") { out = stem "-" NR ".c"; next } }
        out { print > out }' "$1"
}

compile_fragment() { # FILE: the body of a function
    {
        echo '#include "docs_context.h"'
        echo 'int fragment(void);'
        echo 'int fragment(void) {'
        sed '/^#include/d' "$1"
        echo 'return 0; }'
    } >"$1.wrapped.c"
    "$CC" -std=c11 -Wall -Wextra -Werror -fsyntax-only -I"$here" -I"$SOURCE/include" -isystem "$DLPACK_INCLUDE_DIR" \
        "$1.wrapped.c" || fail "$1 does not compile"
}

for page in "$SOURCE"/*.md "$SOURCE"/docs/*.md; do
    extract "$page" "$(basename "$page" .md)"
    grep -oE '\]\([^)#]+' "$page" | cut -c 3- | grep -v '^https:' | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || fail "$page links to $link, which is not there"
    done
done

if with_train; then
    (cd "$BUILD" && ctest -N) | sed -n 's/^ *Test *#[0-9]*: //p' >"$WORK/tests"
    grep -oE '`(base|kernels|gradients|core|pages|train|package|cli|proof)_[a-z_]+' "$SOURCE/docs/verification.md" | tr -d '`' | while read -r test; do
        case $test in
        *_) wanted="^$test" ;; # `core_*`
        *) wanted="^$test\$" ;;
        esac
        grep -q "$wanted" "$WORK/tests" || fail "docs/verification.md names the test $test, which is not there"
    done
fi

programs=0
for block in "$WORK"/*.c; do
    if ! grep -q 'int main' "$block"; then
        compile_fragment "$block"
    elif grep -q 'gradscaler/cuda.h' "$block"; then
        "$CC" -std=c11 -Wall -Wextra -Werror -fsyntax-only -I"$SOURCE/include" -isystem "$DLPACK_INCLUDE_DIR" "$block" ||
            fail "$block does not compile"
        ! with_cuda || compile_and_run "$block" -I"$SOURCE/include" -isystem "$DLPACK_INCLUDE_DIR" -L"$BUILD/src/cuda" \
            -L"$BUILD/src" -lgradscaler-cuda -lgradscaler -Wl,-rpath,"$BUILD/src:$BUILD/src/cuda"
    elif ! grep -q 'gradscaler/train.h' "$block"; then
        compile_and_run "$block" -I"$SOURCE/include" -isystem "$DLPACK_INCLUDE_DIR" -L"$BUILD/src" -lgradscaler -lm \
            -Wl,-rpath,"$BUILD/src"
        programs=$((programs + 1))
    elif with_train; then
        compile_and_run "$block" -I"$SOURCE/include" -isystem "$DLPACK_INCLUDE_DIR" -L"$BUILD/src" \
            -lgradscaler-train -lgradscaler -lm -Wl,-rpath,"$BUILD/src" -Wl,-rpath-link,"$BUILD/src"
    fi
done
[ "$programs" -gt 0 ] || fail "the documentation has no complete program"
