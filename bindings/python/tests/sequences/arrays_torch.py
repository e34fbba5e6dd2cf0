# SPDX-License-Identifier: Apache-2.0
"""The operations of arrays.py for PyTorch, with its own optimizers."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import torch


def array(dtype: str, shape: Sequence[int], bits: bytes) -> torch.Tensor:
    kind = getattr(torch, dtype)
    return torch.frombuffer(bytearray(bits), dtype=kind).reshape(shape) if bits else torch.zeros(shape, dtype=kind)


def laid_out(dense: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "strided":
        shape = [*dense.shape[:-1], 2 * dense.shape[-1]]
        return torch.zeros(shape, dtype=dense.dtype)[..., ::2].copy_(dense)
    if layout == "expanded":
        return dense[:1].expand(dense.shape)
    return dense.t().contiguous().t() if layout == "transposed" else dense


def bits(values: torch.Tensor) -> bytes:
    dense = values.detach().masked_fill(values.isnan(), torch.nan).contiguous().reshape(-1)
    return dense.view(torch.uint8).numpy().tobytes()


def words(values: torch.Tensor) -> List[int]:
    """The bits of a bfloat16 tensor as they are."""
    return [word & 0xFFFF for word in values.view(torch.int16).tolist()]


def clamp(grad: torch.Tensor, limit: float) -> None:
    grad.clamp_(-limit, limit)


def multiply(grad: torch.Tensor, factor: float) -> None:
    grad.mul_(factor)


def Parameter(data: torch.Tensor) -> torch.nn.Parameter:  # noqa: N802 (the name that arrays.py has for it)
    return torch.nn.Parameter(data)


class SGD(torch.optim.SGD):
    def __init__(self, params: List[torch.nn.Parameter], lr: float) -> None:
        super().__init__([{"params": params[:1]}, {"params": params[1:]}], lr=lr)

    def step(
        self,
        closure: Optional[Callable[[], float]] = None,
        *,
        answer: Optional[float] = None,
        fail: bool = False,
    ) -> Any:
        if fail:
            raise ZeroDivisionError("the optimizer's own error")
        loss = super().step(closure)
        return loss if answer is None else answer


class FusedAdam(torch.optim.Adam):
    """Declares `_step_supports_amp_scaling`: it divides by the scale itself, in its own kernel."""

    def __init__(self, params: List[torch.nn.Parameter], lr: float) -> None:
        super().__init__(params, lr=lr, fused=True)

    def step(self, closure: Optional[Callable[[], float]] = None, *, answer: Optional[float] = None) -> Any:
        loss = super().step(closure)
        return loss if answer is None else answer


GradScaler = torch.amp.grad_scaler.GradScaler

OPTIMIZERS = {"sgd": SGD, "fused_adam": FusedAdam}
