# SPDX-License-Identifier: Apache-2.0
"""The random numbers of the sequences: splitmix64, so that a seed means the same on every Python."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

# exponent bits, mantissa bits
FORMATS: Dict[str, Tuple[int, int]] = {
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float32": (8, 23),
    "float64": (11, 52),
}


class Prng:
    def __init__(self, seed: int) -> None:
        self._state = seed

    def bits(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        return self.bits() % n

    def between(self, low: int, high: int) -> int:
        """An integer; both ends are included."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[self.below(len(choices))]

    def shuffled(self, items: Sequence[Any]) -> List[Any]:
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(len(rest))]


def number(rng: Prng, dtype: str, exponent: int) -> int:
    """Bits of a number with a random sign and mantissa and that exponent; one that is too small is subnormal."""
    exponent_bits, mantissa_bits = FORMATS[dtype]
    field = exponent + (1 << (exponent_bits - 1)) - 1
    field = min(max(field, 0), (1 << exponent_bits) - 2)
    return zero(rng, dtype) | field << mantissa_bits | rng.below(1 << mantissa_bits)


def zero(rng: Prng, dtype: str) -> int:
    return rng.below(2) << sum(FORMATS[dtype])


def infinity(rng: Prng, dtype: str) -> int:
    exponent_bits, mantissa_bits = FORMATS[dtype]
    return zero(rng, dtype) | ((1 << exponent_bits) - 1) << mantissa_bits


def nan(rng: Prng, dtype: str) -> int:
    """A quiet NaN."""
    return infinity(rng, dtype) | 1 << (FORMATS[dtype][1] - 1)


def to_hex(dtype: str, elements: Sequence[int]) -> str:
    size = (sum(FORMATS[dtype]) + 1) // 8
    return b"".join(bits.to_bytes(size, "little") for bits in elements).hex()
