# SPDX-License-Identifier: Apache-2.0
"""Optimizers as a scaler sees them: their gradients, the gradients' names, their step.

There are three kinds: objects with `param_groups` (PyTorch's and those like them), objects with `grads()`, and plain
lists of arrays, which have no step of their own."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Callable, NamedTuple

from .arrays import expose, torch_parameter_type, torch_tensor_type

_EXPECTED = (
    "expected an optimizer with param_groups and step(), an object with grads() and step(), "
    "or a list of gradient arrays; got {}"
)
_PASS_TO_CLIP = "; pass the optimizer: clip_grad_norm_(optimizer, max_norm)"  # not its parameters


class Gradients(NamedTuple):
    """The gradients of an optimizer, for one call of the core."""

    arrays: Any
    """A list in their order, None where a parameter has none; or why there are none."""
    name: Callable[[int], str | None] | None
    """From a gradient's index to its name; None if the gradients have no names."""
    groups: list[Any]
    """The process groups of the ranks among which PyTorch's DTensors are split; [] mostly."""


def gradients(optimizer: Any, sums: bool, half_sums: bool) -> Gradients:
    """The gradients. Raises TypeError if it is no optimizer.

    A sparse gradient may list an element several times. sums: these must be summed first, as for a norm; half_sums:
    those of float16 must, because their sum may overflow."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is not None:
        parameters = _parameters(groups)
        found = _gradients_of_groups(groups, parameters, sums, half_sums)
        return Gradients(found, _namer(optimizer, list(map(len, parameters))), expose(found))
    found = _listed_gradients(optimizer, clips=sums)
    _check_parameters(found, clips=sums and isinstance(optimizer, (list, tuple)))
    _check_sums(found, sums, half_sums)
    return Gradients(found, _namer(optimizer, []), expose(found))


def present(optimizer: Any) -> list[bool] | None:
    """Which gradients are there now. None for an object with `grads()`, which is asked once an iteration."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is not None:
        return [parameter.grad is not None for members in _parameters(groups) for parameter in members]
    if callable(getattr(optimizer, "grads", None)):
        return None
    return [gradient is not None for gradient in _listed_gradients(optimizer)]


def describe(optimizer: Any, index: int) -> str:
    """A gradient, as messages call it."""
    groups = getattr(optimizer, "param_groups", None)
    name = _namer(optimizer, [] if groups is None else list(map(len, _parameters(groups))))
    text = None if name is None else name(index)
    return f"gradient {index}" if text is None else f'gradient {index} ("{text}")'


def _listed_gradients(optimizer: Any, clips: bool = False) -> list[Any]:
    if callable(getattr(optimizer, "grads", None)):
        return _listed(optimizer.grads())
    if isinstance(optimizer, (list, tuple)):
        return list(optimizer)
    raise _not_an_optimizer(optimizer, clips=clips)


def _not_an_optimizer(value: Any, lacks: str = "", clips: bool = False) -> TypeError:
    """The exception for a value that is none of the three kinds. It says what to pass instead, if `value` tells."""
    return TypeError(_EXPECTED.format(type(value).__name__ + lacks) + _advice(value, clips))


def _advice(value: Any, clips: bool) -> str:
    if isinstance(value, Mapping):
        return "; keep grads = list(d.values()) and pass that list each time"
    if _is_array(value):
        return "; pass [array]"
    if clips and isinstance(value, Iterable):
        return _PASS_TO_CLIP
    return ""


def _is_array(value: Any) -> bool:
    try:
        return hasattr(value, "__dlpack__") or memoryview(value).format not in ("B", "b", "c")
    except TypeError:
        return False


def _listed(grads: Any) -> list[Any]:
    if isinstance(grads, Mapping) or not isinstance(grads, Iterable):
        raise TypeError(f"grads() returned a {type(grads).__name__}, it must return a list of arrays and None")
    return list(grads)


def _parameters(groups: Any) -> list[list[Any]]:
    """The parameters of each group. An iterator of parameters is read here, once."""
    try:
        return [list(group["params"]) for group in groups]
    except (TypeError, LookupError) as error:
        raise TypeError(
            f"param_groups (a {type(groups).__name__}) must be a list of dicts, each with a list 'params'"
        ) from error


def _gradients_of_groups(groups: Any, parameters: list[list[Any]], sums: bool, half_sums: bool) -> list[Any]:
    try:
        found = [parameter.grad for members in parameters for parameter in members]
    except AttributeError:
        for index, parameter in enumerate(itertools.chain(*parameters)):
            if not hasattr(parameter, "grad"):
                where = _names_in_groups(groups, list(map(len, parameters)))[index]
                raise TypeError(f"{where} is a {type(parameter).__name__}, which has no attribute grad") from None
        raise
    if sums or half_sums:
        holders = list(itertools.chain(*parameters))
        for index in _with_duplicates(found, sums):
            holders[index].grad = found[index] = found[index].coalesce()
    return found


def _check_parameters(found: list[Any], clips: bool) -> None:
    advice = _PASS_TO_CLIP if clips else "; pass gradients: [p.grad for p in parameters]"
    parameter_type = torch_parameter_type()
    for index, gradient in enumerate(found):
        if parameter_type is not None and type(gradient) is parameter_type:
            raise TypeError(f"gradient {index} is a parameter{advice}")


def _check_sums(found: list[Any], sums: bool, half_sums: bool) -> None:
    if sums or half_sums:
        for index in _with_duplicates(found, sums):
            raise ValueError(f"gradient {index} is sparse with duplicates not yet summed; coalesce() it first")


def _with_duplicates(found: list[Any], every: bool) -> list[int]:
    """The indices of sparse gradients with duplicates not yet summed; only of float16 ones unless `every`."""
    tensor_type = torch_tensor_type()
    if tensor_type is None:
        return []
    half = getattr(sys.modules["torch"], "float16", None)
    return [
        index
        for index, gradient in enumerate(found)
        if isinstance(gradient, tensor_type)
        and gradient.is_sparse
        and (every or gradient.dtype is half)
        and not gradient.is_coalesced()
    ]


def _namer(optimizer: Any, sizes: list[int]) -> _Names | None:
    """sizes: how many parameters each group has; an iterator of parameters cannot be counted again."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is not None:
        return _Names(lambda: _names_in_groups(groups, sizes))
    return _Names(lambda: list(optimizer.names())) if callable(getattr(optimizer, "names", None)) else None


class _Names:
    """A function from a gradient's index to its name. It lists the names when it is first called."""

    def __init__(self, make: Callable[[], list[Any]]) -> None:
        self._make = make
        self._names: list[Any] | None = None

    def __call__(self, index: int) -> str | None:
        if self._names is None:
            self._names = self._make()
        return None if index >= len(self._names) or self._names[index] is None else str(self._names[index])


def _names_in_groups(groups: Any, sizes: list[int]) -> list[str]:
    names: list[str] = []
    for number, (group, size) in enumerate(zip(groups, sizes)):
        listed = group.get("param_names")
        given = listed if isinstance(listed, (list, tuple)) else ()
        for index in range(size):  # a parameter that was appended later has no name
            name = given[index] if index < len(given) else None
            names.append(f"param_groups[{number}]['params'][{index}]" if name is None else name)
    return names


def stepper(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """A function of no arguments that takes the optimizer's step; None for a list of arrays, which has none."""
    step = getattr(optimizer, "step", None)
    if callable(step):
        return functools.partial(step, *args, **kwargs) if args or kwargs else step
    if isinstance(optimizer, (list, tuple)):
        if args or kwargs:
            raise TypeError("a list of arrays has no step of its own, so that it takes no further arguments")
        return None
    raise _not_an_optimizer(optimizer, lacks=", which has no step()")


def dropping_references(
    grads: Any, step: Callable[..., Any] | None, before: Callable[[Any], object] | None = None
) -> Callable[..., Any] | None:
    """The step, preceded by `before(grads)` and by clearing the list `grads`. NumPy's resize() refuses arrays with
    further references, and memory that the step frees must not be kept."""
    if step is None:
        return None

    def take(*multiplier: float) -> Any:
        if before is not None:
            before(grads)
        grads.clear()
        return step(*multiplier)

    return take


def is_scale_aware(optimizer: Any) -> bool:
    """Whether its step divides by the scale itself, as PyTorch's fused optimizers do."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def takes_scaler(optimizer: Any) -> bool:
    """Whether its step takes the scaler as an argument (PyTorch's older protocol)."""
    return "grad_scaler" in inspect.signature(optimizer.step).parameters


def step_with_scale(optimizer: Any, step: Callable[[], Any], scale: float | None) -> Any:
    """Calls the step of a scale-aware optimizer. It reads `grad_scale` (None: the gradients are unscaled) and
    `found_inf` (always 0: it is not called after an overflow). A `grad_scale` of the user's is a further divisor, and
    stays.

    Source: torch/amp/grad_scaler.py, GradScaler.step."""
    missing = object()
    preset = getattr(optimizer, "grad_scale", missing)
    if scale is None:
        optimizer.grad_scale = None if preset is missing else preset
    else:
        optimizer.grad_scale = scalar(scale) if preset is missing or preset is None else scalar(scale) * preset
    optimizer.found_inf = scalar(0.0)
    try:
        return step()
    finally:
        del optimizer.found_inf
        if preset is missing:
            del optimizer.grad_scale
        else:
            optimizer.grad_scale = preset


def scalar(value: float) -> Any:
    """`value` as a float32 tensor of no dimensions if torch is imported, else itself."""
    full = getattr(sys.modules.get("torch"), "full", None)
    if torch_tensor_type() is None or full is None:  # None: another thread is importing it
        return value
    torch = sys.modules["torch"]
    return full((), value, dtype=torch.float32, device="cpu")
