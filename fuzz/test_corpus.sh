#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_corpus.sh FUZZ_CORPUS: any input comes back from a text file byte for byte, is added once, and a wrong line is named.
set -eu

corpus=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir inputs unpacked

i=0
while [ $i -lt 256 ]; do # every byte, first and in the middle
    byte=$(printf '\\%03o' $i)
    # shellcheck disable=SC2059 # the bytes are escapes of printf
    printf "${byte}a${byte}b" >"inputs/$(printf %03d $i)"
    i=$((i + 1))
done
printf '' >inputs/empty
printf '# no comment' >inputs/hash
printf '\\' >inputs/backslash
printf 'two blanks  ' >inputs/blanks
printf 'two lines\n\n' >inputs/lines
printf '\\x41' >inputs/escape

printf '# a comment\n\n' >corpus.txt
"$corpus" add corpus.txt inputs/*
"$corpus" add corpus.txt inputs/empty inputs/hash
"$corpus" unpack corpus.txt unpacked
[ "$(find unpacked -type f | wc -l)" -eq "$(find inputs -type f | wc -l)" ]
line=3
for input in inputs/*; do
    cmp "$input" "unpacked/$line"
    line=$((line + 1))
done
if LC_ALL=C grep -n '[^ -~]' corpus.txt; then
    echo "bytes that are not printable" >&2
    exit 1
fi

refuses() { # MESSAGE ARGUMENT...
    expected=$1
    shift
    if "$corpus" "$@" 2>message || ! grep -q "$expected" message; then
        echo "fuzz-corpus $*: no failure, or no \"$expected\" in: $(cat message)" >&2
        exit 1
    fi
}
for text in '\q' '\x4' '\x4g' '\xG1'; do
    printf 'good\n%s\n' "$text" >wrong.txt
    refuses '^wrong.txt:2: unknown escape' unpack wrong.txt unpacked
done
refuses 'missing.txt: No such file' unpack missing.txt unpacked
refuses 'missing: No such file' add corpus.txt missing
refuses '^usage' unpack corpus.txt
