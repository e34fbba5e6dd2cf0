# SPDX-License-Identifier: Apache-2.0
# Names with spaces, quotes, control characters and ";": escaped in messages, quoted in command lines, which then work.
# cli_names shows: trial T39
# What reaches the terminal has no control character but the line's end.
plain() {
    LC_ALL=C tr -d '\n\040-\176\200-\377' <"$1" | wc -c
}
name() { # the x keeps a newline at the end
    # shellcheck disable=SC2059
    printf -- "$1x"
}
settings="--data synthetic --steps 4 --threads 1"
# shellcheck disable=SC2016 # a name with $
for format in 'a b' "it's" 'a;rm x' '-v' '--steps' '~' '$HOME' 'line\nend' 'x\033[31my' 'back\\\\slash' 'tab\tend' 'bell\007' \
    'del\177' 'digit\00177' 'caf\303\251' 'csi\302\2333' 'byte\2333' 'bidi\342\200\256x' 'newline\n'; do
    dir=$(name "$format")
    dir=${dir%x}
    # It ends before its last step: the message says how to go on.
    # shellcheck disable=SC2086
    "$gradscaler" train $settings --init-scale 1e30 --max-consecutive-skips 2 --out="$dir" >out 2>err
    echo "exit $?, $(plain err) control characters"
    sed -n 's/.*: \(gradscaler train --resume .*\) would go on.*/\1/p' err | tee command
    # bash knows $'...'
    # shellcheck disable=SC2016 # for the script
    sed 's/^gradscaler/"$gradscaler"/' command >script
    gradscaler=$gradscaler bash ./script >out 2>err
    grep -c 'gave up after step 2' err
done

# The other messages: links that are gone, data and folders that are not there, options, the summary.
bad=$(printf 'a b\n\033[31m')
# shellcheck disable=SC2086
"$gradscaler" train $settings --out "$bad" >out 2>err
rm "$bad/checkpoint"
"$gradscaler" train --resume "$bad" 2>&1
sed -n 's/.*with: ln/ln/p' err
"$gradscaler" train --resume "$bad" 2>&1 | sed -n 's/.*with: ln/ln/p' >script
bash ./script
# shellcheck disable=SC2086
for argument in "--out=$bad" "--out=no/$bad" "--data=$bad" "--data=no/$bad" "--resume=no/$bad" "--nope$bad" "--lr=$bad" "$bad"; do
    "$gradscaler" train $settings "$argument" 2>&1
done
"$gradscaler" "$bad" 2>&1
byte() { printf "\\$(printf %03o "$1")"; }
number() { byte 0; byte 0; byte 0; byte "$1"; }
for kind in train t10k; do
    { byte 0; byte 0; byte 8; byte 3; number 10; number 2; number 2; head -c 40 /dev/zero; } >"$bad/$kind-images-idx3-ubyte"
    { byte 0; byte 0; byte 8; byte 1; number 10; head -c 10 /dev/zero; } >"$bad/$kind-labels-idx1-ubyte"
done
"$gradscaler" train --data "$bad" --batch 5 --steps 1 2>&1 | head -n 1
"$gradscaler" train --data "$(printf 'a b\n\033[31m/\302\233/../\177/..')" --batch 5 --steps 1 --json 2>&1 | cut -d, -f 1
mkdir -p "$bad/$(printf '\302\233')" "$bad/$(printf '\177')"
"$gradscaler" train --data "$(printf 'a b\n\033[31m/\302\233/../\177/..')" --batch 5 --steps 1 --json 2>/dev/null | cut -d, -f 1

# A name at its longest: the command line is whole.
long=$(printf '%0200d/' 1 2 3 4 5 6 7 8 9 10 11 12)$(printf 'x y%0100d' 13)
mkdir -p "$long"
# shellcheck disable=SC2086
"$gradscaler" train $settings --init-scale 1e30 --max-consecutive-skips 2 --out "$long" >out 2>err
sed -n "s/.*gradscaler train --resume '\(.*\)' would go on.*/\1/p" err >told
printf '%s\n' "$long" | cmp - told && echo 'the longest name is whole'
