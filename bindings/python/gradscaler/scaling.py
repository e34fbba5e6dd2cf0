# SPDX-License-Identifier: Apache-2.0
"""scale(): multiplies numbers, tensors, and nested structures of them, by the scale."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from numbers import Complex, Real
from typing import Any

from . import checks
from ._core import Scaler
from .arrays import is_buffer, is_numpy, is_tensor, torch_tensor_type
from .tracing import is_compiled


def scaled(core: Scaler, outputs: Any) -> Any:
    """`outputs` times the scale, in the same structure."""
    tensor_type = torch_tensor_type()
    if tensor_type is not None and isinstance(outputs, tensor_type):
        torch = sys.modules["torch"]
        return outputs * torch.full((), core.get_scale(), dtype=torch.float32, device=outputs.device)
    if is_numpy(outputs):
        return _scaled_numpy(core, outputs)
    if is_compiled(outputs):
        raise TypeError(
            "scale: JAX is compiling this function (jit, scan, ...), and would compile the scale of today into it for "
            "good; pass get_scale() to the function as an argument and multiply by that, or call scale outside of it"
        )
    if is_tensor(outputs):
        return outputs * core.get_scale()
    if isinstance(outputs, Complex) and not isinstance(outputs, bool):
        return _scaled_number(core, outputs)
    if isinstance(outputs, (str, Mapping)) or not isinstance(outputs, Iterable) or is_buffer(outputs):
        hint = "; pass its values()" if isinstance(outputs, Mapping) else ""
        raise ValueError(
            f"outputs must be a tensor, a number or an iterable of these, got {type(outputs).__name__}{hint}"
        )
    parts = map(functools.partial(scaled, core), outputs)
    if isinstance(outputs, (list, tuple)):
        return outputs._make(parts) if hasattr(outputs, "_make") else type(outputs)(parts)
    return parts


def _scaled_number(core: Scaler, number: Any) -> Any:
    """A float, or a complex for one."""
    return (checks.real("outputs", number) if isinstance(number, Real) else complex(number)) * core.get_scale()


def _scaled_numpy(core: Scaler, outputs: Any) -> Any:
    """Dtypes follow PyTorch: integers become float32, and so do half-precision arrays of no dimensions."""
    numpy = sys.modules["numpy"]
    dtype, is_half = outputs.dtype, outputs.dtype.name in ("float16", "bfloat16")
    if dtype.kind == "c":
        return outputs * numpy.float32(core.get_scale())
    if dtype.kind in "biu":
        outputs = outputs.astype(numpy.float32)
        dtype = outputs.dtype
    elif dtype.kind != "f" and not is_half:
        raise ValueError(f"outputs must be an array of numbers, got dtype {dtype}")
    elif is_half and outputs.ndim == 0:
        dtype = numpy.dtype(numpy.float32)
    if not isinstance(outputs, numpy.generic) and type(outputs) is not numpy.ndarray:
        return _scaled_subclass(core, outputs, dtype)
    product = numpy.empty(outputs.shape, dtype)
    core.scale(numpy.asarray(outputs), product)
    return product[()] if isinstance(outputs, numpy.generic) else product


def _scaled_subclass(core: Scaler, outputs: Any, dtype: Any) -> Any:
    """The same numbers, computed with the array's own operators: a subclass may have a mask or a unit."""
    numpy = sys.modules["numpy"]
    factor = (numpy.float64 if dtype == numpy.float64 else numpy.float32)(core.get_scale())
    with numpy.errstate(over="ignore"):  # the core does not warn either
        return (outputs.astype(factor.dtype, copy=False) * factor).astype(dtype, copy=False)
