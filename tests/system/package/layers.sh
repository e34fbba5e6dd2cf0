#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each room needs only rooms below it (docs/architecture.md), by its includes and by its calls; no files need each other
# in a circle; and each layer includes only the headers of other projects that it may.
. "$(dirname "$0")/common.sh"

# A room and those that it may need besides itself.
rooms='
src/base
src/kernels           src/base
src/gradients         src/base src/kernels
src/core              src/base src/kernels src/gradients
src/cuda              src/base src/core
src/cuda/kernels      src/base src/core src/cuda
src/mpi               src/base
src/train/tensor      src/base
src/train/dnnl        src/base src/train/tensor
src/train/io          src/base src/train/tensor
src/train/data        src/base src/train/tensor src/train/io
src/train/optim       src/base src/train/tensor
src/train/checkpoint  src/base src/train/tensor src/train/io src/train/data src/train/optim
src/train/tape        src/base src/train/tensor src/train/dnnl
src/train/ops         src/base src/train/tensor src/train/dnnl src/train/tape
src/train/nn          src/base src/train/tensor src/train/tape src/train/ops
cli/common            src/base
cli/train             src/base cli/common
cli                   cli/common cli/train
bench                 src/base src/kernels src/gradients
bindings/python/ext   src/base
'

# Headers of the project's and of others that a layer may include: check FOLDER QUOTED ANGLED, regular expressions.
c_library='assert|errno|fenv|float|inttypes|limits|math|signal|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib'
c_library="$c_library|string|time|pthread|sched|unistd|sys/auxv|cpuid|immintrin|xmmintrin|arm_neon"
core_headers='gradscaler|status|runtime|dtype|optimizer|scaler|gradients|version'
check() {
    find "$SOURCE/$1" -name '*.[ch]' -o -name '*.cu' | grep -q . || fail "$1 is empty"
    wrong=$(grep -rnE --include='*.[ch]' --include='*.cu' '^ *# *include' "$SOURCE/$1" |
        grep -v -E "include +(\"($2)\"|<($3)>) *(/\*.*)?$") || return 0
    fail "$1 must not include this:
$wrong"
}
for layer in base kernels gradients core; do
    check "src/$layer" "(base|kernels|gradients|core)/[a-z0-9_]+\.h|gradscaler/($core_headers)\.h" \
        "($c_library)\.h|dlpack/dlpack\.h"
done
! grep -rniE '\b(mpi|nccl|cuda)' "$SOURCE/src/core" >"$WORK/named" ||
    fail "src/core must name neither MPI nor CUDA: $(cat "$WORK/named")"
check src/cuda "(base|cuda)/[a-z0-9_/]+\.h|core/(backend|schedule)\.h|gradscaler/($core_headers|cuda)\.h" \
    "($c_library|dlfcn)\.h|dlpack/dlpack\.h"

check src/mpi "(base|mpi)/[a-z0-9_]+\.h|gradscaler/($core_headers|mpi)\.h" "($c_library|mpi)\.h|dlpack/dlpack\.h"

with_train || exit 0
check src/train "(base|train)/[a-z0-9_/]+\.h|gradscaler/[a-z_]+\.h" \
    "($c_library|dlfcn|fcntl|dirent|locale|sys/[a-z]+|zlib|jansson|oneapi/dnnl/dnnl[a-z_]*)\.h|dlpack/dlpack\.h"
check cli "(common|train)/[a-z_]+\.h|base/try\.h|gradscaler/[a-z_]+\.h" "($c_library|ctype|fcntl|sys/[a-z]+|jansson)\.h"
check bindings/python/ext "[a-z_]+\.h|base/[a-z_]+\.h|gradscaler/($core_headers)\.h" \
    "($c_library|dlfcn)\.h|dlpack/dlpack\.h|Python\.h"

"$here/calls" "$BUILD" "$WORK/objects" >"$WORK/calls"
for folder in src cli bench bindings/python/ext; do
    grep -q "^$folder/" "$WORK/calls" || [ $folder = bindings/python/ext ] || fail "nothing was read of $folder"
done
# Public functions of another library or folder may be called from anywhere.
upwards=$(echo "$rooms" | awk '
    function room(file) { sub("/[^/]*$", "", file); return file }
    function part(name) {
        return name ~ /^src\/train/ ? "train" : name ~ /^src\/cuda/ ? "cuda" : name ~ /^src\/mpi/ ? "mpi" : name ~ /^src/ ? "core" : name
    }
    NR == FNR { known[$1]; for (i = 2; i <= NF; i++) may[$1, $i]; next }
    { from = room($1); to = room($2) }
    part(from) != part(to) && $3 ~ /^(gsc_[^_]|GSC_)/ { next }
    !(from in known) || !(to in known) || (from != to && !((from, to) in may))' - "$WORK/calls")
[ -z "$upwards" ] || fail "rooms need rooms that are not below them (file, file, header or function):
$upwards"

cut -d ' ' -f 1,2 "$WORK/calls" | sort -u | tsort >/dev/null 2>"$WORK/circles" || fail "files need each other in a circle:
$(cat "$WORK/circles")"
