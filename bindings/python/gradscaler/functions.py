# SPDX-License-Identifier: Apache-2.0
"""The scaler's loops without a scaler.

`arrays` is one array, or an iterable of arrays in which None entries are passed over. Arrays live in host memory, hold
float32, float64, float16 or bfloat16, have any shape and any strides, and support DLPack or the buffer protocol: NumPy,
PyTorch, array.array, ml_dtypes' bfloat16. They are changed in place, never copied, and PyTorch's autograd is told. All
checks come before the first change. All functions raise ValueError (dtype, layout, a bad number; a read-only array to
be changed), TypeError (not an array; a masked array of NumPy), NotImplementedError (complex; a DTensor that is split
among ranks), DeviceError."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _core
from .arrays import expose, is_buffer, is_tensor, note_written, torch_parameter_type, torch_tensor_type
from .checks import real
from .results import GradStatistics

_LEAST_EXPONENT = -150


def unscale_grads(arrays: Any | Iterable[Any], scale: float) -> bool:
    """Divides every element by `scale`, in place; returns whether some result is infinite or NaN.

    The product with 1/scale is formed in float32 (float64 for float64) and rounded once to the array's dtype. A scale
    of 1 leaves every bit. `scale` is a normal float32 number > 0.

    >>> from array import array
    >>> grad = array("f", [512.0, 1024.0])
    >>> unscale_grads([grad, None], 512.0)
    False
    >>> grad
    array('f', [1.0, 2.0])
    """
    gradients = _as_list(arrays)
    found_inf = _core.unscale_grads(gradients, real("scale", scale), None)
    note_written(gradients)
    return found_inf


def unscale_grads_to(arrays: Any | Iterable[Any], out: Any | Iterable[Any], scale: float) -> bool:
    """Writes every element divided by `scale` to `out`; returns whether some result is infinite or NaN.

    For float16 gradients, which would lose small values in place: `out` holds arrays of the same shapes, each of the
    gradient's dtype, or of float32 or float64 wider than it. One pass, rounded once, to the dtype of `out`. An entry
    that is None in either is passed over. `out` shares no element with another array of the call, but may be the
    gradient itself. `scale` is a normal float32 number > 0.

    >>> from array import array
    >>> grad, master = array("f", [1.0, 2.0]), array("d", [0.0, 0.0])
    >>> unscale_grads_to([grad], [master], 1024.0)
    False
    >>> master
    array('d', [0.0009765625, 0.001953125])
    """
    gradients, results = _as_list(arrays), _as_list(out)
    if len(gradients) != len(results):
        raise ValueError(
            f"unscale_grads_to: out has {len(results)} arrays and arrays {len(gradients)}; give equally many"
        )
    found_inf = _core.unscale_grads_to(gradients, results, real("scale", scale))
    note_written(results)
    return found_inf


def check_grads(arrays: Any | Iterable[Any]) -> bool:
    """Whether some element is infinite or NaN.

    >>> from array import array
    >>> check_grads([array("f", [1.0, 2.0]), array("d", [float("inf")])])
    True
    """
    return _core.check_grads(_as_list(arrays), None)


def grad_norm(arrays: Any | Iterable[Any], norm_type: float = 2.0) -> float:
    """The norm of all elements together: (sum of abs(x)**norm_type)**(1/norm_type).

    In float64 whatever the dtype. `norm_type` > 0, or infinity for the largest magnitude. NaN if any element is NaN,
    0.0 without elements.

    >>> from array import array
    >>> grad_norm([array("f", [3.0]), array("f", [4.0])])
    5.0
    """
    return _core.grad_norm(_as_list(arrays), real("norm_type", norm_type), None)


def clip_grad_norm_(arrays: Any | Iterable[Any], max_norm: float, norm_type: float = 2.0) -> float:
    """Scales all arrays down, in place, so that their total norm is at most `max_norm`; returns the norm before.

    `arrays` are the gradients, not the parameters: `[p.grad for p in model.parameters()]`. The factor is
    max_norm / (norm + 1e-6), applied where it is < 1 (as torch.nn.utils.clip_grad_norm_). `max_norm` >= 0, infinity
    allowed. A norm that is not finite leaves the arrays alone.

    >>> from array import array
    >>> grad = array("d", [3.0, 4.0])
    >>> clip_grad_norm_(grad, max_norm=1.0)
    5.0
    >>> [round(x, 5) for x in grad]
    [0.6, 0.8]
    """
    gradients = _as_list(arrays)
    norm = _core.clip_grad_norm(gradients, real("max_norm", max_norm), real("norm_type", norm_type), None)
    note_written(gradients)
    return norm


def clip_grad_value_(arrays: Any | Iterable[Any], clip_value: float) -> None:
    """Clamps every element to [-clip_value, clip_value], in place. NaN stays NaN. `clip_value` >= 0.

    >>> from array import array
    >>> grad = array("f", [-3.0, 0.5])
    >>> clip_grad_value_(grad, 1.0)
    >>> grad
    array('f', [-1.0, 0.5])
    """
    gradients = _as_list(arrays)
    _core.clip_grad_value(gradients, real("clip_value", clip_value), None)
    note_written(gradients)


def grad_statistics(array: Any) -> GradStatistics:
    """Counts zeros, infinities, NaNs and binary exponents of one array, and finds its smallest and largest magnitude.

    Tells how far a gradient is from underflow: float16 loses what is below 2**-24, so that `exponents` shows by how
    much a scale has to lift it.

    >>> from array import array
    >>> stats = grad_statistics(array("f", [0.0, 1.0, 1.5, 0.25, float("nan")]))
    >>> stats.zeros, stats.nans, stats.exponents
    (1, 1, {-2: 1, 0: 2})
    """
    (gradient,) = _exposed([array])
    count, zeros, infs, nans, min_abs, max_abs, histogram = _core.grad_statistics(gradient)
    exponents = {place + _LEAST_EXPONENT: n for place, n in enumerate(histogram) if n}
    return GradStatistics(count, zeros, infs, nans, min_abs, max_abs, exponents)


def _as_list(arrays: Any) -> list[Any]:
    """A list of arrays. One array becomes a list of one: a matrix is not its rows."""
    if is_tensor(arrays) or is_buffer(arrays):
        arrays = [arrays]
    elif not isinstance(arrays, Iterable):
        raise TypeError(f"expected an array or an iterable of arrays, got {type(arrays).__name__}")
    return _exposed(list(arrays))


def _exposed(arrays: list[Any]) -> list[Any]:
    """The arrays as the core can borrow them. Refuses PyTorch tensors that are easily passed by mistake."""
    tensor_type = torch_tensor_type()
    if tensor_type is None:
        return arrays
    parameter_type = torch_parameter_type()
    for index, array in enumerate(arrays):
        if not isinstance(array, tensor_type):
            continue
        if type(array) is not tensor_type and parameter_type is not None and isinstance(array, parameter_type):
            raise TypeError(f"array {index} is a parameter; pass gradients: [p.grad for p in parameters]")
        if array.is_sparse and not array.is_coalesced():
            raise ValueError(f"array {index} is sparse with duplicates not yet summed; call its coalesce() first")
    if expose(arrays):
        raise NotImplementedError(
            "an array is a DTensor that is split among ranks, whose parts are not put together here; pass to_local() "
            "for this rank's part alone"
        )
    return arrays
