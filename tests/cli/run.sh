#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh GRADSCALER SUMMARY_FIELDS CASE.sh: runs a case in an empty folder and compares its transcript with
# CASE.expected. UPDATE=1 writes that file anew; read the difference before you commit it. Exit 77: skipped.
gradscaler=$1
summary_fields=$2
case=$3
expected=${case%.sh}.expected
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# note_skipped REASON: what a case cannot try here, for its reader and for `make test`, which shows the file GSC_SKIPPED
exec 3>&1
note_skipped() {
    echo "skipped: $*" >&3
    echo "cli_$(basename "$case" .sh): $*" >>"${GSC_SKIPPED:-/dev/null}"
}
skip() { # REASON: ends the case
    note_skipped "$@"
    exit 77
}

# show ARGUMENT...: the command line, what it wrote (stderr behind "! ") and its exit code.
show() {
    echo "\$ gradscaler $*"
    "$gradscaler" "$@" >out 2>err
    code=$?
    cat out
    sed 's/^/! /' err
    echo "exit $code"
}

# summary NAME ARGUMENT...: runs `train --json` and keeps its fields for holds as NAME_<key>, NAME_code.
summary() {
    name=$1
    shift
    echo "\$ gradscaler train --json $*"
    "$gradscaler" train --json "$@" >out 2>err
    echo "${name}_code=$?" >>fields
    sed 's/^/! /' err
    "$summary_fields" "$name" <out >new || cat new
    cat new >>fields
}

# holds EXPRESSION: an awk expression over the fields that were kept.
holds() {
    # shellcheck disable=SC2046
    if awk $(sed 's/^/-v /' fields) "BEGIN { exit !($1) }"; then
        echo "holds: $1"
    else
        echo "FAILED: $1"
        cat fields
    fi
}

cd "$work" || exit 1
(. "$case") >transcript 2>&1
code=$?
[ $code = 77 ] && exit 77
[ $code = 0 ] || echo "the case ended with $code" >>transcript
[ -n "$UPDATE" ] && cp transcript "$expected"
diff -u "$expected" transcript
