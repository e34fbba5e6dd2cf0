# SPDX-License-Identifier: Apache-2.0
# What the checks of this folder share. CTest sets SOURCE and BUILD (folders), WORK (a folder to fill), CC,
# DLPACK_INCLUDE_DIR, GSC_TRAIN and GSC_CUDA (ON or OFF), GSC_CUDA_COMPILER, and GSC_MPIS and GSC_MPI_WRAPPERS, the names and the
# wrapper compilers of the MPIs that there is a library for.
set -eu
export LC_ALL=C

here=$SOURCE/tests/system/package
# pkg-config before pkgconf (Ubuntu 22.04) splits a path at its spaces; then the check installs elsewhere.
case $WORK:$(pkg-config --version 2>/dev/null || true) in
*' '*:0.*)
    WORK=${TMPDIR:-/tmp}/gradscaler-$(basename "$0" .sh)-$$
    trap 'rm -rf "$WORK"' EXIT
    ;;
esac
rm -rf "$WORK"
mkdir -p "$WORK"

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Leaves the check out; `make test` shows the file GSC_SKIPPED.
skip() {
    echo "skipped: $*"
    echo "package_$(basename "$0" .sh): $*" >>"${GSC_SKIPPED:-/dev/null}"
    exit 77
}

with_train() { [ "$GSC_TRAIN" = ON ]; }
with_cuda() { [ "$GSC_CUDA" = ON ]; }
with_mpi() { [ -n "$GSC_MPIS" ]; }

# configure_and_install NAME OPTION...: builds the tree once more into $WORK/NAME, installs into $WORK/NAME/prefix.
configure_and_install() {
    name=$1
    shift
    cmake -S "$SOURCE" -B "$WORK/$name" -DCMAKE_C_COMPILER="$CC" -DDLPACK_INCLUDE_DIR="$DLPACK_INCLUDE_DIR" \
        -DCMAKE_INSTALL_LIBDIR=lib "$@" >"$WORK/$name.log" 2>&1 &&
        cmake --build "$WORK/$name" -j 2 >>"$WORK/$name.log" 2>&1 &&
        cmake --install "$WORK/$name" --prefix "$WORK/$name/prefix" >>"$WORK/$name.log" 2>&1 ||
        { cat "$WORK/$name.log" >&2; fail "configuration $name does not build and install"; }
}

# compile_and_run SOURCE FLAG...: it runs in $WORK, where it may leave files
compile_and_run() {
    program=$WORK/$(basename "$1" .c)
    "$CC" -std=c11 -Wall -Wextra -Werror -o "$program" "$@" || fail "$1 does not build with: $*"
    (cd "$WORK" && "$program") || fail "$1 fails, built with: $*"
}

# compile_with PKG_CONFIG_ARGUMENTS SOURCE FLAG...: the same with the flags of pkg-config, which escapes a path's spaces
compile_with() {
    # shellcheck disable=SC2086 # a list of arguments
    flags=$(pkg-config $1) || fail "pkg-config $1 fails"
    shift
    eval "compile_and_run \"\$@\" $flags"
}

# use_cmake_package PREFIX: builds and runs project/ against what is installed there.
use_cmake_package() {
    cmake -S "$here/project" -B "$WORK/project" -DCMAKE_PREFIX_PATH="$1" -DCMAKE_C_COMPILER="$CC" \
        -DUSE_TRAIN="$GSC_TRAIN" -DUSE_CUDA="$GSC_CUDA" \
        -DUSE_MPIS="$GSC_MPIS" >"$WORK/project.log" 2>&1 &&
        cmake --build "$WORK/project" >>"$WORK/project.log" 2>&1 ||
        { cat "$WORK/project.log" >&2; fail "find_package(gradscaler) in $1 does not work"; }
    "$WORK/project/use_core" || fail "use_core fails, built by CMake"
    ! with_train || "$WORK/project/use_train" || fail "use_train fails, built by CMake"
    for mpi in $GSC_MPIS; do
        "$WORK/project/use_mpi_$mpi" || fail "use_mpi_$mpi fails, built by CMake"
    done
    ! with_cuda || "$WORK/project/use_cuda" || fail "use_cuda fails, built by CMake"
}

# Libraries that a library names as needed, and its own name.
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
soname() { readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p'; }

# Names of the functions and objects that headers mark with GSC_API.
declared() {
    sed 's|/\*.*\*/||' "$@" | grep -v '^#' | tr '\n' ' ' | grep -oE 'GSC_API [^;]*;' |
        sed -E 's/^([^(]*[ *])?(\(\*)?((gsc|GSC)_[A-Za-z0-9_]+) *[(;].*$/\3/' | sort -u
}

# Fails if a library defines a global name that is neither public nor, in a static library, internal: gsc__NAME, or the
# compiler's hidden DW.ref.NAME, through which exceptions find C's clean-up.
check_prefix() {
    declared "$SOURCE"/include/gradscaler/*.h >"$WORK/public"
    case $1 in
    *.a) nm -g --defined-only "$1" | sed -n 's/^[0-9a-f]* [A-Z] //p' | grep -vE '^(gsc__|DW\.ref\.)' >"$WORK/names" || true ;;
    *) nm -D --defined-only "$1" | sed 's/^[0-9a-f]* [A-Za-z] //' >"$WORK/names" ;;
    esac
    [ -s "$WORK/names" ] || fail "$1 defines nothing"
    foreign=$(grep -vxFf "$WORK/public" "$WORK/names") || return 0
    fail "$1 defines names that are neither public nor begin with gsc__: $foreign"
}

# Fails if a library needs more than libc and libm (with pthreads apart in old ones), and the libraries given as an extended regular expression.
check_needed() {
    others=$(needed "$1" | grep -v -E "^(libc|libm|libpthread)\.so|^($2)") || return 0
    fail "$1 needs $others"
}
