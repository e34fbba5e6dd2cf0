# SPDX-License-Identifier: Apache-2.0
"""Generates sequences: calls of a training loop, its possible mistakes, and calls that only a test makes.

A sequence is made while PyTorch performs it, because what makes sense next depends on the scale: `calls` yields a call
and is sent the state after it. Where ours differs from PyTorch (differences.py) the call carries the difference's
identifier, and it leaves both in the same state or is followed by one that brings both into the same state.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Dict, Generator, List, Optional, Tuple

from .prng import FORMATS, Prng, infinity, nan, number, to_hex, zero

Call = List[Any]
Step = Tuple[Call, Optional[str]]  # the call, the identifier of a difference
Calls = Generator[Step, Dict[str, Any], None]
Grads = List[Optional[List[str]]]  # bits and layout of each

LENGTH = 16  # calls, at least
SHAPES = [[1], [2], [3], [5], [9], [2, 2], [3, 2], [1, 4], [2, 0]]
ARRIVALS = ["clean", "clean", "clean", "infinity", "nan", "absent", "huge"]
UNFIT_SCALES = ["inf", "nan", "0.0", "-2.0"]


def elements(shape: List[int]) -> int:
    return math.prod(shape)


def float32_bits(value: float) -> str:
    return struct.pack("<f", value).hex()


class Author:
    def __init__(self, seed: int, fused: bool = False) -> None:
        self._rng = Prng(seed)
        self._seed = seed
        self._fused = fused
        # float64 gradients are divided more exactly here ("float64-reciprocal"): they appear with such scales only.
        self._powers_of_two = self._rng.chance(50)
        self._enabled = fused or not self._rng.chance(4)

    def head(self) -> Dict[str, Any]:
        rng = self._rng
        if self._powers_of_two:
            scaler = {"init_scale": 2.0 ** rng.between(3, 20), "growth_factor": rng.pick([2.0, 4.0])}
            scaler["backoff_factor"] = rng.pick([0.5, 0.25])
        else:
            scaler = {"init_scale": self._fraction(), "growth_factor": rng.pick([2.0, 1.1, 1.5, 3.0])}
            scaler["backoff_factor"] = rng.pick([0.5, 0.9, 0.3, 0.75])
        scaler["growth_interval"] = rng.between(1, 4)
        if not self._enabled:
            scaler["enabled"] = False
        self._optimizers = [self._optimizer() for _ in range(rng.between(1, 3))]
        return {"seed": self._seed, "scaler": scaler, "optimizers": self._optimizers}

    def calls(self) -> Calls:
        self._length = 0
        yield from self._stretches(LENGTH // 2)
        if self._enabled:
            yield from self._do("exchange")
        yield from self._stretches(LENGTH)

    def _stretches(self, length: int) -> Calls:
        while self._length < length:
            clean = self._rng.chance(50)
            for _ in range(self._rng.between(1, 4)):
                yield from self._iteration(clean)
                if self._enabled and self._rng.chance(30):
                    yield from self._between_iterations()

    # --- the head

    def _fraction(self) -> float:
        """A float32 in [8, 2^20) that is no power of two."""
        bits = number(self._rng, "float32", self._rng.between(3, 19)) & 0x7FFFFFFF | 1
        return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])

    def _optimizer(self) -> Dict[str, Any]:
        rng = self._rng
        if self._fused:
            return {
                "kind": "fused_adam",
                "lr": 0.125,
                "params": [self._param("float32") for _ in range(rng.between(1, 3))],
            }
        dtypes = ["float32", "float32", "bfloat16"] + (["float64"] if self._powers_of_two else [])
        params = [self._param(rng.pick(dtypes)) for _ in range(rng.between(1, 3))]
        if rng.chance(15):
            params.append(self._param("float16"))
        return {"kind": "sgd", "lr": 2.0 ** -rng.between(0, 3), "params": params}

    def _param(self, dtype: str) -> List[Any]:
        shape = self._rng.pick(SHAPES[:-1] if self._fused else SHAPES)
        values = [number(self._rng, dtype, self._rng.between(-1, 1)) for _ in range(elements(shape))]
        return [dtype, shape, to_hex(dtype, values)]

    # --- one iteration

    def _do(self, *call: Any, difference: Optional[str] = None) -> Calls:
        self._length += 1
        self._state = yield list(call), difference

    def _iteration(self, clean: bool) -> Calls:
        rng = self._rng
        yield from self._losses()
        queues: List[List[Step]] = []
        touched = checked = False
        for o in rng.shuffled(range(len(self._optimizers))):
            grads = self._grads(o, clean)
            plan = self._plan(o, grads)
            queues.append(self._plan_half(o, grads) + plan)
            touched = touched or is_touched(plan)
            checked = checked or (any_present(grads) and is_touched(plan))
        while queues:
            call, difference = rng.pick(queues).pop(0)
            yield from self._do(*call, difference=difference)
            queues = [queue for queue in queues if queue]
        if checked or not self._enabled:
            yield from self._update()
        else:
            difference = "update-without-gradients" if touched else "update-without-checks"
            yield from self._do("update", difference=difference)
            yield from self._do("update_to", str(self._new_scale()))

    def _losses(self) -> Calls:
        rng = self._rng
        dtype = rng.pick(["float32", "float32", "float64", "bfloat16"])
        shape = [3] if dtype == "bfloat16" else rng.pick([[], [2]])
        yield from self._do("scale", dtype, shape, self._values(dtype, shape, -6, 6))
        if rng.chance(10):
            yield from self._do("scale_nested", *[self._values("float32", [], -6, 6) for _ in range(2)])
        if rng.chance(3) and self._enabled:
            value = rng.pick([1.5, None])
            yield from self._do("scale_object", value, difference=None if value is None else "scale-of-number")

    def _values(self, dtype: str, shape: List[int], low: int, high: int) -> str:
        return to_hex(dtype, [number(self._rng, dtype, self._rng.between(low, high)) for _ in range(elements(shape))])

    # --- gradients

    def _grads(self, o: int, clean: bool) -> Grads:
        rng = self._rng
        arrival = "clean" if clean else rng.pick(ARRIVALS)
        params = self._optimizers[o]["params"]
        grads: List[Optional[List[int]]] = []
        for dtype, shape, _ in params:
            absent = (dtype == "float16" and self._enabled) or (arrival == "absent" and rng.chance(70))
            grads.append(None if absent else [self._element(dtype) for _ in range(elements(shape))])
        full = [p for p, grad in enumerate(grads) if grad]
        if not full:  # empty ones alone would count in PyTorch: "empty-gradients"
            return [None] * len(grads) if not self._fused else self._grads(o, True)
        if arrival in ("infinity", "nan", "huge"):
            p = rng.pick(full)
            grad = grads[p] or []
            grad[rng.below(len(grad))] = self._unusual(arrival, params[p][0])
        layouts = ["plain"] if self._fused else ["plain", "plain", "strided", "transposed"]
        return [
            None if grad is None else [to_hex(param[0], grad), rng.pick(layouts)] for param, grad in zip(params, grads)
        ]

    def _element(self, dtype: str) -> int:
        rng = self._rng
        if rng.chance(10):
            return zero(rng, dtype)
        if rng.chance(10):
            return number(rng, dtype, -2000)  # subnormal
        return number(rng, dtype, rng.between(-12, 12) + self._scale_exponent())

    def _unusual(self, arrival: str, dtype: str) -> int:
        if arrival == "huge":  # as large as it may be without that the division overflows: "unscale-overflow"
            largest = 2 ** (FORMATS[dtype][0] - 1) - 1
            return number(self._rng, dtype, largest + min(0, self._scale_exponent()) - 1)
        return infinity(self._rng, dtype) if arrival == "infinity" else nan(self._rng, dtype)

    def _scale_exponent(self) -> int:
        return math.frexp(float.fromhex(self._state["scale"]))[1] - 1

    # --- the calls on one optimizer

    def _plan(self, o: int, grads: Grads) -> List[Step]:
        plan: List[Step] = [(["grads", o, grads], None)]
        if not self._enabled:
            return plan + self._plan_disabled(o)
        if not any_present(grads):
            return plan + self._plan_without_gradients(o)
        rng = self._rng
        if rng.chance(5):
            plan.append((["step", o, {"closure": 0.5}], None))
        kind = rng.below(20)
        if kind == 0:
            return plan
        if kind < 9:
            return plan + [self._step(o)] + self._plan_too_late(o)
        plan.append((["unscale", o], None))
        if kind == 9:
            return plan
        if kind < 11:
            plan.append((["unscale", o], None))
        elif kind < 14:
            plan.append((rng.pick([["clamp", o, 0.5], ["multiply", o, 0.25]]), None))
        elif kind == 14:  # not looked at again
            plan.append((["grads", o, self._grads(o, False)], None))
        elif kind == 15 and not self._fused:  # raises where the step is taken
            plan.append((["step", o, {"fail": True}], None))
        return plan + [self._step(o)] + self._plan_too_late(o)

    def _plan_too_late(self, o: int) -> List[Step]:
        if self._rng.chance(85):
            return []
        return [self._rng.pick([(["unscale", o], None), self._step(o)])]

    def _plan_half(self, o: int, grads: Grads) -> List[Step]:
        """A float16 gradient, which is refused before anything changes."""
        params = self._optimizers[o]["params"]
        if not self._enabled or params[-1][0] != "float16" or self._rng.chance(60):
            return []
        half = [self._values("float16", params[-1][1], -6, 6), "plain"]
        if half[0] == "":
            return []
        return [(["grads", o, grads[:-1] + [half]], None), self._rng.pick([(["unscale", o], None), self._step(o)])]

    def _plan_without_gradients(self, o: int) -> List[Step]:
        unscale: Step = (["unscale", o], None)
        step: Step = (["step", o, {}], "step-without-gradients")
        return list(self._rng.pick([[], [unscale], [step], [unscale, step]]))

    def _plan_disabled(self, o: int) -> List[Step]:
        closure: Step = (["step", o, {"closure": 0.5}], None)
        return list(self._rng.pick([[self._step(o)], [(["unscale", o], None), self._step(o)], [closure]]))

    def _step(self, o: int) -> Step:
        answer = not self._fused and self._rng.chance(50)
        return ["step", o, {"answer": self._rng.below(100) / 4} if answer else {}], None

    # --- the end of an iteration, and calls before the next

    def _update(self) -> Calls:
        rng = self._rng
        kind = rng.below(40)
        if kind == 0 and self._enabled:
            yield from self._do("update_to", rng.pick(UNFIT_SCALES), difference="update-range")
            yield from self._do("update_to", str(self._new_scale()))
        elif kind == 1 and self._enabled:
            yield from self._do("update_to_int", 1024, difference="update-int")
            yield from self._do("update_to", "1024.0")
        elif kind == 2 and self._enabled:
            values = [float32_bits(self._new_scale()) for _ in range(2)]
            yield from self._do("update_to_array", [2], "".join(values), difference="update-array")
            yield from self._do("update")
        elif kind == 3 and self._enabled:
            scale = self._new_scale()
            yield from self._do("update_to_array", [1], float32_bits(scale), difference="update-array-of-one")
            yield from self._do("update_to", str(scale))
        elif kind < 6:
            yield from self._do("update_to_array", [], float32_bits(self._new_scale()))
        elif kind < 9:
            yield from self._do("update_to", str(self._new_scale()))
        else:
            yield from self._do("update")

    def _new_scale(self) -> float:
        if not self._powers_of_two:
            return self._fraction()
        return float(2.0 ** self._rng.pick([-8, 0, 1, 8, 16, 24, 126, 127]))

    def _between_iterations(self) -> Calls:
        rng = self._rng
        kind = rng.below(12)
        if kind < 4:
            yield from self._do("exchange")
        elif kind < 6:
            yield from self._do(rng.pick(["pickle", "copy"]))
        elif kind < 10:
            yield from self._set()
            yield from self._do("get")
        elif kind == 10:
            yield from self._do("load", {})
        else:
            unfit = rng.pick([{"growth_factor": 1.0}, {"growth_factor": 0.5}, {"backoff_factor": 1.0}])
            yield from self._do("create", unfit, difference="constructor-error")

    def _set(self) -> Calls:
        rng = self._rng
        name = rng.pick(["growth_factor", "backoff_factor", "growth_interval"])
        fit: Any
        unfit: float
        if name == "growth_interval":  # not below the tracker: "interval-lowered"
            fit = self._state["tracker"] + rng.between(1, 4)
            unfit = 0
        elif name == "growth_factor":
            fit, unfit = rng.pick([2.0, 4.0] if self._powers_of_two else [1.25, 2.0, 1.0001]), 1.0
        else:
            fit, unfit = rng.pick([0.5, 0.25] if self._powers_of_two else [0.5, 0.7, 0.999]), 1.0
        if rng.chance(25):
            yield from self._do("set", name, unfit, difference="setter-range")
        yield from self._do("set", name, fit)


def any_present(grads: Grads) -> bool:
    return any(grad is not None and grad[0] != "" for grad in grads)


def is_touched(plan: List[Step]) -> bool:
    """Whether a call reaches the optimizer; a closure is refused before."""
    return any(call[0] == "unscale" or (call[0] == "step" and "closure" not in call[2]) for call, _ in plan)
