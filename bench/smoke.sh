#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# smoke.sh BENCH CHECK: the benchmark runs, its numbers are finite and positive, and bad options are refused. It judges no
# time.
set -eu

bench=$1
check=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$bench" --quick --threads 2 --json "$folder/bench.json" >"$folder/table"
"$check" "$folder/bench.json" kernels functions layouts "many tensors" overflow calls "second thread" training \
    "cost of elements" "cost of tensors"
"$bench" --quick --rounds 1 --only kernels/check/float64 --json "$folder/one.json" >"$folder/table"
"$check" "$folder/one.json" kernels

refuses() { # STATUS MESSAGE OPTION...
    expected=$1
    message=$2
    shift 2
    status=0
    "$bench" "$@" >"$folder/out" 2>"$folder/err" || status=$?
    if [ "$status" != "$expected" ] || ! grep -q -e "$message" "$folder/err"; then
        echo "bench $*: exit $status instead of $expected, or no \"$message\" in:" >&2
        cat "$folder/err" >&2
        exit 1
    fi
}
refuses 2 "unrecognized option" --fast
refuses 2 "requires an argument" --json
refuses 2 "exclude each other" --quick --full
refuses 2 "unexpected argument: kernels" kernels
refuses 2 '--threads is "0", allowed are 1 to' --threads 0
refuses 2 '--rounds is "many", allowed are 1 to' --rounds many
refuses 1 "cannot be opened" --quick --json "$folder/missing/bench.json"
refuses 1 "part of no row's name" --quick --only nothing-like-it
