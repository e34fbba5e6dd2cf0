# SPDX-License-Identifier: Apache-2.0
"""Dynamic loss scaling for mixed-precision training, for any array library.

`GradScaler` scales the loss, unscales and checks the gradients, skips steps that would overflow, and adapts the scale.
It takes PyTorch's optimizers, objects like them, and plain lists of NumPy (or other) arrays:

>>> from array import array
>>> scaler = GradScaler(init_scale=1024.0)
>>> weight, grad = array("f", [1.0]), array("f", [512.0])  # the gradient of a scaled loss
>>> gradients = [grad]
>>> scaler.step(gradients)                # unscale in place, check
>>> if scaler.outcome(gradients) == Outcome.STEPPED:
...     weight[0] -= 0.1 * grad[0]
>>> scaler.update()                       # adapt the scale
>>> grad
array('f', [0.5])
"""

from ._core import CommError, DeviceError, DivergedError, isa, set_num_threads, version
from .functions import (
    check_grads,
    clip_grad_norm_,
    clip_grad_value_,
    grad_norm,
    grad_statistics,
    unscale_grads,
    unscale_grads_to,
)
from .ranks import Comm
from .results import EventKind, GradStatistics, Outcome, Overflow, Stats, StepResult
from .scaler import Event, GradScaler

__version__ = version()

__all__ = [
    "Comm",
    "CommError",
    "DeviceError",
    "DivergedError",
    "Event",
    "EventKind",
    "GradScaler",
    "GradStatistics",
    "Outcome",
    "Overflow",
    "Stats",
    "StepResult",
    "check_grads",
    "clip_grad_norm_",
    "clip_grad_value_",
    "grad_norm",
    "grad_statistics",
    "isa",
    "set_num_threads",
    "unscale_grads",
    "unscale_grads_to",
]
