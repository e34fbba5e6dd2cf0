# SPDX-License-Identifier: Apache-2.0
"""Digests of what `unscale_` makes of many gradients: every bfloat16, and 2^18 float32 and float64 numbers.

A digest is SHA-256 of the result's bits, every NaN as the same one (arrays.bits)."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List

import numpy

SCALES: Dict[str, List[float]] = {
    "bfloat16": [2.0**k for k in range(0, 127, 9)] + [3.0, 7.0, 1000.0, 65535.0, 1e10, 16777215.0, 2.0**127],
    "float32": [1.0, 2.0, 3.0, 65536.0, 65535.0, 12345.678, 1e20, 2.0**126],
    "float64": [1.0, 2.0, 65536.0, 2.0**100],
}


def numbers(dtype: str) -> bytes:
    if dtype == "bfloat16":
        return numpy.arange(2**16, dtype="<u2").tobytes()
    # splitmix64 of the indices; all bit patterns are equally likely
    z = numpy.arange(1, 2**18 + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    z ^= z >> numpy.uint64(31)
    bits = z if dtype == "float64" else z.astype(numpy.uint32)
    return bytes(bits.tobytes())


def digests(arrays: Any, scaler_type: Any) -> Dict[str, Dict[str, str]]:
    return {
        dtype: {repr(scale): digest(arrays, scaler_type, dtype, scale) for scale in scales}
        for dtype, scales in SCALES.items()
    }


def digest(arrays: Any, scaler_type: Any, dtype: str, scale: float) -> str:
    bits = numbers(dtype)
    shape = [len(bits) * 8 // {"bfloat16": 16, "float32": 32, "float64": 64}[dtype]]
    param = arrays.Parameter(arrays.array(dtype, shape, bits))
    param.grad = arrays.array(dtype, shape, bits)
    scaler = scaler_type(device="cpu", init_scale=scale)
    scaler.scale(arrays.array("float32", [], bytes(4)))
    scaler.unscale_(arrays.OPTIMIZERS["sgd"]([param], 1.0))
    return hashlib.sha256(arrays.bits(param.grad)).hexdigest()
