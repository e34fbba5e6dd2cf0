# SPDX-License-Identifier: Apache-2.0
"""Private names of PyTorch's GradScaler that programs use all the same: two of them work, the others say what to use
instead, so that nothing is assigned or overridden without effect."""

from __future__ import annotations

import inspect
from typing import Any, Callable


class CurrentScale:
    """`_scale`, which may be read only."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read

    def __get__(self, scaler: Any, owner: Any = None) -> Any:
        return self if scaler is None else self._read(scaler)

    def __set__(self, scaler: Any, value: Any) -> None:
        raise AttributeError("_scale cannot be set here; call update(new_scale), or load_state_dict between iterations")


class Absent:
    """A name that is not here."""

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name = name

    def __get__(self, scaler: Any, owner: Any = None) -> Any:
        if scaler is None:
            return self
        raise AttributeError(self._refusal(scaler))

    def __set__(self, scaler: Any, value: Any) -> None:
        raise AttributeError(self._refusal(scaler))

    def _refusal(self, scaler: Any) -> str:
        return f"{type(scaler).__name__} has no {self._name}, a private name of PyTorch's; {self._instead}"

    def refuse_override(self, cls: type) -> None:
        """Raises TypeError if a subclass defines the name: its function would never be called."""
        if inspect.getattr_static(cls, self._name) is not self:
            raise TypeError(
                f"{cls.__name__} defines {self._name}, a private function of PyTorch's scaler, which is never called "
                f"here; {self._instead}"
            )


_OVERRIDE = "override unscale_, step or update, or give GradScaler(allow_fp16_grads=True) or GradScaler(comm=...)"


class PrivateNames:
    """A base class with the names."""

    _growth_factor = Absent("call get_growth_factor() or set_growth_factor()")
    _backoff_factor = Absent("call get_backoff_factor() or set_backoff_factor()")
    _growth_interval = Absent("call get_growth_interval() or set_growth_interval()")
    _growth_tracker = Absent("it is state_dict()['_growth_tracker']")
    _init_scale = Absent("call get_scale() or update(new_scale)")
    _init_growth_tracker = Absent("it is state_dict()['_growth_tracker']")
    _per_optimizer_states = Absent("call found_inf(optimizer), outcome(optimizer) or result(optimizer)")
    _found_inf_per_device = Absent("call found_inf(optimizer)")
    _check_inf_per_device = Absent(_OVERRIDE)
    _unscale_grads_ = Absent(_OVERRIDE)
    _maybe_opt_step = Absent(_OVERRIDE)
    _lazy_init_scale_growth_tracker = Absent("nothing is set up lazily here")
    _check_scale_growth_tracker = Absent("nothing is set up lazily here")

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for name in _FUNCTIONS:
            vars(PrivateNames)[name].refuse_override(cls)


_FUNCTIONS = (
    "_found_inf_per_device",
    "_check_inf_per_device",
    "_unscale_grads_",
    "_maybe_opt_step",
    "_lazy_init_scale_growth_tracker",
    "_check_scale_growth_tracker",
)
