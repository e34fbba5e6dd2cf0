# SPDX-License-Identifier: Apache-2.0
"""The operations on arrays that the sequences need: NumPy here, PyTorch in arrays_torch.py. Bits are written in hex."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import ml_dtypes
import numpy

BFLOAT16 = numpy.dtype(ml_dtypes.bfloat16)


def dtype_of(name: str) -> Any:
    return BFLOAT16 if name == "bfloat16" else numpy.dtype(name)


def array(dtype: str, shape: Sequence[int], bits: bytes) -> Any:
    return numpy.frombuffer(bytearray(bits), dtype=dtype_of(dtype)).reshape(tuple(shape))


def laid_out(dense: Any, layout: str) -> Any:
    """The same values as every second element of a buffer ("strided"), in column order ("transposed"), or as they are;
    or the first one many times ("expanded")."""
    if layout == "strided":
        shape = dense.shape[:-1] + (2 * dense.shape[-1],)
        view = numpy.zeros(shape, dtype=dense.dtype)[..., ::2]
        view[...] = dense
        return view
    if layout == "expanded":
        return numpy.lib.stride_tricks.as_strided(dense, dense.shape, [0] * dense.ndim)
    return numpy.array(dense.T, order="C").T if layout == "transposed" else dense


def bits(values: Any) -> bytes:
    """In row-major order; every NaN as the same one, because payloads are not specified."""
    dense = numpy.array(values, order="C")
    with numpy.errstate(invalid="ignore"):
        dense[numpy.isnan(dense)] = numpy.nan
    return dense.tobytes()


def words(values: Any) -> List[int]:
    """The bits of a bfloat16 array as they are."""
    return [int(word) for word in values.view(numpy.uint16)]


def clamp(grad: Any, limit: float) -> None:
    edge = grad.dtype.type(limit)
    with numpy.errstate(invalid="ignore"):
        grad[grad > edge] = edge
        grad[grad < -edge] = -edge


def multiply(grad: Any, factor: float) -> None:
    with numpy.errstate(all="ignore"):
        grad[...] = grad * grad.dtype.type(factor)


class Parameter:
    def __init__(self, data: Any) -> None:
        self.data = data
        self.grad: Optional[Any] = None


class SGD:
    """The arithmetic of torch.optim.SGD. A learning rate that is a power of two makes `lr * grad` exact, so that
    it does not matter whether multiplication and subtraction are fused."""

    def __init__(self, params: List[Parameter], lr: float) -> None:
        self.param_groups: List[Dict[str, Any]] = [{"params": params[:1], "lr": lr}, {"params": params[1:], "lr": lr}]

    def step(
        self,
        closure: Optional[Callable[[], float]] = None,
        *,
        answer: Optional[float] = None,
        fail: bool = False,
    ) -> Optional[float]:
        if fail:
            raise ZeroDivisionError("the optimizer's own error")
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._move(param.data, param.grad, group["lr"])
        return loss if answer is None else answer

    @staticmethod
    def _move(data: Any, grad: Any, lr: float) -> None:
        wide = numpy.float64 if data.dtype == numpy.float64 else numpy.float32
        with numpy.errstate(all="ignore"):
            data[...] = (data.astype(wide) - wide(lr) * grad.astype(wide)).astype(data.dtype)


OPTIMIZERS = {"sgd": SGD}
