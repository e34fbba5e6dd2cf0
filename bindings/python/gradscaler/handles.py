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
    held: bool
    """Kept alive by us, until the iteration ends."""


class Handles:
    """The optimizers of one scaler, by identity. They are referred to weakly: one that dies is forgotten. Objects that
    allow no weak reference (lists) are kept alive until the iteration ends, and forgotten then."""

    def __init__(self, core: Scaler) -> None:
        self._core = core
        self._known: dict[int, _Known] = {}
        self._dead: list[Handle] = []
        self._unfinished = False

    def get(self, optimizer: Any) -> Handle:
        """The optimizer's handle, a new one at the first call."""
        self._bury()
        key = id(optimizer)
        known = self._known.get(key)
        if known is not None and known.optimizer() is optimizer:
            return known.handle
        handle = Handle()
        try:
            new = _Known(handle, weakref.ref(optimizer, self._funeral(key)), held=False)
        except TypeError:
            new = _Known(handle, lambda: optimizer, held=True)
        if known is not None:  # of an object that is no more
            self._known[key] = new
        return self._known.setdefault(key, new).handle  # another thread may have been faster

    def find(self, optimizer: Any) -> Handle:
        """The same without making the optimizer known: a handle that the core has not seen stands for a stranger."""
        known = self._known.get(id(optimizer))
        return known.handle if known is not None and known.optimizer() is optimizer else Handle()

    def optimizer_of(self, handle: Handle) -> Any:
        """The optimizer behind a handle; None where there is none any more."""
        for known in list(self._known.values()):
            if known.handle is handle:
                return known.optimizer()
        return None

    def iteration_is_open(self) -> bool:
        """Whether something of this iteration is still to be closed by an update."""
        self._bury()
        return self._unfinished or any(self._is_open(known.handle) for known in list(self._known.values()))

    def mark_unfinished(self) -> None:
        """For a result of this iteration that the optimizers' stages do not show."""
        self._unfinished = True

    def mark_if_open(self, handle: Handle) -> None:
        """Before the handle's stage is reset or lost."""
        self._unfinished = self._unfinished or self._is_open(handle)

    def end_iteration(self) -> None:
        """After an update: lets go of what was kept alive for this iteration only."""
        self._bury()
        self._unfinished = False
        for key, known in list(self._known.items()):
            if known.held and self._known.pop(key, None) is not None:  # another thread may end it, too
                self._core.forget(known.handle)

    def _is_open(self, handle: Handle) -> bool:
        return self._core.get_stage(handle) != _READY

    def _funeral(self, key: int) -> Callable[[Any], None]:
        known, dead = self._known, self._dead

        def optimizer_died(_: Any) -> None:
            gone = known.pop(key, None)
            if gone is not None:
                dead.append(gone.handle)

        return optimizer_died

    def _bury(self) -> None:
        while self._dead:
            try:
                handle = self._dead.pop()
            except IndexError:  # another thread has buried it
                return
            try:
                self.mark_if_open(handle)
                self._core.forget(handle)
            except RuntimeError:  # not now, inside a callback
                self._dead.append(handle)
                raise
