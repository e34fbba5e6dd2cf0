# SPDX-License-Identifier: Apache-2.0
"""300 recorded sequences of calls: ours gives the results and raises the errors of PyTorch's scaler, to the bit.

With NumPy alone ours is compared with the recording. Where PyTorch is installed, ours is also run on its tensors and
optimizers, the state goes back and forth between both scalers, and the recording is made anew and compared.
"""

from __future__ import annotations

import importlib.util
import json
from typing import Any, Dict, List

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from gradscaler import GradScaler  # noqa: E402

from . import arrays  # noqa: E402
from .differences import IN_SEQUENCES  # noqa: E402
from .machine import Machine, changes, is_pytorchs  # noqa: E402
from .patterns import digests  # noqa: E402
from .record import PATTERNS, SEEDS, load, record, record_patterns  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:.*was absent when:RuntimeWarning")  # the difference late-gradient

RECORDED = load()


def outcome(result: Any, error: Any) -> str:
    return str(result) if error is None else type(error).__name__


def check_outcome(machine: Machine, entry: Dict[str, Any]) -> None:
    """The call returned or raised what the recording or the table of differences states."""
    is_ours = not is_pytorchs(machine.scaler)
    result, error = machine.perform(entry["call"])
    expected = entry.get("raised", str(entry.get("result")))
    if "difference" in entry:
        difference = IN_SEQUENCES[entry["difference"]]
        assert expected == difference.pytorch
        expected = difference.here if is_ours else difference.pytorch
    assert outcome(result, error) == expected, f"{error!r}, {result} instead of {expected}"


def scale_here(sequence: Dict[str, Any], number: int, before: str) -> str:
    """Our scale after a call with a difference: if only PyTorch refuses the call, the scale that the next call sets."""
    entry = sequence["calls"][number]
    if not entry["call"][0].startswith("update_to") or IN_SEQUENCES[entry["difference"]].here != "None":
        return before
    return str(sequence["calls"][number + 1].get("changed", {}).get("scale", before))


def replay(sequence: Dict[str, Any], array_library: Any, scaler_types: List[Any]) -> None:
    machine = Machine(array_library, scaler_types, sequence)
    expected = machine.state()
    for number, entry in enumerate(sequence["calls"]):
        where = f"seed {sequence['seed']}, call {number}: {entry['call']}"
        try:
            check_outcome(machine, entry)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        before = expected["scale"]
        expected.update(entry.get("changed", {}))
        shown = dict(expected)
        if "difference" in entry and not is_pytorchs(machine.scaler):
            shown["scale"] = scale_here(sequence, number, before)
        state = machine.state()
        assert state == shown, f"{where}: {changes(shown, state)}, expected {changes(state, shown)}"


def test_the_recording_is_complete() -> None:
    assert [sequence["seed"] for sequence in RECORDED] == list(SEEDS)
    met = {entry.get("difference") for sequence in RECORDED for entry in sequence["calls"]}
    assert met - {None} == set(IN_SEQUENCES)


@pytest.mark.parametrize("sequence", RECORDED, ids=lambda sequence: str(sequence["seed"]))
def test_numpy_as_recorded(sequence: Dict[str, Any]) -> None:
    replay(sequence, arrays, [GradScaler])


def test_patterns_as_recorded() -> None:
    assert digests(arrays, GradScaler) == json.loads(PATTERNS.read_text(encoding="ascii"))


@needs_torch
def test_patterns_with_torch() -> None:
    from . import arrays_torch

    assert digests(arrays_torch, GradScaler) == record_patterns()


@needs_torch
@pytest.mark.parametrize("sequence", RECORDED, ids=lambda sequence: str(sequence["seed"]))
def test_torch_as_recorded(sequence: Dict[str, Any]) -> None:
    from . import arrays_torch

    replay(sequence, arrays_torch, [GradScaler])


@needs_torch
@pytest.mark.parametrize("first", ["ours", "pytorchs"])
@pytest.mark.parametrize("sequence", RECORDED[::3], ids=lambda sequence: str(sequence["seed"]))
def test_the_scalers_take_turns(sequence: Dict[str, Any], first: str) -> None:
    from . import arrays_torch

    types = [GradScaler, arrays_torch.GradScaler]
    replay(sequence, arrays_torch, types if first == "ours" else types[::-1])


@needs_torch
@pytest.mark.parametrize("sequence", RECORDED[::10], ids=lambda sequence: str(sequence["seed"]))
def test_the_recording_can_be_repeated(sequence: Dict[str, Any]) -> None:
    assert json.loads(json.dumps(record(sequence["seed"]))) == sequence


@needs_torch
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_fused_adam(seed: int) -> None:
    """Recorded here and now: Adam's bits differ between machines."""
    from . import arrays_torch

    sequence = record(seed, fused=True)
    replay(sequence, arrays_torch, [GradScaler])
