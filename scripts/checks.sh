# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# checks.sh: the checks by name, for scripts/check and .ci/run, which source it in the project's folder. The function of a
# check is check_<name>, with _ for -.

jobs=$(nproc 2>/dev/null || echo 2)

# In the order in which `scripts/check --all` runs them.
list_checks() {
    cat <<'END'
packages       installs what the other checks need; run it first
lint           clang-format, clang-tidy, cppcheck
release        the gcc build, warnings are errors
isas           unit tests and proofs on each instruction set of this processor but the best, which `suite` runs
neon           the kernels' proof for 64-bit ARM, sample, on an emulated processor
clang          the clang build, warnings are errors, and its tests but the longest
asan           AddressSanitizer and UBSan, all tests but the longest
asan-all       AddressSanitizer and UBSan, all tests
tsan           ThreadSanitizer, unit tests
tsan-all       ThreadSanitizer, all tests but those of the package
valgrind       memory errors in the optimised build
mutations      ten deliberate faults that the tests must notice
mutations-all  all of tests/system/mutation/mutations.tsv
cuda           the CUDA module built by nvcc and by clang, warnings are errors; its package, and its kernels' PTX
cuda-all       kernels on ten million float32 patterns, and 5000 random sequences of calls on the stand-in for the driver
mpi            the MPI module over OpenMPI: warnings are errors, clang-tidy, its package, its tests with 1 to 4 ranks
mpi-all        the same over MPICH, too, and both under AddressSanitizer and UBSan
python-quick   the Python package, without sanitizers
python         the Python package, all parts of bindings/python/check
safetensors    files of the Python package safetensors and ours hold the same bits
kill           200 times kill -9 during a training run
bench          a smoke run of the benchmark
products       matrix products of every small inner size on each instruction set of oneDNN
prove          every 16- and 32-bit input and every short sequence of calls
fuzz           60 seconds of each fuzz target
newcomer       the README's commands on a Debian 12 that has git, make and gcc alone
suite          make test, the main suite
END
}

# All but those that another check covers.
list_all() { list_checks | cut -d ' ' -f 1 | grep -vx -e mpi -e asan -e tsan -e mutations -e python-quick; }

check_packages() {
    scripts/install run data test ci python
    # Without it, tests are skipped instead of run.
    [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || { echo "no Fashion-MNIST"; return 1; }
}

check_lint() { make lint; }

check_release() {
    scripts/configure build/release -DGSC_BUILD_TESTS=ON -DGSC_BUILD_BENCH=ON -DGSC_WERROR=1
    cmake --build build/release -j "$jobs"
}

# The dispatch must choose the best instruction set of the processor: the names in /proc/cpuinfo tell which that is.
processor_has() { # ISA
    case $1 in
    baseline) [ "$(uname -m)" != aarch64 ] ;; # there it is called neon
    avx2) grep -qw avx2 /proc/cpuinfo && grep -qw f16c /proc/cpuinfo ;;
    avx512) grep -qw avx512f /proc/cpuinfo && grep -qw avx512bw /proc/cpuinfo && grep -qw avx512dq /proc/cpuinfo &&
        grep -qw avx512vl /proc/cpuinfo ;;
    neon) [ "$(uname -m)" = aarch64 ] ;;
    esac
}

check_isas() {
    local best=none isa ran
    check_release
    for isa in baseline neon avx2 avx512; do
        processor_has "$isa" && best=$isa
    done
    ran=$(env -u GSC_ISA build/release/tests/system/package/print_isa)
    [ "$ran" = "$best" ] || { echo "the processor has $best, but $ran was chosen"; return 1; }
    for isa in baseline neon avx2 avx512; do
        if ! processor_has "$isa" || [ "$isa" = "$best" ]; then
            continue
        fi
        export GSC_ISA=$isa
        ran=$(build/release/tests/system/package/print_isa)
        [ "$ran" = "$isa" ] || { echo "GSC_ISA=$isa ran $ran"; return 1; }
        ctest --preset release -j "$jobs" -L 'unit|proof'
    done
}

# Which instruction sets the checks have run.
print_isas() {
    local isa
    for isa in baseline avx2 avx512 neon; do
        if processor_has "$isa"; then
            echo "$isa: run"
        elif [ "$isa" = neon ]; then
            echo "neon: emulated, the sample of tests/proof/kernels alone"
        else
            echo "$isa: absent here"
        fi
    done
}

# The kernels of 64-bit ARM, cross-compiled, give this processor's digests.
check_neon() {
    if processor_has neon; then
        return # the other checks run them
    fi
    check_release
    tests/proof/kernels/aarch64 build/release
}

build_preset() { # PRESET
    cmake --preset "$1" -G Ninja
    cmake --build --preset "$1" -j "$jobs"
}

# Tests that take long; `suite` runs them, and `asan-all`.
longest='^(cli_(fashion|keep|kill|metrics|resume|stop|stop_moments)|proof_products_sample)$'

check_clang() {
    build_preset clang
    ctest --preset clang -j "$jobs" -LE 'package|coverage' -E "$longest"
}

check_asan() {
    build_preset asan
    ctest --preset asan -j "$jobs" -LE coverage -E "$longest"
}
check_asan_all() {
    build_preset asan
    ctest --preset asan -j "$jobs" -LE coverage
}

check_tsan() {
    build_preset tsan
    ctest --preset tsan -j "$jobs" -L unit # the proofs' samples take minutes here
}

check_tsan_all() {
    local options="suppressions=$PWD/tests/tsan.supp"
    build_preset tsan
    ctest --preset tsan -j "$jobs" -LE 'package|coverage|proof'
    # Without the time limit of CTest, which they exceed here.
    TSAN_OPTIONS=$options build/tsan/tests/proof/kernels/prove_kernels --sample
    TSAN_OPTIONS=$options build/tsan/tests/proof/sequences/prove_sequences --sample
}

check_valgrind() {
    local test
    check_release
    for test in core_stages core_options core_unscale; do
        valgrind --quiet --error-exitcode=1 --leak-check=full "build/release/tests/$test"
    done
}

check_mutations() { tests/system/mutation/run 10; }
check_mutations_all() { tests/system/mutation/run; }

# With each compiler of kernels that can be had; the first one's build is tested. nvcc comes from the Python package index
# where it is not installed.
build_mpi() { # FOLDER OPTION...
    local folder=$1
    shift
    scripts/configure "$folder" -DGSC_MPI=ON -DGSC_TRAIN=OFF -DGSC_CLI=OFF -DGSC_BUILD_TESTS=ON -DGSC_WERROR=1 "$@"
    cmake --build "$folder" -j "$jobs"
}

check_mpi() {
    scripts/install mpi
    build_mpi build/mpi -DGSC_MPI_MPICH_CC=OFF
    find src/mpi -name '*.c' -print0 | xargs -0 -n 1 -P "$jobs" clang-tidy --quiet -p build/mpi \
        --extra-arg=-D_GNU_SOURCE= --extra-arg=-include --extra-arg="$PWD/scripts/tidy.h"
    (cd build/mpi && ctest --output-on-failure -R '^(package_(symbols|layers|headers|install)|.*_openmpi)$')
}

check_mpi_all() {
    scripts/install mpi mpich
    build_mpi build/mpi-all
    (cd build/mpi-all && ctest --output-on-failure -R '^(package_(symbols|layers|headers|install)|.*_(openmpi|mpich))$')
    build_mpi build/mpi-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG" \
        -DGSC_SANITIZE=address,undefined
    (cd build/mpi-asan && ctest --output-on-failure -R '^mpi_')
}

check_cuda() {
    local nvcc compilers=() compiler folder tests=ON
    if nvcc=$(scripts/nvcc); then
        compilers+=("$nvcc")
    else
        echo "skipped: cuda: nvcc can neither be found nor fetched, so nothing is compiled for the architectures"
    fi
    if clang -x cuda --cuda-device-only -nocudainc -nocudalib -S -o /dev/null /dev/null; then
        compilers+=(clang)
    else
        echo "skipped: cuda: there is no clang that compiles kernels"
    fi
    for compiler in "${compilers[@]}"; do
        folder=build/cuda-$(basename "$compiler")
        scripts/configure "$folder" -DGSC_CUDA=ON -DGSC_CUDA_COMPILER="$compiler" -DGSC_TRAIN=OFF -DGSC_BUILD_TESTS=$tests \
            -DGSC_WERROR=1
        cmake --build "$folder" -j "$jobs" --target gradscaler-cuda-all
        [ $tests = OFF ] || (cd "$folder" && ctest --output-on-failure -j "$jobs" \
            -R '^(package_(symbols|layers|install|static|cuda_.*)|example_cuda_.*)$')
        tests=OFF
    done
}

# The tests themselves take a sample.
check_cuda_all() {
    check_release
    GSC_CUDA_PATTERNS=10000000 build/release/tests/cuda/cuda_kernels
    build/release/tests/cuda/proof_sequences_cuda 5000
}

check_python_quick() { make test-python ARGS=quick; }
check_python() { make test-python; }
check_safetensors() { make test-safetensors; }

check_kill() {
    check_release
    tests/system/kill/run.sh build/release/cli/gradscaler 200
}

check_bench() {
    check_release
    ctest --preset release -L bench
}

check_products() {
    check_release
    build/release/tests/proof/products/prove_products
}

check_prove() { make prove; }
check_fuzz() { make fuzz ARGS=60; }

# Without debootstrap or root's rights it is skipped.
check_newcomer() {
    local status=0
    scripts/check-root "$logs/newcomer" || status=$?
    [ $status = 0 ] || [ $status = 77 ]
}

check_suite() { make test; }

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
failed=()
times=()
started=()

execute() { # NAME: keeps output, exit status and seconds
    local start=$SECONDS
    (set -e; "check_${1//-/_}") >"$logs/$1.output" 2>&1 # not as a condition, in which set -e has no effect
    echo $? $((SECONDS - start)) >"$logs/$1.result"
}

report() { # NAME: shows the output of a check that has failed; adds to `times` and `failed`
    local status seconds
    read -r status seconds <"$logs/$1.result"
    if [ "$status" != 0 ]; then
        cat "$logs/$1.output"
        echo "== FAILED: $1"
        failed+=("$1")
    fi
    grep '^skipped: ' "$logs/$1.output" | sort -u
    times+=("$(printf '%5d s  %s' "$seconds" "$1")")
}

run_check() { # NAME
    echo "== $1: $(list_checks | sed -n "s/^$1  *//p")"
    execute "$1"
    report "$1"
}

# Starts a check beside those that follow; it must share no build folder with them. finish_checks waits for it.
start_check() { # NAME
    echo "== $1, beside the following: $(list_checks | sed -n "s/^$1  *//p")"
    execute "$1" &
    started+=("$1")
}

finish_checks() {
    local name
    wait
    for name in "${started[@]}"; do
        report "$name"
    done
    started=()
}

# Prints the times; names the checks that failed and returns 1 if there are any.
summarize() {
    printf '%s\n' "${times[@]}"
    [ ${#failed[@]} -eq 0 ] && return
    printf 'FAILED: %s\n' "${failed[@]}"
    return 1
}
