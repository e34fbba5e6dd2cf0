# SPDX-License-Identifier: Apache-2.0
"""What a scaler and the functions report: outcomes, overflows, counters, kinds of events, statistics."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Outcome(IntEnum):
    """What became of a step."""

    STEPPED = 0
    """The optimizer's step was called with unscaled gradients."""
    SKIPPED_OVERFLOW = 1
    """Some gradient was infinite or NaN: the step was not called."""
    NO_GRADS = 2
    """The step was called, but no parameter had a gradient."""
    PENDING = 3
    """A device has yet to decide. Never on the CPU."""


class StepResult(NamedTuple):
    """What became of a step, and with which numbers."""

    outcome: Outcome
    scale: float
    """The scale that the gradients carried (1.0 when disabled): divide a scaled loss by this one. After `update`,
    `get_scale()` may be another."""
    max_abs: float
    """The largest magnitude of the unscaled gradients: NaN if one is NaN, 0.0 without gradients."""


class EventKind(IntEnum):
    """What an `Event` reports."""

    OVERFLOW = 0
    """An optimizer's gradients are not finite."""
    BACKOFF = 1
    """`update` made the scale smaller."""
    GROWTH = 2
    """`update` made the scale larger."""
    AT_MIN_SCALE = 3
    """A due backoff ended at `min_scale` (not reported for static scales)."""


class _OverflowFields(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, of no use here
    """Its index among the optimizer's gradients, from 0; parameters without a gradient count."""
    name: str | None
    """Its name; None for arrays of a plain list."""
    inf_count: int
    """How many elements are infinite."""
    nan_count: int
    """How many elements are NaN."""
    first_index: int
    """The first element that is not finite, counted row by row from 0."""


class Overflow(_OverflowFields):
    """One gradient with infinities or NaNs. It is a tuple of the five fields up to `first_index`; `repeats`, which came
    later, is an attribute, so that programs may go on unpacking five."""

    repeats: int = 1
    """How many overflows in a row this gradient has had with these counts and this `first_index`, this one included.
    Many show values that nobody has written anew, rather than a scale that is too large."""

    def __new__(
        cls, index: int, name: str | None, inf_count: int, nan_count: int, first_index: int, repeats: int = 1
    ) -> Overflow:
        overflow = super().__new__(cls, index, name, inf_count, nan_count, first_index)
        overflow.repeats = repeats
        return overflow


class Stats(NamedTuple):
    """Counters since the scaler was created."""

    updates: int
    """Iterations closed with `update`."""
    steps: int
    """Steps with outcome `STEPPED`."""
    skipped_steps: int
    """Steps skipped for an overflow."""
    backoffs: int
    """Updates that made the scale smaller."""
    growths: int
    """Updates that made the scale larger, not counting scales set by hand."""
    consecutive_skips: int
    """Iterations in a row, up to the last one, with an overflow."""


class GradStatistics(NamedTuple):
    """What is in one gradient."""

    count: int  # type: ignore[assignment]  # hides tuple.count, of no use here
    zeros: int
    infs: int
    nans: int
    min_abs: float
    """The smallest finite magnitude that is not 0; 0.0 if there is none."""
    max_abs: float
    """The largest finite magnitude; 0.0 if there is none."""
    exponents: dict[int, int]
    """How many finite, non-zero values have floor(log2(abs(x))) == key, for the keys that occur (-150 to 129;
    float64 values beyond are counted at the ends)."""
