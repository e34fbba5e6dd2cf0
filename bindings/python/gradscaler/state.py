# SPDX-License-Identifier: Apache-2.0
"""The state dict: PyTorch's five entries, and further ones only where they are not at their default; the same as in the
library's JSON (include/gradscaler/state_json.h)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from .checks import integer, real

_Number = TypeVar("_Number", int, float)

_FLT_MIN = 2.0**-126
_FLT_MAX = (2.0 - 2.0**-23) * 2.0**127


def to_dict(fields: dict[str, float]) -> dict[str, Any]:
    """The dict of the core's fields; {} for the empty state, that of a disabled scaler."""
    if not any(fields.values()):
        return {}
    state: dict[str, Any] = {
        "scale": fields["scale"],
        "growth_factor": fields["growth_factor"],
        "backoff_factor": fields["backoff_factor"],
        "growth_interval": int(fields["growth_interval"]),
        "_growth_tracker": int(fields["growth_tracker"]),
    }
    if fields["min_scale"] != _FLT_MIN:
        state["min_scale"] = fields["min_scale"]
    if fields["max_scale"] != _FLT_MAX:
        state["max_scale"] = fields["max_scale"]
    credit_is_taken = fields["hysteresis_tracker"] != fields["hysteresis"]
    if fields["hysteresis"] != 1 or credit_is_taken:  # the tracker needs its hysteresis
        state["hysteresis"] = int(fields["hysteresis"])
    if credit_is_taken:
        state["hysteresis_tracker"] = int(fields["hysteresis_tracker"])
    if fields["consecutive_skips"] != 0:
        state["consecutive_skips"] = int(fields["consecutive_skips"])
    return state


def from_dict(state: Any) -> dict[str, float]:
    """The core's fields. A missing extra entry is left out: the core then keeps the scaler's own value, as for zero.
    Unknown entries are ignored. Raises TypeError, KeyError (a required entry is missing) or ValueError."""
    if not isinstance(state, Mapping):
        raise TypeError(f"state_dict is a {type(state).__name__}, it must be a dict as state_dict() returns it")
    if not state:
        return {}
    fields: dict[str, float] = {key: real(key, _required(state, key)) for key in _REQUIRED_REALS}
    fields["growth_interval"] = _integer(state, "growth_interval")
    fields["growth_tracker"] = _growth_tracker(state)
    for key in ("min_scale", "max_scale"):
        if key in state:
            fields[key] = _not_zero(key, real(key, state[key]), "finite numbers from 2**-126 on")
    if "hysteresis" in state:
        hysteresis = _not_zero("hysteresis", _integer(state, "hysteresis", 32), "integers >= 1")
        fields["hysteresis"] = fields["hysteresis_tracker"] = hysteresis
        if "hysteresis_tracker" in state:
            fields["hysteresis_tracker"] = _integer(state, "hysteresis_tracker", 32)
    elif "hysteresis_tracker" in state:
        tracker = _integer(state, "hysteresis_tracker", 32)
        raise ValueError(f"hysteresis_tracker is {tracker} but there is no hysteresis; give both or neither")
    if "consecutive_skips" in state:
        fields["consecutive_skips"] = _integer(state, "consecutive_skips")
    return fields


_REQUIRED_REALS = ("scale", "growth_factor", "backoff_factor")


def _required(state: Any, key: str) -> Any:
    if key not in state:
        raise KeyError(f"the state dict has no entry {key!r}")
    return state[key]


def _not_zero(key: str, value: _Number, allowed: str) -> _Number:
    """Refuses an explicit zero, which the core would take for a missing entry."""
    if value == 0:
        raise ValueError(f"{key} is {value}, allowed are {allowed}; leave the entry out to keep the scaler's own")
    return value


def _integer(state: Any, key: str, bits: int = 64) -> int:
    return integer(key, _required(state, key), bits)


def _growth_tracker(state: Any) -> int:
    """PyTorch's entry `_growth_tracker`, or lucid's, without the underscore."""
    if "growth_tracker" not in state:
        return _integer(state, "_growth_tracker")
    tracker = _integer(state, "growth_tracker")
    if "_growth_tracker" in state and _integer(state, "_growth_tracker") != tracker:
        raise ValueError(
            f"_growth_tracker is {state['_growth_tracker']} but growth_tracker is {tracker}; give one of them"
        )
    return tracker
