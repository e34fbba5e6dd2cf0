# SPDX-License-Identifier: Apache-2.0
"""GradScaler, and the Event that it reports."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import warnings
import weakref
from typing import Any, Callable, NamedTuple, TypeVar

from . import checks, optimizers, state
from ._core import Handle, Scaler
from ._core import clip_grad_norm as clip_list
from .arrays import note_written
from .dtensors import found_on_any_rank
from .handles import Handles
from .optimizers import Gradients
from .private import CurrentScale, PrivateNames
from .ranks import Comm
from .results import EventKind, Outcome, Overflow, Stats, StepResult
from .scaling import scaled

_T = TypeVar("_T")

_READY, _UNSCALED, _STEPPED = range(3)

_NO_GRADIENTS = Gradients([], None, [])

_LATER_OPTIONS = {"hysteresis_until_growth": False, "skip_window": 0, "max_skip_share": 0.0, "strict": False}
"""Those that a scaler pickled by version 0.1.0 lacks."""


class Event(NamedTuple):
    """What `GradScaler(on_event=...)` is called with."""

    kind: EventKind
    scale: float
    """The scale after the event."""
    update: int
    """Updates completed before this one."""
    optimizer: Any
    """Whose gradients overflowed (`OVERFLOW` only), else None."""
    scaler: GradScaler
    scale_before: float
    """The scale before the event. `OVERFLOW`: the one that the gradients carried."""


class GradScaler(PrivateNames):
    """Dynamic loss scaling for mixed-precision training.

    Half precision loses small gradients: they underflow to zero. A scaler multiplies the loss by a large factor, the
    scale, before the backward pass and divides the gradients by it afterwards. A step whose gradients overflowed is
    skipped. The scale adapts: it shrinks after an overflow and grows after a while without one.

        scaler = GradScaler()
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)      # unscales and checks, then steps or skips
            scaler.update()             # adapts the scale

    An optimizer is one of:

    * an object with `param_groups` and `step()`, as PyTorch's: a list of dicts whose "params" have a `grad`;
    * an object with `grads()`, which returns its gradient arrays (None: no gradient now), and `step()`; if it also has
      `names()`, these name the gradients in messages and reports;
    * a list (or tuple) of gradient arrays. It has no step of its own: after `step(list)`, `outcome(list)` tells whether
      to apply the gradients. Until `update`, it has to be the same list object.

    Gradients are float32, float64 or bfloat16 arrays in host memory (NumPy, PyTorch, array.array and others with DLPack
    or the buffer protocol), of any shape and strides. They are changed in place and never copied.

    Each optimizer goes ready -> unscaled -> stepped once per iteration; `update` makes all ready again. Calls out of
    order raise RuntimeError and change nothing. With several optimizers, an overflow in one skips only its own step;
    `update` then backs off. Several threads may use a scaler; a call waits for the one under way.

    Args:
        device: where the gradients are; only "cpu" is served. Others raise DeviceError.
        init_scale: the first scale.
        growth_factor: the scale is multiplied by it after `growth_interval` updates in a row without overflow; > 1.
        backoff_factor: the scale is multiplied by it after an iteration with an overflow; in (0, 1).
        growth_interval: see `growth_factor`; >= 1.
        enabled: False or None makes the scaler a pass-through: `scale` returns its argument, `step` calls the
            optimizer, the other methods do nothing.
        min_scale: the scale never falls below it. Default, and the smallest allowed: 2**-126 (1/scale stays finite).
        max_scale: the scale does not grow if it would pass this limit. Default, and the largest allowed: float32's
            maximum. min_scale == init_scale == max_scale makes the scale static.
        hysteresis: the first `hysteresis` - 1 overflows skip their step but leave the scale; a clean update starts the
            count again (apex's rule).
        hysteresis_until_growth: True: only `growth_interval` clean updates in a row start the count again.
        max_consecutive_skips: after so many iterations in a row with an overflow, `update` raises DivergedError, which
            names the gradients. 0: no limit.
        skip_window: of the last so many iterations (2 to 4096; 0: off) ...
        max_skip_share: ... at most this share, in (0, 1), may overflow: else `update` raises DivergedError.
        strict: True also finds misuse that costs a hash table entry per gradient to find, such as a gradient in two
            optimizers. So does GSC_STRICT=1 in the environment.
        allow_fp16_grads: False refuses float16 gradients. Keep parameters in float32: unscaled float16 gradients
            underflow.
        comm: the ranks that train together, see `gradscaler.Comm`.
        on_event: called with an `Event` at every overflow and every change of the scale. It may read the scaler, not
            change it. An exception that it raises comes out of the scaler's call, which is complete by then.

    Raises:
        TypeError, ValueError: an argument of a wrong type, or out of its range.
        DeviceError: see `device`.

    >>> scaler = GradScaler(init_scale=4.0, growth_interval=2)
    >>> from array import array
    >>> gradients = [array("f", [8.0, float("inf")])]
    >>> scaler.step(gradients)
    >>> scaler.outcome(gradients)
    <Outcome.SKIPPED_OVERFLOW: 1>
    >>> scaler.overflows(gradients)
    [Overflow(index=0, name=None, inf_count=1, nan_count=0, first_index=1)]
    >>> scaler.update()
    >>> scaler.get_scale()
    2.0
    """

    def __init__(
        self,
        device: Any = "cpu",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        *,
        min_scale: float | None = None,
        max_scale: float | None = None,
        hysteresis: int = 1,
        hysteresis_until_growth: bool = False,
        max_consecutive_skips: int = 0,
        skip_window: int = 0,
        max_skip_share: float = 0.0,
        allow_fp16_grads: bool = False,
        strict: bool = False,
        comm: Comm | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        checks.require_cpu(device)
        if comm is not None and not callable(getattr(comm, "allreduce_max", None)):
            raise TypeError(f"comm is a {type(comm).__name__}, it must have a method allreduce_max(values)")
        if on_event is not None and not callable(on_event):
            raise TypeError(f"on_event is a {type(on_event).__name__}, it must be callable")
        self._enabled = checks.flag("enabled", False if enabled is None else enabled)
        self._options: dict[str, Any] = {
            "init_scale": checks.real("init_scale", init_scale),
            "growth_factor": checks.real("growth_factor", growth_factor),
            "backoff_factor": checks.real("backoff_factor", backoff_factor),
            "growth_interval": checks.integer("growth_interval", growth_interval),
            "enabled": self._enabled,
            "min_scale": None if min_scale is None else checks.real("min_scale", min_scale),
            "max_scale": None if max_scale is None else checks.real("max_scale", max_scale),
            "hysteresis": checks.integer("hysteresis", hysteresis, bits=32),
            "hysteresis_until_growth": checks.flag("hysteresis_until_growth", hysteresis_until_growth),
            "max_consecutive_skips": checks.integer("max_consecutive_skips", max_consecutive_skips),
            "skip_window": checks.integer("skip_window", skip_window, bits=32),
            "max_skip_share": checks.real("max_skip_share", max_skip_share),
            "allow_fp16_grads": checks.flag("allow_fp16_grads", allow_fp16_grads),
            "strict": checks.flag("strict", strict),
        }
        self._comm = comm
        self._on_event = on_event
        self._start()

    def _start(self) -> None:
        self._core = Scaler(
            allreduce_max=getattr(self._comm, "allreduce_max", None),
            allreduce_sum=getattr(self._comm, "allreduce_sum", None),
            allreduce_max64=getattr(self._comm, "allreduce_max64", None),
            observer=None if self._on_event is None else self._observer(self._on_event),
            **{**_LATER_OPTIONS, **self._options},
        )
        self._handles = Handles(self._core)
        self._is_strict = self._options.get("strict", False) or os.environ.get("GSC_STRICT") == "1"

    def _observer(
        self, on_event: Callable[[Event], object]
    ) -> Callable[[int, float, int, Handle | None, float], object]:
        # Weakly, since this scaler owns the core, which keeps the function.
        reference = weakref.ref(self)

        def observe(kind: int, scale: float, update: int, handle: Handle | None, scale_before: float) -> None:
            scaler = reference()
            if scaler is not None:
                optimizer = None if handle is None else scaler._handles.optimizer_of(handle)
                on_event(Event(EventKind(kind), scale, update, optimizer, scaler, scale_before))

        return observe

    def scale(self, outputs: _T) -> _T:
        """Multiplies a loss, or several, by the scale.

        Args:
            outputs: a tensor, a number, or an iterable of outputs, nested as you like. Lists, tuples and named tuples
                keep their type; other iterables become an iterator that scales when it is read. PyTorch tensors keep
                their autograd graph, and dtypes follow PyTorch's promotion: a float16 tensor stays float16, one of no
                dimensions becomes float32. NumPy arrays and scalars follow the same rule, with the product in float32
                (float64 for float64), rounded once; subclasses of NumPy's array keep their type, and masks. A Python
                number becomes a float (complex: a complex).

        Returns:
            New tensors in the same structure; `outputs` itself when disabled.

        Raises:
            ValueError: for anything else, such as a string or a dict.
            TypeError: inside a function that JAX compiles, into which the scale would be compiled for good.
        """
        if not self._enabled:
            return outputs
        result: _T = scaled(self._core, outputs)
        return result

    def unscale_(self, optimizer: Any) -> None:
        """Divides the optimizer's gradients by the scale, in place, and records whether some result is not finite.

        Optional: `step` does it if it was not done. Call it between the backward pass and `step`, once all
        gradients are accumulated, to look at the real gradients or to clip them:

            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()

        Each gradient keeps its dtype: the product with 1/scale is formed in float32 (float64 for float64) and rounded
        once. All elements are divided, also after an overflow. Changes made to the gradients afterwards are not
        checked again.

        Raises:
            RuntimeError: already unscaled or stepped since the last update.
            ValueError: a float16 gradient (see `allow_fp16_grads`), or one that is read-only or of another dtype; the
                message names it. Nothing is unscaled, and the optimizer stays ready; also after the errors below.
            NotImplementedError: a complex gradient.
            TypeError: not an optimizer, or a gradient that is no array, or a masked one of NumPy.
            DeviceError: a gradient that is not in host memory.
            CommError: the ranks do not agree.
        """
        if self._enabled:
            with self._core:
                handle = self._handles.find(optimizer)
                if self._core.get_stage(handle) != _READY:
                    self._core.unscale(handle, [], None)  # raises, before a sparse gradient is coalesced
            self._unscale(optimizer, self._gradients(optimizer))

    def _unscale(self, optimizer: Any, found: Gradients) -> None:
        with self._core:
            handle = self._handles.get(optimizer)
            try:
                self._core.unscale(handle, found.arrays, found.name)
                if found.groups:
                    self._agree(handle, found.groups)
            finally:
                if self._core.get_stage(handle) != _READY:
                    self._note_unscaled(handle, found.arrays)

    def _note_unscaled(self, handle: Handle, arrays: Any) -> None:
        if isinstance(arrays, list):  # an exception: they could not be had
            self._handles.note_unscaled(handle, arrays)
            note_written(arrays)

    def _agree(self, handle: Handle, groups: list[Any]) -> None:
        """An overflow in another rank's part of a DTensor counts here, too."""
        found_here = self._core.found_inf(handle)
        if found_on_any_rank(found_here, groups) and not found_here:
            self._core.rearm(handle)
            self._core.record(handle, True)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscales if that was not done, then calls `optimizer.step(*args, **kwargs)`, or skips it after an overflow.

        A subclass's own `unscale_` is called. A skipped step leaves parameters and optimizer state unchanged. PyTorch's
        fused optimizers get their gradients still scaled and divide on the fly. The optimizer's step may read an
        enabled scaler and call `scale`; calls that change the scaler raise RuntimeError there.

        Returns:
            What the optimizer returned; None for a skipped step, or a list of arrays. `outcome` tells which.

        Raises:
            RuntimeError: already stepped since the last update; or a closure while enabled: the gradients of a
                re-evaluation would never be unscaled.
            Whatever the optimizer raises: the gradients are unscaled then, and `step` may be called again.
            All that `unscale_` raises.
        """
        if self._enabled and ("closure" in kwargs or (args and callable(args[0]))):
            raise RuntimeError(
                "step: a closure is not supported while the scaler is enabled; the gradients of a re-evaluation would "
                "never be unscaled"
            )
        step = optimizers.stepper(optimizer, args, kwargs)
        if not self._enabled:
            return self._call_step(optimizer, [], None, step, None)
        if step is None or not optimizers.is_scale_aware(optimizer):
            if self._overrides_unscale() and self._stage(optimizer) == _READY:
                self.unscale_(optimizer)
            return self._take_step(optimizer, step, None)
        if optimizers.takes_scaler(optimizer):
            return self._step_with_scaler(optimizer, args, kwargs)
        return self._take_step(
            optimizer,
            lambda: optimizers.step_with_scale(optimizer, step, None),
            lambda _: self._step_scaled(optimizer, step),
        )

    def _overrides_unscale(self) -> bool:
        """Whether `unscale_` is that of a subclass, or was replaced in this object."""
        return getattr(self.unscale_, "__func__", None) is not GradScaler.unscale_

    def _stage(self, optimizer: Any) -> int:
        return self._core.get_stage(self._handles.find(optimizer))

    def _take_step(
        self, optimizer: Any, step: Callable[[], Any] | None, step_scaled: Callable[[float], Any] | None
    ) -> Any:
        stage = self._stage(optimizer)
        if stage != _READY:
            if stage == _UNSCALED:
                self._warn_of_new_gradients(optimizer, "step", stacklevel=4)
            found = self._to_compare(optimizer)
            with self._core:
                handle = self._handles.find(optimizer)
                if self._core.get_stage(handle) != _READY:
                    return self._take_unscaled_step(optimizer, handle, found, step, step_scaled)
        found = self._gradients(optimizer)
        if found.groups:
            self._unscale(optimizer, found)
            with self._core:
                return self._take_unscaled_step(optimizer, self._handles.get(optimizer), _NO_GRADIENTS, step, None)
        arrays = found.arrays
        if step_scaled is not None:  # gradients stay as they are
            step = optimizers.dropping_references(arrays, step)
            step_scaled = optimizers.dropping_references(arrays, step_scaled)
            return self._call_step(optimizer, arrays, found.name, step, step_scaled)
        try:
            value = self._call_step(
                optimizer, arrays, found.name, optimizers.dropping_references(arrays, step, note_written), None
            )
        except BaseException:
            self._note_failure(optimizer, arrays)
            raise
        note_written(arrays)  # the step was not called, or this is a list
        return value

    def _take_unscaled_step(
        self,
        optimizer: Any,
        handle: Handle,
        found: Gradients,
        step: Callable[[], Any] | None,
        step_scaled: Callable[[float], Any] | None,
    ) -> Any:
        """Inside `with self._core`. The gradients that were unscaled are released before the optimizer's step, and
        held again if it fails."""
        held = self._handles.held_arrays(handle)
        step = optimizers.dropping_references(held, step)
        if found.arrays:
            step = optimizers.dropping_references(found.arrays, step)
        try:
            value = self._core.step(handle, found.arrays, found.name, step, step_scaled, 0.0, 2.0)
        except BaseException:
            if self._core.get_stage(handle) != _UNSCALED:
                self._handles.release(handle)
            elif not held:  # the step was called
                self._hold_anew(optimizer, handle)
            raise
        self._handles.release(handle)
        return value

    def _hold_anew(self, optimizer: Any, handle: Handle) -> None:
        """After a step that failed: the gradients as they are now."""
        with contextlib.suppress(Exception):  # that of the step comes first
            self._handles.hold(handle, optimizers.gradients(optimizer, False, False).arrays)

    def _to_compare(self, optimizer: Any) -> Gradients:
        """The gradients, where the core compares them with those that were unscaled: in strict mode, and after a step
        that failed. Else none: they may be whatever the user has made of them."""
        if self._is_strict or self._handles.has_failed(optimizer):
            return self._gradients(optimizer)
        return _NO_GRADIENTS

    def _note_failure(self, optimizer: Any, arrays: Any) -> None:
        """After a step that failed, or was refused. `arrays` is empty if the optimizer's step was called."""
        if self._stage(optimizer) == _UNSCALED:
            if isinstance(arrays, list):
                note_written(arrays)
            handle = self._handles.find(optimizer)
            self._handles.note_failure(handle)
            self._hold_anew(optimizer, handle)
            with contextlib.suppress(Exception):  # that of the step comes first
                self._handles.note_present(handle, optimizers.present(optimizer))

    def _warn_of_new_gradients(self, optimizer: Any, function: str, stacklevel: int) -> None:
        new = self._handles.new_gradients(self._handles.find(optimizer), optimizers.present(optimizer))
        if new:
            more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
            warnings.warn(
                f"{function}: {optimizers.describe(optimizer, new[0])}{more} was absent when the others were unscaled, "
                "and is there now: it is used as it is; if it comes from backward, it is still scaled. Call "
                "unscale_ after the last backward pass",
                RuntimeWarning,
                stacklevel=stacklevel,
            )

    def _call_step(self, optimizer: Any, grads: Any, name: Any, step: Any, step_scaled: Any) -> Any:
        with self._core:
            handle = self._handles.get(optimizer)
            value = self._core.step(handle, grads, name, step, step_scaled, 0.0, 2.0)
            self._handles.release(handle)
            return value

    def _step_scaled(self, optimizer: Any, step: Callable[[], Any]) -> Any:
        self._handles.mark_unfinished()  # the optimizer was checked, but is ready again if its step fails
        return optimizers.step_with_scale(optimizer, step, self._core.get_scale())

    def _step_with_scaler(self, optimizer: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """PyTorch's older protocol: the optimizer's step gets the scaler, and may unscale with it."""
        value = None
        if self._stage(optimizer) != _STEPPED:
            warnings.warn(
                "an optimizer whose step() takes grad_scaler is served for now; read the attributes grad_scale and "
                "found_inf of the optimizer instead",
                FutureWarning,
                stacklevel=3,
            )
            value = optimizer.step(*args, **{**kwargs, "grad_scaler": self})
        self._call_step(optimizer, [], None, None, None)
        return value

    def _gradients(self, optimizer: Any, sums: bool = False) -> Gradients:
        """The gradients. With ranks, an exception is returned in place of their list: the core tells the other ranks
        before it is raised. Then the ranks also agree through the core, and not through the groups of DTensors."""
        try:
            found = optimizers.gradients(optimizer, sums, self._options["allow_fp16_grads"])
        except Exception as error:
            if self._comm is None:
                raise
            return Gradients(error, None, [])
        return found if self._comm is None else found._replace(groups=[])

    def update(self, new_scale: Any = None) -> None:
        """Ends the iteration: adapts the scale, and makes every optimizer ready.

        After an overflow in any optimizer, the scale is multiplied by `backoff_factor`. After `growth_interval`
        updates in a row without one, it is multiplied by `growth_factor`. Iterations without any gradient do not
        count.

        Args:
            new_scale: the new scale instead: a number, or a tensor of one element that requires no gradient (its value
                is copied). The count of clean updates is kept, a pending overflow is forgotten.

        Raises:
            RuntimeError: no optimizer was unscaled, recorded, stepped or skipped since the last update.
            ValueError, TypeError: a `new_scale` outside [min_scale, max_scale], or of another kind.
            DivergedError: `max_consecutive_skips` iterations in a row have overflowed, or more than `max_skip_share`
                of the last `skip_window` ones. The update was made.
        """
        scale = None if new_scale is None else checks.real("new_scale", new_scale)
        with self._core:
            updates = self._core.stats()[0]
            try:
                if scale is None:
                    self._core.update()
                else:
                    self._core.update_to(scale)
            finally:
                if not self._enabled or self._core.stats()[0] != updates:
                    self._handles.end_iteration()

    def clip_grad_norm_(self, optimizer: Any, max_norm: float, norm_type: float = 2.0) -> float:
        """Unscales if that was not done, then scales the gradients down so that their total norm is at most `max_norm`.

        The norm is (sum of abs(x)**norm_type)**(1/norm_type), in float64; the factor max_norm / (norm + 1e-6), applied
        where it is < 1 (as torch.nn.utils.clip_grad_norm_). A norm that is not finite leaves the gradients alone.

        Args:
            max_norm: >= 0, infinity allowed.
            norm_type: > 0, infinity for the largest magnitude.

        Returns:
            The total norm before clipping. A disabled scaler clips too.

        Raises:
            RuntimeError: the optimizer has stepped since the last update.
            All that `unscale_` raises.
        """
        max_norm, norm_type = checks.real("max_norm", max_norm), checks.real("norm_type", norm_type)
        clip_list([], max_norm, norm_type, None)  # raises for bad numbers, before a sparse gradient is coalesced
        stage = self._stage(optimizer)
        if stage == _STEPPED:
            with self._core:
                self._core.clip_grad_norm(
                    self._handles.get(optimizer), [], None, max_norm, norm_type
                )  # raises, likewise
        if stage == _UNSCALED:
            self._warn_of_new_gradients(optimizer, "clip_grad_norm_", stacklevel=3)
        found = self._gradients(optimizer, sums=True)
        if found.groups:
            raise NotImplementedError(
                "clip_grad_norm_: the gradients are DTensors, split among ranks whose norms are not summed here; call "
                "unscale_ and torch.nn.utils.clip_grad_norm_, or give GradScaler(comm=...)"
            )
        return self._clip(optimizer, found, max_norm, norm_type)

    def _clip(self, optimizer: Any, found: Gradients, max_norm: float, norm_type: float) -> float:
        with self._core:
            handle = self._handles.get(optimizer)
            was_ready = self._core.get_stage(handle) == _READY
            try:
                norm = self._core.clip_grad_norm(handle, found.arrays, found.name, max_norm, norm_type)
            finally:
                if was_ready and self._core.get_stage(handle) != _READY:
                    self._note_unscaled(handle, found.arrays)
            note_written(found.arrays)
            return norm

    def record(self, optimizer: Any, found_inf: bool) -> None:
        """For gradients that you have unscaled and checked yourself: records the result, as `unscale_` does.

        `optimizer` may be any object: its gradients are not read. Raises RuntimeError as `unscale_` does.
        """
        if self._enabled:
            found_inf = bool(found_inf)
            with self._core:
                handle = self._handles.get(optimizer)
                self._core.record(handle, found_inf)
                self._handles.note_present(handle, None)

    def skip(self, optimizer: Any) -> None:
        """Your own skip: the optimizer counts as stepped, without a step.

        If it is skipped before it is unscaled, it counts neither for nor against growth. Raises RuntimeError if it has
        stepped already.
        """
        if self._enabled:
            with self._core:
                handle = self._handles.get(optimizer)
                self._core.skip(handle)
                self._handles.release(handle)

    def rearm(self, optimizer: Any) -> None:
        """Makes the optimizer ready again within an iteration, for a second backward pass as in SAM.

        An overflow seen so far still counts at `update`.
        """
        if self._enabled:
            with self._core:
                handle = self._handles.get(optimizer)
                self._handles.mark_if_open(handle)
                self._core.rearm(handle)
                self._handles.release(handle)

    def outcome(self, optimizer: Any) -> Outcome:
        """What became of the optimizer's last step. RuntimeError if there was none.

        Inside `on_event` or the optimizer's own step, that is the step before the one under way.

        The outcome of a list of arrays is known until `update`; of other optimizers until their next step. Any object
        that allows no weak reference counts as a list: one whose class has `__slots__` without `__weakref__`.
        """
        return self.result(optimizer).outcome

    def result(self, optimizer: Any) -> StepResult:
        """The outcome of the optimizer's last step, the scale that its gradients carried, and how large they were.

        It is known as long as `outcome` is. A skipped step of your own (`skip`) is none."""
        outcome, _, max_abs, scale = self._core.result(self._handles.find(optimizer))
        return StepResult(Outcome(outcome), scale, max_abs)

    def found_inf(self, optimizer: Any) -> bool:
        """Whether the optimizer's gradients overflowed since the last update, on any rank."""
        return self._core.found_inf(self._handles.find(optimizer))

    def overflows(self, optimizer: Any) -> list[Overflow]:
        """Which gradients the optimizer's last overflow was in, on this rank; [] if it had none.

        An overflow now and then is normal, above all in the first iterations, while the scale is still too large.
        NaNs without infinities, time after time, point to the model or the data instead.
        """
        return [Overflow(*entry) for entry in self._core.overflows(self._handles.find(optimizer))]

    @property
    def stats(self) -> Stats:
        """Counters since this scaler was created. They are not part of the state dict."""
        return Stats(*self._core.stats())

    def get_scale(self) -> float:
        """The current scale; 1.0 when disabled."""
        return self._core.get_scale()

    def _get_scale_async(self) -> Any:
        """The scale as PyTorch's own scaler keeps it: a float32 tensor of no dimensions, a float without PyTorch; None
        when disabled. Programs for PyTorch's scaler use this name and `_scale`; `get_scale` is the public one."""
        return optimizers.scalar(self._core.get_scale()) if self._enabled else None

    _scale = CurrentScale(_get_scale_async)

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._core.get_growth_factor()

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale grows; > 1, else ValueError."""
        self._core.set_growth_factor(checks.real("growth_factor", new_factor))

    def get_backoff_factor(self) -> float:
        """The factor by which the scale backs off."""
        return self._core.get_backoff_factor()

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale backs off; in (0, 1), else ValueError."""
        self._core.set_backoff_factor(checks.real("backoff_factor", new_factor))

    def get_growth_interval(self) -> int:
        """How many updates in a row without overflow make the scale grow."""
        return self._core.get_growth_interval()

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets how many updates in a row without overflow make the scale grow; >= 1, else ValueError."""
        self._core.set_growth_interval(checks.integer("growth_interval", new_interval))

    def is_enabled(self) -> bool:
        """Whether the scaler is enabled. It never disables itself."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The state to save with a checkpoint; {} when disabled. Call it after `update`.

        It has PyTorch's five entries: "scale", "growth_factor", "backoff_factor" (floats), "growth_interval" and
        "_growth_tracker" (ints; the latter counts clean updates since the last change). "min_scale", "max_scale",
        "hysteresis", "hysteresis_tracker" and "consecutive_skips" are added where they are not at their default, the
        last two thus after an overflow. The library writes the same entries as JSON.
        """
        return state.to_dict(self._core.state())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state: this class's, PyTorch's, or lucid's (whose entry is "growth_tracker"). All or nothing.

        Where an entry beyond PyTorch's five is missing, the scaler keeps its own value. Unknown entries are ignored. A
        disabled scaler checks the state, then ignores it.

        Raises:
            RuntimeError: an iteration is under way; or the state is empty, as that of a disabled scaler is.
            KeyError, ValueError, TypeError: an entry is missing, out of its range, or not a number.
        """
        fields = state.from_dict(state_dict)
        with self._core:
            if self._handles.iteration_is_open():
                raise RuntimeError(
                    "load_state_dict: an iteration is under way, whose gradients belong to the scale as it is; load "
                    "after update(), before the next unscale_() or step()"
                )
            self._core.load_state(fields)
            self._handles.end_iteration()

    def __getstate__(self) -> dict[str, Any]:
        with self._core:
            return self._saved()

    def _saved(self) -> dict[str, Any]:
        if self._handles.iteration_is_open():
            raise RuntimeError(
                "a GradScaler can be pickled or copied between iterations only: after update(), before the next "
                "unscale_() or step()"
            )
        saved = {key: value for key, value in self.__dict__.items() if key not in ("_core", "_handles", "_is_strict")}
        saved.update((key, getattr(self, key)) for key in self._slots() if hasattr(self, key))
        saved["_options"] = dict(
            self._options,
            growth_factor=self.get_growth_factor(),
            backoff_factor=self.get_backoff_factor(),
            growth_interval=self.get_growth_interval(),
        )
        saved["_state"] = self._core.state()
        return saved

    def _slots(self) -> list[str]:
        """The attributes that subclasses keep in `__slots__`."""
        return [
            key for cls in type(self).__mro__ for key, member in vars(cls).items() if inspect.ismemberdescriptor(member)
        ]

    def __setstate__(self, saved: dict[str, Any]) -> None:
        saved = dict(saved)
        fields = saved.pop("_state")
        for key, value in saved.items():
            object.__setattr__(self, key, value)
        self._start()
        self._core.load_state(fields)

    def __deepcopy__(self, memo: dict[int, Any]) -> GradScaler:
        """An independent scaler of the same state. comm and on_event are shared, not copied; but a bound method of an
        object that is being copied too, such as this scaler, becomes the copy's method."""
        saved = self.__getstate__()
        clone = type(self).__new__(type(self))
        memo[id(self)] = clone
        for shared in (self._comm, self._on_event):
            if id(getattr(shared, "__self__", None)) not in memo:
                memo[id(shared)] = shared
        clone.__setstate__(copy.deepcopy(saved, memo))
        return clone

    def __repr__(self) -> str:
        enabled = "" if self._enabled else ", enabled=False"
        return (
            f"{type(self).__name__}(scale={self.get_scale()!r}, growth_factor={self.get_growth_factor()!r}, "
            f"backoff_factor={self.get_backoff_factor()!r}, growth_interval={self.get_growth_interval()}{enabled})"
        )
