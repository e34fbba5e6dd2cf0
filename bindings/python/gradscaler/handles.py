# SPDX-License-Identifier: Apache-2.0
"""Which optimizer is which: the handles that the core knows them by."""

from __future__ import annotations

import weakref
from typing import Any, Callable, NamedTuple

from ._core import Handle, Scaler

_READY = 0


class _Known(NamedTuple):
    handle: Handle
    optimizer: Callable[[], Any]
    """None where it has died."""
    held: bool
    """Kept alive by us, until the iteration ends."""


class Handles:
    """The optimizers of one scaler, by identity. They are referred to weakly; objects that allow no weak reference
    (lists) are kept alive until the iteration ends. Then these and those that have died are forgotten.

    Threads: what changes anything here is called inside `with core:`, together with the core's function that it is
    for. So a handle stays known in between, and one optimizer never has two. What only looks may be called at any time:
    it takes one look at the dict."""

    def __init__(self, core: Scaler) -> None:
        self._core = core
        self._known: dict[int, _Known] = {}
        self._unfinished = False

    def get(self, optimizer: Any) -> Handle:
        """The optimizer's handle, a new one at the first call."""
        key = id(optimizer)
        known = self._known.get(key)
        if known is not None:
            if known.optimizer() is optimizer:
                return known.handle
            self._forget(key, known)  # of an object that is no more
        try:
            known = _Known(Handle(), weakref.ref(optimizer), held=False)
        except TypeError:
            known = _Known(Handle(), lambda: optimizer, held=True)
        self._known[key] = known
        return known.handle

    def find(self, optimizer: Any) -> Handle:
        """The same without making the optimizer known: a handle that the core has not seen stands for a stranger. It
        only looks."""
        known = self._known.get(id(optimizer))
        return known.handle if known is not None and known.optimizer() is optimizer else Handle()

    def optimizer_of(self, handle: Handle) -> Any:
        """The optimizer behind a handle; None where there is none any more."""
        return next((known.optimizer() for known in list(self._known.values()) if known.handle is handle), None)

    def iteration_is_open(self) -> bool:
        """Whether something of this iteration is still to be closed by an update."""
        return self._unfinished or any(self._is_open(known.handle) for known in self._known.values())

    def mark_unfinished(self) -> None:
        """For a result of this iteration that the optimizers' stages do not show."""
        self._unfinished = True

    def mark_if_open(self, handle: Handle) -> None:
        """Before the handle's stage is reset or lost."""
        self._unfinished = self._unfinished or self._is_open(handle)

    def end_iteration(self) -> None:
        """After an update: forgets those that have died, or were kept alive for this iteration only."""
        for key, known in list(self._known.items()):
            if known.held or known.optimizer() is None:
                self._forget(key, known)
        self._unfinished = False

    def _is_open(self, handle: Handle) -> bool:
        return self._core.get_stage(handle) != _READY

    def _forget(self, key: int, known: _Known) -> None:
        self.mark_if_open(known.handle)
        self._core.forget(known.handle)
        del self._known[key]
