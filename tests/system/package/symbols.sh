#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The libraries export exactly what the public headers declare, need no library that they need not, and carry a SONAME.
. "$(dirname "$0")/common.sh"

exported() { nm -D --defined-only "$1" | sed 's/^[0-9a-f]* [A-Za-z] //; s/@.*//' | sort -u; }

check_exports() { # LIBRARY HEADER...
    library=$1
    shift
    declared "$@" >"$WORK/declared"
    exported "$library" >"$WORK/exported"
    difference=$(diff "$WORK/declared" "$WORK/exported") && return 0
    fail "$library and its headers differ (< declared only, > exported only):
$difference"
}

cd "$SOURCE/include/gradscaler"
core="status.h runtime.h dtype.h optimizer.h scaler.h gradients.h"
train=$(ls ./*.h | grep -v -E '/(status|runtime|dtype|optimizer|scaler|gradients|gradscaler|train|version|cuda|mpi)\.h$')

library=$BUILD/src/libgradscaler.so
check_prefix "$library"
# shellcheck disable=SC2086 # a list of files
check_exports "$library" $core
check_needed "$library" libgcc_s
[ "$(soname "$library")" = libgradscaler.so.0 ] || fail "SONAME of $library: $(soname "$library")"

if with_cuda; then
    library=$BUILD/src/cuda/libgradscaler-cuda.so
    check_prefix "$library"
    check_exports "$library" cuda.h
    grep -vqE '^gsc_(cuda|nccl)_' "$WORK/exported" && fail "$library exports other names than gsc_cuda_* and gsc_nccl_*"
    # libdl is a part of libc from glibc 2.34 on.
    check_needed "$library" 'libgradscaler\.so|libgcc_s|libdl'
    [ "$(soname "$library")" = libgradscaler-cuda.so.0 ] || fail "SONAME of $library: $(soname "$library")"
fi

for mpi in $GSC_MPIS; do
    library=$BUILD/src/mpi/libgradscaler-mpi-$mpi.so
    check_prefix "$library"
    check_exports "$library" mpi.h
    grep -vq '^gsc_mpi_' "$WORK/exported" && fail "$library exports other names than gsc_mpi_*"
    check_needed "$library" 'libgradscaler\.so|libgcc_s|libmpi|libopen-'
    [ "$(soname "$library")" = "libgradscaler-mpi-$mpi.so.0" ] || fail "SONAME of $library: $(soname "$library")"
done

with_train || exit 0
library=$BUILD/src/libgradscaler-train.so
check_prefix "$library"
# shellcheck disable=SC2086
check_exports "$library" $train
check_needed "$library" 'libgradscaler|libdnnl|libz|libjansson|libgcc_s|ld-linux'
[ "$(soname "$library")" = libgradscaler-train.so.0 ] || fail "SONAME of $library: $(soname "$library")"
