# SPDX-License-Identifier: Apache-2.0
# The gradients that overflowed are named in metrics.jsonl and in the summary; a warning where all gradients are zero.
# cli_gradients shows: trial T28, T29
numbers() { sed -e 's/"\(inf\|nan\|first_index\|more\)": [0-9]*/"\1": N/g' -e 's/"seconds": [0-9.]*/"seconds": X/g'; }

"$gradscaler" train --data synthetic --init-scale 1e15 --steps 12 --json --out run >out 2>/dev/null
sed -n 's/.*"outcome": "skipped", //p' run/metrics.jsonl | tail -n 1 | numbers
grep '"stepped"' run/metrics.jsonl | grep -c overflows
sed 's/.*"last_overflow"/"last_overflow"/' out | numbers
grep -c '"overflows": \[{"name": "[02].[a-z]*", "inf": [0-9]*, "nan": [0-9]*, "first_index": [0-9]*}' run/metrics.jsonl
# In JSON the counts are those of the line for people, also after --resume.
"$gradscaler" train --resume run >lines
"$gradscaler" train --resume run --json 2>/dev/null >again
sed 's/.*"last_overflow"/"last_overflow"/' out >one
sed 's/.*"last_overflow"/"last_overflow"/' again | cmp - one && echo 'the same after --resume'
sed -n 's/^last overflow  step \([0-9]*\): .*/\1/p' lines
summary clean --data synthetic --steps 3
holds 'clean_last_overflow == 0'

# Every gradient underflows: without a scaler, with a scale that is too small, until it has grown.
show train --data synthetic --scaler off --steps 30 --json | sed 's/^{.*/{...}/'
show train --data synthetic --scaler off --steps 1200 --json | sed 's/^{.*/{...}/'
show train --data synthetic --scaler static --init-scale 1 --steps 5 --json | sed 's/^{.*/{...}/'
show train --data synthetic --init-scale 1 --steps 60 --growth-interval 5 --json | sed 's/^{.*/{...}/'
for precision in fp32 bf16; do show train --data synthetic --precision $precision --scaler off --steps 5 --json | sed 's/^{.*/{...}/'; done
