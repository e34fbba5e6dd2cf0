# SPDX-License-Identifier: Apache-2.0
# Standard input, output and error that are closed: messages do not reach the files of the run.
# cli_descriptors shows: trial T37
settings="--data synthetic --init-scale 1e30 --steps 5 --threads 1"
# shellcheck disable=SC2086
{
    "$gradscaler" train $settings --out one 2>&- >out
    echo "without 2: exit $?, $(wc -l <out) lines, $(grep -c '^{"step": .*}$' one/metrics.jsonl) of $(wc -l <one/metrics.jsonl) steps"
    "$gradscaler" train $settings --out two >&- 2>err
    echo "without 1: exit $?, $(grep -c '^{"step": .*}$' two/metrics.jsonl) of $(wc -l <two/metrics.jsonl) steps"
    cat err
    "$gradscaler" train $settings --out three <&- >&- 2>&-
    echo "without any: exit $?, $(grep -c '^{"step": .*}$' three/metrics.jsonl) of $(wc -l <three/metrics.jsonl) steps"
    "$gradscaler" --version <&- | sed 's/[0-9].*/NUMBER/'
}
for run in two three; do cmp one/model.safetensors $run/model.safetensors; done
"$gradscaler" train --nope 2>&-
echo "exit $?"
