# SPDX-License-Identifier: Apache-2.0
# A limit on the size of files is reported like a full disk, and leaves the last checkpoint.
settings="--data synthetic --threads 1 --lr-schedule constant --checkpoint-every 10"

# shellcheck disable=SC2086
"$gradscaler" train $settings --steps 20 --out run >/dev/null 2>&1
(
    # In units of 512 or 1024 bytes: less than metrics.jsonl needs, or than the model.
    ulimit -f 4
    "$gradscaler" train --resume run --steps 400 2>&1
    echo "limited: exit $?"
) | sed 's/step [0-9]* of/step N of/; s/\(checkpoint of step\) [0-9]*/\1 N/'
"$gradscaler" train --resume run --steps 40 --json >out 2>err || cat err
echo "resumed without it: exit $?, $(wc -l <run/metrics.jsonl) lines"
