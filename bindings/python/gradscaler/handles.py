# SPDX-License-Identifier: Apache-2.0
"""The handles by which the core knows a scaler's optimizers."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any, Callable, NamedTuple

from ._core import Handle, Scaler

_READY = 0


class _Known(NamedTuple):
    handle: Handle
    optimizer: Callable[[], Any]
    """Returns the optimizer, or None if it has died."""
    held: bool
    """This object keeps the optimizer alive until the iteration ends."""


class Handles:
    """The optimizers of one scaler, by identity. References to them are weak; objects that allow no weak reference
    (lists) are kept alive until the iteration ends. Then these, and optimizers that have died, are forgotten.

    No call takes longer the more optimizers are known, but for `iteration_is_open`.

    Threads: methods that change something are called inside `with core:`, together with the core's function that needs
    them. So a handle stays known in between, and an optimizer never has two. Methods that only read may be called at
    any time. Where an optimizer dies, its key is queued, its gradients are released, and nothing else is done."""

    def __init__(self, core: Scaler) -> None:
        self._core = core
        self._known: dict[int, _Known] = {}
        self._optimizers: dict[Handle, Callable[[], Any]] = {}  # of the known handles
        self._held: deque[int] = deque()  # the keys of those that are held
        self._died: deque[int] = deque()  # the keys of those that have died; a new one may have taken a key over
        self._present: dict[Handle, list[bool]] = {}  # which gradients were there when they were unscaled
        self._unscaled: dict[Handle, list[Any]] = {}  # the gradients of optimizers that were unscaled, not stepped
        self._failed: set[Handle] = set()  # whose step has failed in this iteration
        self._unfinished = False

    def get(self, optimizer: Any) -> Handle:
        """The optimizer's handle, a new one at the first call."""
        key = id(optimizer)
        if self._died:
            self._forget_ended(self._died)  # their memory may be this optimizer's now
        known = self._known.get(key)
        if known is not None:
            if known.optimizer() is optimizer:
                return known.handle
            self._forget(key)  # another optimizer had this id, and has died
        handle = Handle()
        note_death, release = self._died.append, self._unscaled.pop  # keep these two alive, not this object

        def died(_: Any) -> None:
            note_death(key)
            release(handle, None)

        try:
            known = _Known(handle, weakref.ref(optimizer, died), held=False)
        except TypeError:
            known = _Known(handle, lambda: optimizer, held=True)
            self._held.append(key)
        self._known[key] = known
        self._optimizers[known.handle] = known.optimizer
        return known.handle

    def find(self, optimizer: Any) -> Handle:
        """The optimizer's handle; if it has none, a new one that stays unknown. Only reads."""
        known = self._known.get(id(optimizer))
        return known.handle if known is not None and known.optimizer() is optimizer else Handle()

    def optimizer_of(self, handle: Handle) -> Any:
        """The optimizer of a handle; None if it has died, or the handle is unknown."""
        optimizer = self._optimizers.get(handle)
        return None if optimizer is None else optimizer()

    def note_present(self, handle: Handle, present: list[bool] | None) -> None:
        """Keeps which gradients were there when they were unscaled; None: unknown."""
        if present is None:
            self._present.pop(handle, None)
        else:
            self._present[handle] = present

    def note_unscaled(self, handle: Handle, arrays: list[Any]) -> None:
        """Holds the gradients that have been unscaled, and keeps which of them were there."""
        self._unscaled[handle] = arrays
        self._present[handle] = [array is not None for array in arrays]

    def hold(self, handle: Handle, arrays: list[Any]) -> None:
        """Keeps gradients that were unscaled alive: the core refuses their memory to other optimizers until their step,
        so nothing else may be allocated there. `arrays` is kept itself: whoever clears it releases them, too."""
        self._unscaled[handle] = arrays

    def held_arrays(self, handle: Handle) -> list[Any]:
        """The list given to `hold`; an empty one if there is none."""
        return self._unscaled.get(handle, [])

    def release(self, handle: Handle) -> None:
        """Releases what `hold` keeps, if anything."""
        self._unscaled.pop(handle, None)

    def note_failure(self, handle: Handle) -> None:
        """Keeps that the optimizer's step has failed in this iteration."""
        self._failed.add(handle)

    def has_failed(self, optimizer: Any) -> bool:
        """Whether the optimizer's step has failed in this iteration."""
        return bool(self._failed) and self.find(optimizer) in self._failed

    def new_gradients(self, handle: Handle, present: list[bool] | None) -> list[int]:
        """The indices of gradients that are there now and were not when the others were unscaled; none if unknown."""
        before = self._present.get(handle)
        if before is None or present is None or before == present:
            return []
        return [index for index, there in enumerate(present) if there and not any(before[index : index + 1])]

    def iteration_is_open(self) -> bool:
        """Whether this iteration has begun and needs an update to end it."""
        return self._unfinished or any(self._is_open(known.handle) for known in list(self._known.values()))

    def mark_unfinished(self) -> None:
        """Records that the iteration has begun, where the optimizers' stages do not show it."""
        self._unfinished = True

    def mark_if_open(self, handle: Handle) -> None:
        """Call it before the handle's stage is reset or lost."""
        self._unfinished = self._unfinished or self._is_open(handle)

    def end_iteration(self) -> None:
        """After an update: forgets optimizers that have died, or were kept alive for this iteration only."""
        self._forget_ended(self._held)
        self._forget_ended(self._died)
        self._unscaled.clear()
        self._failed.clear()
        self._unfinished = False

    def _forget_ended(self, keys: deque[int]) -> None:
        while keys:
            known = self._known.get(keys[0])
            if known is not None and (known.held or known.optimizer() is None):
                self._forget(keys[0])
            keys.popleft()

    def _is_open(self, handle: Handle) -> bool:
        return self._core.get_stage(handle) != _READY

    def _forget(self, key: int) -> None:
        handle = self._known[key].handle
        self.mark_if_open(handle)
        self._core.forget(handle)
        self._present.pop(handle, None)
        self._unscaled.pop(handle, None)
        del self._known[key], self._optimizers[handle]
