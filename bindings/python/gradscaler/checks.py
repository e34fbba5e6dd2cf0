# SPDX-License-Identifier: Apache-2.0
"""Types of what users pass. Ranges are the core's business."""

from __future__ import annotations

import numbers
import operator
from typing import Any

from ._core import DeviceError


def real(what: str, value: Any) -> float:
    """`value` as a float; TypeError where it is not a number."""
    no_real = isinstance(value, bool) or (isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real))
    if no_real or type(value).__name__ in ("bool", "bool_") or not hasattr(type(value), "__float__"):
        raise TypeError(f"{what} is {value!r}, it must be a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{what} is {value!r}, which is beyond the range of a float") from None


def integer(what: str, value: Any, bits: int = 64) -> int:
    """`value` as an int that a signed integer of `bits` bits holds."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{what} is {value!r}, it must be an integer")
    number = operator.index(value)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"{what} is {number}, it must fit into {bits} bits")
    return number


def cpu(device: Any) -> None:
    """Refuses devices that are not served: all but the CPU."""
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
