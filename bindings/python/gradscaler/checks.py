# SPDX-License-Identifier: Apache-2.0
"""Checks the types of what users pass. The core checks ranges."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

from ._core import DeviceError


def real(what: str, value: Any) -> float:
    """`value`, a real number or a tensor of one, as a float."""
    wanted = "a real number"
    number = _number(what, value, wanted)
    if not hasattr(type(number), "__float__"):
        raise TypeError(_refusal(what, value, wanted))
    try:
        return float(number)
    except OverflowError:
        raise ValueError(_refusal(what, value, f"{wanted} within the range of a float")) from None
    except (TypeError, ValueError) as error:
        raise type(error)(_refusal(what, value, wanted)) from error


def integer(what: str, value: Any, bits: int = 64) -> int:
    """`value`, an integer (2.0 is one) or a tensor of one, as an int that a signed integer of `bits` bits holds."""
    wanted = "an integer"
    number = _number(what, value, wanted)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    try:
        index = operator.index(number)
    except TypeError as error:
        raise TypeError(_refusal(what, value, wanted)) from error
    if not -(2 ** (bits - 1)) <= index < 2 ** (bits - 1):
        raise ValueError(_refusal(what, value, f"{wanted} that fits into {bits} bits"))
    return index


def flag(what: str, value: Any) -> bool:
    """`value`, which must be True, False, 1, 0 or a tensor of one of these. Truth is not enough: "False" is true."""
    wanted = "True or False"
    number = _element(what, value, wanted)
    if not isinstance(number, int) or number not in (0, 1):
        raise TypeError(_refusal(what, value, wanted))
    return bool(number)


def _number(what: str, value: Any, wanted: str) -> Any:
    number = _element(what, value, wanted)
    if isinstance(number, bool):
        raise TypeError(_refusal(what, value, wanted))
    return number


def _element(what: str, value: Any, wanted: str) -> Any:
    """`value` itself, or the only element of a tensor or of a NumPy scalar."""
    if not (hasattr(value, "shape") and hasattr(value, "item")):
        return value
    if math.prod(value.shape) != 1:
        raise ValueError(f"{what} is of shape {tuple(value.shape)}, it must be {wanted} or a tensor of one element")
    if getattr(value, "requires_grad", False):
        raise ValueError(f"{what} is a tensor that requires a gradient, it must not; detach() it")
    if getattr(value.dtype, "kind", None) in ("m", "M"):  # times, whose items may be plain integers
        raise TypeError(_refusal(what, value, wanted))
    try:
        return value.item()
    except RuntimeError as error:  # PyTorch: there is no value on the device meta
        raise TypeError(_refusal(what, value, wanted)) from error


def _refusal(what: str, value: Any, wanted: str) -> str:
    return f"{what} is {_shown(value)}, it must be {wanted}"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # Python refuses to print long integers
        return f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:50]}...{text[-20:]}"


def require_cpu(device: Any) -> None:
    """Refuses every device but the CPU."""
    if isinstance(device, numbers.Number):
        raise TypeError(
            f"device is {device!r}, it must be a name such as 'cpu'; a scale is given by keyword: "
            f"GradScaler(init_scale={device!r})"
        )
    name = getattr(device, "type", device)
    if not isinstance(name, str):
        raise TypeError(f"device is {device!r}, it must be a name such as 'cpu'")
    if name.split(":")[0] != "cpu":
        raise DeviceError(
            f"device {name!r} is not served by this scaler, only 'cpu' is; "
            "GradScaler(device='cpu') takes gradients in host memory"
        )
