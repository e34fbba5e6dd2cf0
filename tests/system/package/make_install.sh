#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make install` puts what was built where PREFIX and DESTDIR say, `make uninstall` takes it away and nothing else, and both
# say what is wrong with a prefix.
# package_make_install shows: trial T16
. "$(dirname "$0")/common.sh"

# -o build: the tests run in that folder; it is not built anew under them.
run_make() { make -C "$SOURCE" -o build BUILD="$BUILD" "$@" >"$WORK/log" 2>&1; }
made() { run_make "$@" || { cat "$WORK/log" >&2; fail "make $* fails"; }; }
refused() { # MESSAGE ARGUMENT...
    message=$1
    shift
    ! run_make "$@" || fail "make $* is not refused"
    grep -qF -e "$message" "$WORK/log" || { cat "$WORK/log" >&2; fail "make $* does not say \"$message\""; }
}

stage="$WORK/a stage"
prefix=$stage/opt/grad
mkdir -p "$prefix/lib" "$prefix/include/gradscaler"
echo mine >"$prefix/lib/libother.so"
echo mine >"$prefix/include/gradscaler/mine.h"

# A file of an older version does not survive the installation of this one.
mkdir -p "$prefix/share/gradscaler"
echo old >"$prefix/lib/libgradscaler.so.0.0.9"
echo lib/libgradscaler.so.0.0.9 >"$prefix/share/gradscaler/installed-files"

made install DESTDIR="$stage" PREFIX=/opt/grad/
[ ! -e "$prefix/lib/libgradscaler.so.0.0.9" ] || fail "the older version's library is still there"
find "$prefix" ! -type d | sed "s|^$prefix/||" | sort >"$WORK/found"
{ cat "$prefix/share/gradscaler/installed-files"; echo lib/libother.so; echo include/gradscaler/mine.h; } | sort >"$WORK/listed"
diff -u "$WORK/listed" "$WORK/found" || fail "the list of installed files is not what is there"
lib=$(dirname "$(find "$prefix" -name libgradscaler.so)")
[ -s "$prefix/include/gradscaler/gradscaler.h" ] && [ -s "$lib/pkgconfig/gradscaler.pc" ] || fail "headers or pkg-config files lack"
if [ -x "$prefix/bin/gradscaler" ] && [ ! -e /proc/self/exe ]; then # through which the loader finds $ORIGIN
    echo "package_make_install: the installed command does not start, there is no /proc" >>"${GSC_SKIPPED:-/dev/null}"
elif [ -x "$prefix/bin/gradscaler" ]; then
    "$prefix/bin/gradscaler" --version >/dev/null || fail "the installed command does not find its libraries"
fi

made uninstall DESTDIR="$stage" PREFIX=/opt/grad
find "$prefix" ! -type d | sed "s|^$prefix/||" | sort >"$WORK/found"
printf '%s\n' include/gradscaler/mine.h lib/libother.so >"$WORK/kept"
diff -u "$WORK/kept" "$WORK/found" || fail "make uninstall leaves this project's files, or takes others"
[ ! -e "$prefix/share/gradscaler" ] || fail "make uninstall leaves an empty folder"

refused "make uninstall: there is no $prefix/share/gradscaler/installed-files" uninstall DESTDIR="$stage" PREFIX=/opt/grad
refused 'PREFIX is "here"; it must be an absolute path' install DESTDIR="$stage" PREFIX=here
refused "is no folder" install DESTDIR= PREFIX="$WORK/log"
if [ "$(id -u)" != 0 ]; then
    mkdir -m 555 "$WORK/closed"
    refused "you may not write into $WORK/closed" install DESTDIR= PREFIX="$WORK/closed/prefix"
fi
