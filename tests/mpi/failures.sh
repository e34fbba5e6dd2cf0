#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# failures.sh SCENARIO FOLDER LAUNCH MPI LAUNCHER: one of three ranks is lost (scenario.c); the others say which call waited
# for whom, within the deadline, and no process is left.
set -u
scenario=$1
folder=$2
shift 2
launch=("$@")
mpi=$2
failures=0
ranks=3
rm -rf "$folder"
mkdir -p "$folder"

complain() {
    echo "$mpi, $name in $moment: $*" >&2
    failures=$((failures + 1))
    tail -n 5 "$folder/$name-$moment"/* >&2
}

# A number may be another process's by now.
is_of_run() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF "$place"; } 2>/dev/null

# Ends what is left of a run: its processes wrote their numbers down.
end_processes() { # LAUNCHER'S PID
    for file in "$place"/pid-*; do
        pid=$(cat "$file")
        is_of_run "$pid" && kill -9 "$pid" 2>/dev/null
    done
    for _ in $(seq 100); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    complain "the launcher goes on"
    kill -9 "$1"
}

# run NAME MOMENT EXPECTED: each rank but the last gets GSC_ERR_COMM with this text within 3 s, and then again at once.
run() {
    name=$1
    moment=$2
    place=$folder/$name-$moment
    mkdir "$place"
    "${launch[@]}" $ranks --survive "$scenario" "$place" "$name" "$moment" >"$place/output" 2>&1 </dev/null &
    launcher=$!
    for _ in $(seq 150); do
        kill -0 $launcher 2>/dev/null || break
        [ "$(cat "$place"/rank-* 2>/dev/null | grep -cx end)" -lt $((ranks - 1)) ] || break
        sleep 0.1
    done
    if { [ "$name" = killed ] || [ "$name" = ends ]; } && [ "$(cat "$place"/rank-* 2>/dev/null | grep -cx end)" -eq 0 ]; then
        # The launcher has ended the other ranks: nothing is to be seen but that they are gone.
        for file in "$place"/pid-*; do
            for _ in $(seq 30); do
                is_of_run "$(cat "$file")" || break
                sleep 0.1
            done
            ! is_of_run "$(cat "$file")" || complain "process $(cat "$file") is left"
        done
        echo "$mpi, $name in $moment: the launcher has ended the other ranks"
        wait $launcher
        return
    fi
    for rank in $(seq 0 $((ranks - 2))); do
        [ -e "$place/rank-$rank" ] || { complain "rank $rank says nothing"; continue; }
        awk 'NR == 1 { exit !($1 == "GSC_ERR_COMM" && $2 <= 3.0) }' "$place/rank-$rank" || complain "rank $rank: status or time"
        sed -n 1p "$place/rank-$rank" | grep -q "$3" || complain "rank $rank does not say \"$3\""
        [ "$moment" = create ] && continue
        sed -n 2p "$place/rank-$rank" | grep -q "^again GSC_ERR_COMM GSC_ERR_COMM: .*$3" || complain "rank $rank: next calls"
        grep -qx "freed at once" "$place/rank-$rank" || complain "rank $rank: gsc_mpi_free"
    done
    end_processes $launcher
    wait $launcher 2>/dev/null
}

waited="waited 1 s (timeout_seconds) for rank"
for moment in decision average parts broadcast synchronize same; do
    run stopped $moment "$waited"
done
run stopped create "waited 1 s (timeout_seconds) for ranks that did not call it"
run absent decision "$waited"
for moment in decision average; do
    run killed $moment "$waited"
    run ends $moment "$waited"
    run leaves $moment "out of step: .*, rank 2 in gsc_mpi_free"
    run elsewhere $moment "out of step: .*, rank 2 in gsc_mpi_check_same"
done
run elsewhere same "out of step: .*, rank 2 in a scaler's allreduce_max"
exit $((failures > 0))
