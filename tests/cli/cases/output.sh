# SPDX-License-Identifier: Apache-2.0
# Output that cannot be written is an error; the summary for people.
[ -c /dev/full ] || skip 'no /dev/full'
fails() {
    "$gradscaler" "$@" >/dev/full 2>err
    echo "exit $?"
    cat err
}
fails --help
fails train --help
fails train --data synthetic --steps 1 --json
fails train --data synthetic --steps 1
{ "$gradscaler" train --data synthetic --steps 50 --json; echo "exit $?" >&2; } 2>err | exec true
cat err

# Numbers that depend on the machine are replaced.
"$gradscaler" train --data synthetic --steps 9 --init-scale 1e15 2>err |
    sed -e 's/[0-9]* inf, [0-9]* nan/N inf, N nan/g' -e '/^speed/s/[0-9][0-9.]*/N/g' -e '/^loss/s/[0-9][0-9.]*/N/g'
cat err
