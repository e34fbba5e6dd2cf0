# SPDX-License-Identifier: Apache-2.0
"""Performs the calls of a sequence on one scaler and its optimizers, and reports the visible state afterwards.

A sequence is plain data (JSON):
  seed, scaler: arguments of the constructor, optimizers: [{kind, lr, params: [[dtype, shape, bits], …]}, …],
  calls: [{call: [name, argument, …], result or raised, difference, changed}, …]
`changed` holds what of Machine.state() is not as it was before the call.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any, Dict, List, Optional, Sequence, Tuple

Call = List[Any]
State = Dict[str, Any]

# The options of a scaler that loads a state: none of these values may survive.
PYTORCHS_ENTRIES = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
OTHER_ARGUMENTS = {"init_scale": 7.0, "growth_factor": 7.0, "backoff_factor": 0.125, "growth_interval": 7}


def is_pytorchs(scaler: Any) -> bool:
    return type(scaler).__module__.startswith("torch.")


def found_inf(scaler: Any, optimizer: Any) -> bool:
    if not is_pytorchs(scaler):
        return bool(scaler.found_inf(optimizer))
    if not scaler.is_enabled():
        return False
    # PyTorch has no public name for it.
    flags = scaler._per_optimizer_states.get(id(optimizer), {}).get("found_inf_per_device", {})
    return any(bool(flag.item()) for flag in flags.values())


class Machine:
    def __init__(self, arrays: Any, scaler_types: Sequence[Any], sequence: Dict[str, Any]) -> None:
        """`scaler_types` take turns: each `exchange` passes the state on to the next."""
        self._arrays = arrays
        self._types = list(scaler_types)
        self._dtypes = [[param[0] for param in each["params"]] for each in sequence["optimizers"]]
        self._shapes = [[param[1] for param in each["params"]] for each in sequence["optimizers"]]
        self._params = [
            [arrays.Parameter(self._array(*param)) for param in each["params"]] for each in sequence["optimizers"]
        ]
        self._optimizers = [
            arrays.OPTIMIZERS[each["kind"]](params, each["lr"])
            for each, params in zip(sequence["optimizers"], self._params)
        ]
        self.scaler = self._new(sequence["scaler"])

    def state(self) -> State:
        seen: State = {
            "scale": float(self.scaler.get_scale()).hex(),
            "tracker": self.scaler.state_dict().get("_growth_tracker", 0),
        }
        for o, params in enumerate(self._params):
            for p, param in enumerate(params):
                seen[f"param {o}.{p}"] = self._bits(param.data)
                seen[f"grad {o}.{p}"] = None if param.grad is None else self._bits(param.grad)
        return seen

    def perform(self, call: Call) -> Tuple[Any, Optional[Exception]]:
        """The call's result (as JSON), and the exception that it raised."""
        try:
            return getattr(self, "_call_" + call[0])(*call[1:]), None
        except Exception as error:  # whatever the scaler raises is what is compared
            return None, error

    def _new(self, arguments: Dict[str, Any]) -> Any:
        return self._types[0](device="cpu", **arguments)

    def _array(self, dtype: str, shape: Sequence[int], bits: str) -> Any:
        return self._arrays.array(dtype, shape, bytes.fromhex(bits))

    def _bits(self, values: Any) -> str:
        return str(self._arrays.bits(values).hex())

    def _call_grads(self, o: int, grads: List[Any]) -> None:
        for param, dtype, shape, grad in zip(self._params[o], self._dtypes[o], self._shapes[o], grads):
            param.grad = None if grad is None else self._arrays.laid_out(self._array(dtype, shape, grad[0]), grad[1])

    def _call_clamp(self, o: int, limit: float) -> None:
        for param in self._params[o]:
            if param.grad is not None:
                self._arrays.clamp(param.grad, limit)

    def _call_multiply(self, o: int, factor: float) -> None:
        for param in self._params[o]:
            if param.grad is not None:
                self._arrays.multiply(param.grad, factor)

    def _call_scale(self, dtype: str, shape: List[int], bits: str) -> str:
        return self._bits(self.scaler.scale(self._array(dtype, shape, bits)))

    def _call_scale_nested(self, first: str, second: str) -> List[str]:
        outputs = [self._array("float32", [], first), (self._array("float32", [], second),)]
        scaled = self.scaler.scale(outputs)
        assert isinstance(scaled, list) and isinstance(scaled[1], tuple)
        return [self._bits(scaled[0]), self._bits(scaled[1][0])]

    def _call_scale_object(self, value: Any) -> None:
        self.scaler.scale(value)

    def _call_unscale(self, o: int) -> bool:
        self.scaler.unscale_(self._optimizers[o])
        return found_inf(self.scaler, self._optimizers[o])

    def _call_step(self, o: int, arguments: Dict[str, Any]) -> Any:
        if "closure" in arguments:
            loss = arguments["closure"]
            arguments = {"closure": lambda: loss}
        return self.scaler.step(self._optimizers[o], **arguments)

    def _call_update(self) -> None:
        self.scaler.update()

    def _call_update_to(self, scale: str) -> None:
        self.scaler.update(float(scale))

    def _call_update_to_int(self, scale: int) -> None:
        self.scaler.update(scale)

    def _call_update_to_array(self, shape: List[int], bits: str) -> None:
        self.scaler.update(self._array("float32", shape, bits))

    def _call_set(self, name: str, value: Any) -> None:
        getattr(self.scaler, "set_" + name)(value)

    def _call_get(self) -> List[Any]:
        scaler = self.scaler
        return [
            scaler.get_growth_factor(),
            scaler.get_backoff_factor(),
            scaler.get_growth_interval(),
            scaler.is_enabled(),
        ]

    def _call_create(self, arguments: Dict[str, Any]) -> None:
        self._new(arguments)

    def _call_load(self, state: Dict[str, Any]) -> None:
        self.scaler.load_state_dict(state)

    def _call_exchange(self) -> Any:
        state = self.scaler.state_dict()
        self._types.append(self._types.pop(0))
        successor = self._new(OTHER_ARGUMENTS)
        successor.load_state_dict(state)
        self.scaler = successor
        return {key: value for key, value in state.items() if key in PYTORCHS_ENTRIES}

    def _call_pickle(self) -> None:
        self.scaler = pickle.loads(pickle.dumps(self.scaler))

    def _call_copy(self) -> None:
        self.scaler = copy.deepcopy(self.scaler)


def changes(before: State, after: State) -> State:
    return {key: value for key, value in after.items() if value != before[key]}
