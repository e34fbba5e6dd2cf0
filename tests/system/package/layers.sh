#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each layer includes only what the layers above it offer (docs/architecture.md), whatever the folder's files are called.
. "$(dirname "$0")/common.sh"

core_headers='gradscaler/(gradscaler|status|runtime|dtype|optimizer|scaler|gradients|version)\.h'
c_library='assert|errno|fenv|float|inttypes|limits|math|signal|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib'
c_library="$c_library|string|time|pthread|sched|unistd|sys/auxv|cpuid|immintrin|xmmintrin|arm_neon"

# check FOLDER QUOTED ANGLED: extended regular expressions of what may stand in #include "…" and <…>.
check() {
    files=$(find "$SOURCE/$1" -name '*.[ch]')
    [ -n "$files" ] || fail "$1 is empty"
    # shellcheck disable=SC2086 # a list of files
    wrong=$(grep -nE '^ *# *include' $files /dev/null |
        grep -v -E "include +(\"($2)\"|<($3)>) *(/\*.*)?$") || return 0
    fail "$1 must not include this:
$wrong"
}

check src/base "base/[a-z0-9_]+\.h|$core_headers" "($c_library)\.h|dlpack/dlpack\.h"
check src/kernels "(base|kernels)/[a-z0-9_]+\.(h|inc)|$core_headers" "($c_library)\.h|dlpack/dlpack\.h"
check src/gradients "(base|kernels|gradients)/[a-z0-9_]+\.h|$core_headers" "($c_library)\.h|dlpack/dlpack\.h"
check src/core "(base|kernels|gradients|core)/[a-z0-9_]+\.h|$core_headers" "($c_library)\.h|dlpack/dlpack\.h"
with_train && check src/train "train/[a-z0-9_/]+\.h|gradscaler/[a-z_]+\.h|base/[a-z0-9_]+\.h" \
    "($c_library|dlfcn|fcntl|dirent|locale|sys/[a-z]+|zlib|jansson|oneapi/dnnl/dnnl[a-z_]*)\.h|dlpack/dlpack\.h"
with_train && check cli "(common|train)/[a-z_]+\.h|base/try\.h|gradscaler/[a-z_]+\.h" "($c_library|ctype|fcntl|sys/[a-z]+|jansson)\.h|gradscaler/[a-z_]+\.h"

! grep -rniE '\b(mpi|nccl|cuda)' "$SOURCE/src/core" >"$WORK/named" ||
    fail "src/core must name neither MPI nor CUDA: $(cat "$WORK/named")"
