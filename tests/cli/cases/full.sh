# SPDX-License-Identifier: Apache-2.0
# A full file system: a small one in memory, if one may be mounted.
[ "$(getconf PAGESIZE)" = 4096 ] || skip 'the sizes are for pages of 4096 bytes'
mkdir disk
for flags in -Urm -m; do
    # shellcheck disable=SC2086
    unshare $flags mount -t tmpfs -o size=64k none disk 2>/dev/null && break
    flags=
done
[ "$flags" ] || skip 'no file system may be mounted here'

cat >script <<'END'
train() {
    echo "\$ gradscaler train $*"
    "$gradscaler" train "$@" >out 2>err
    code=$?
    sed -e 's/of step [0-9]*/of step N/' -e 's,checkpoint-[01]/[a-z.]*,checkpoint-N/FILE,' -e 's/^/! /' err
    echo "exit $code"
}
room() { mount -t tmpfs -o "remount,size=$1" none disk; } # with the source, mount takes no option of before: uid is not ours
steps_of() { sed 's/, "seconds": .*//' "$1/metrics.jsonl"; }

mount -t tmpfs -o size=8k none disk
echo '# not even the first checkpoint'
train --data synthetic --steps 300 --checkpoint-every 20 --out disk/run
ls disk/run/checkpoint 2>/dev/null
rm -r disk/run

echo '# the first checkpoint, not the second'
room 44k
train --data synthetic --steps 300 --checkpoint-every 20 --out disk/run

echo '# two checkpoints, not all the lines of metrics.jsonl'
room 80k
train --resume disk/run

echo '# room again'
room 1m
train --resume disk/run
train --data synthetic --steps 300 --out whole
steps_of disk/run >steps_run
steps_of whole >steps_whole
cmp steps_run steps_whole && cmp disk/run/model.safetensors whole/model.safetensors && echo 'the run is the whole one'
END
# shellcheck disable=SC2086
gradscaler=$gradscaler unshare $flags sh script
