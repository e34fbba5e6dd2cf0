# SPDX-License-Identifier: Apache-2.0
"""Records the sequences with PyTorch's own scaler: `python -m sequences.record` in bindings/python/tests.

Needs PyTorch 2.9.1 and NumPy; writes recorded.jsonl.gz and patterns.json, the same bytes each time.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Dict, List

from .generate import Author
from .machine import Machine, changes
from .patterns import digests

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.jsonl.gz"
PATTERNS = HERE / "patterns.json"
SEEDS = range(300)


def record(seed: int, fused: bool = False) -> Dict[str, Any]:
    """One sequence, with PyTorch's results."""
    from . import arrays_torch

    author = Author(seed, fused)
    sequence = author.head()
    machine = Machine(arrays_torch, [arrays_torch.GradScaler], sequence)
    state = machine.state()
    sequence["calls"] = []
    calls = author.calls()
    call, difference = next(calls)
    while True:
        result, error = machine.perform(call)
        seen = machine.state()
        sequence["calls"].append(entry(call, result, error, difference, changes(state, seen)))
        state = seen
        try:
            call, difference = calls.send(state)
        except StopIteration:
            return sequence


def entry(call: List[Any], result: Any, error: Any, difference: Any, changed: Dict[str, Any]) -> Dict[str, Any]:
    made: Dict[str, Any] = {"call": call}
    if error is not None:
        made["raised"] = type(error).__name__
    elif result is not None:
        made["result"] = result
    if difference is not None:
        made["difference"] = difference
    if changed:
        made["changed"] = changed
    return made


def load() -> List[Dict[str, Any]]:
    with gzip.open(RECORDED, "rt", encoding="ascii") as lines:
        return [json.loads(line) for line in lines]


def save(sequences: List[Dict[str, Any]]) -> None:
    text = "".join(json.dumps(sequence, separators=(",", ":")) + "\n" for sequence in sequences)
    RECORDED.write_bytes(gzip.compress(text.encode("ascii"), mtime=0))


def record_patterns() -> Dict[str, Dict[str, str]]:
    from . import arrays_torch

    return digests(arrays_torch, arrays_torch.GradScaler)


if __name__ == "__main__":
    save([record(seed) for seed in SEEDS])
    PATTERNS.write_text(json.dumps(record_patterns(), indent=1) + "\n", encoding="ascii")
