# SPDX-License-Identifier: Apache-2.0
"""Unscale, clip, AdamW and update: torch.amp.GradScaler against gsc_scaler_step with the train layer's AdamW."""

import ctypes
import math
from collections.abc import Iterator
from ctypes import POINTER, byref, c_int64, c_void_p
from dataclasses import dataclass
from itertools import chain

import torch

from binding import FLOAT32, DLTensor, Library, StepArgs, StepResult
from measure import Side, alternate
from report import Row, count_text

SCALE = 65536.0  # gsc_scaler_create's default, and PyTorch's
LR, WEIGHT_DECAY, MAX_NORM = 1e-3, 0.01, 1.0
TOLERANCE = 1e-5  # relative
CHECKED_STEPS = 3
CHUNK = 1 << 22  # elements compared at a time


@dataclass(frozen=True)
class Case:
    parameters: int
    many: bool = False  # 50 weights and 100 biases instead of one tensor
    bar: float | None = None
    quick: bool = False

    def sizes(self) -> list[int]:
        if not self.many:
            return [self.parameters]
        biases = [1024] * 100
        return [(self.parameters - sum(biases)) // 50] * 50 + biases

    def name(self) -> str:
        sizes = self.sizes()
        tensors = "1 tensor" if len(sizes) == 1 else f"{len(sizes)} tensors"
        return f"unscale + clip + AdamW, {count_text(sum(sizes))} in {tensors}"


CASES = [
    Case(100_000_000, bar=1.2),
    Case(100_000_000, many=True, bar=1.2),
    Case(1_000_000, quick=True),
    Case(1_000_000, many=True, quick=True),
]


def away_from_zero(size: int, generator: torch.Generator) -> torch.Tensor:
    """Magnitudes in [0.5, 1), so that the relative difference of every element is meaningful."""
    values = torch.rand(size, generator=generator).sub_(0.5)
    return values.add_(torch.full((), 0.5).copysign(values))


class TorchSide:
    """unscale_ divides the gradients in place; `restore` scales them again, which is not timed."""

    def __init__(self, sizes: list[int]) -> None:
        generator = torch.Generator().manual_seed(1)
        self.params = [torch.nn.Parameter(away_from_zero(size, generator)) for size in sizes]
        self.scaled = [away_from_zero(size, generator).mul_(1e-3 * SCALE) for size in sizes]
        for param in self.params:
            param.grad = torch.empty_like(param)
        self._optimizer = torch.optim.AdamW(self.params, lr=LR, weight_decay=WEIGHT_DECAY, fused=True)
        self._scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
        self._scaler.scale(torch.zeros(()))  # creates the scale tensor

    def restore(self) -> None:
        for param, scaled in zip(self.params, self.scaled):
            param.grad.copy_(scaled)

    def step(self) -> None:
        self._scaler.unscale_(self._optimizer)
        self._norm = torch.nn.utils.clip_grad_norm_(self.params, MAX_NORM, foreach=True)
        self._scaler.step(self._optimizer)
        self._scaler.update()

    def norm(self) -> float:
        return self._norm.item()

    def results(self, index: int) -> list[torch.Tensor]:
        param = self.params[index]
        state = self._optimizer.state[param]
        return [param.detach(), state["exp_avg"], state["exp_avg_sq"]]


def view(tensor: "ctypes._Pointer[DLTensor]") -> torch.Tensor:
    """The elements of one of our float32 tensors, not copied."""
    description = tensor.contents
    count = 1
    for axis in range(description.ndim):
        count *= description.shape[axis]
    return torch.frombuffer((ctypes.c_float * count).from_address(description.data), dtype=torch.float32)


class OurSide:
    """The same values in tensors of the train layer. The scale-aware step leaves the gradients scaled."""

    def __init__(self, library: Library, peer: TorchSide) -> None:
        self._library = library
        self._params = [self._parameter(*values) for values in zip(peer.params, peer.scaled)]
        handles = (c_void_p * len(self._params))(*self._params)
        group = library.gsc_param_group_default_adam(handles, len(handles), LR)
        group.weight_decay = WEIGHT_DECAY
        self._optim = library.create("gsc_optim_create_adamw", byref(group), 1)
        self._optimizer = c_void_p(library.gsc_optim_optimizer(self._optim))
        self._scaler = library.create("gsc_scaler_create", None)
        self._args = StepArgs(clip_norm=MAX_NORM)
        self._result = StepResult()

    def _parameter(self, values: torch.Tensor, scaled_grad: torch.Tensor) -> c_void_p:
        param = self._library.create("gsc_tensor_create", FLOAT32, 1, (c_int64 * 1)(values.numel()))
        self._library.check(self._library.gsc_tensor_set_requires_grad(param, True))
        self._add_grad(param)
        view(self._library.gsc_tensor_data(param)).copy_(values.detach())
        view(self._library.gsc_tensor_grad(param)).copy_(scaled_grad)
        return param

    def _add_grad(self, param: c_void_p) -> None:
        """Only a backward pass allocates a gradient."""
        library = self._library
        tape = library.create("gsc_tape_create")
        library.check(library.gsc_tape_backward(tape, library.gsc_sum(library.gsc_tape_param(tape, param))))
        library.gsc_tape_free(tape)

    def step(self) -> None:
        library = self._library
        library.check(library.gsc_scaler_step(self._scaler, self._optimizer, byref(self._args), byref(self._result)))
        library.check(library.gsc_scaler_update(self._scaler))

    def norm(self) -> float:
        return self._result.grad_norm

    def results(self, index: int) -> list[torch.Tensor]:
        library, optim = self._library, self._optim
        states = [library.gsc_optim_state(optim, index, name) for name in (b"exp_avg", b"exp_avg_sq")]
        return [view(tensor) for tensor in (library.gsc_tensor_data(self._params[index]), *states)]

    def free(self) -> None:
        self._library.gsc_scaler_destroy(self._scaler)
        self._library.gsc_optim_free(self._optim)
        for param in self._params:
            self._library.gsc_tensor_free(param)


def exact_norm(peer: TorchSide) -> float:
    """The norm of the unscaled gradients in float64."""
    squares = sum(chunk.double().square().sum() for grad in peer.scaled for chunk in grad.split(CHUNK))
    return math.sqrt(squares) / SCALE


def relative(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), abs(b))


def differences(peer: TorchSide, ours: OurSide) -> Iterator[float]:
    """The largest relative difference in each chunk of the parameters and of both moments; NaN if an element is NaN.
    PyTorch sums the norm in float32, so its clipped gradients are off by a common factor: its moments are corrected for
    that factor. (The parameters hardly depend on it.)"""
    factor = peer.norm() / ours.norm()
    for index in range(len(peer.params)):
        for theirs, mine, power in zip(peer.results(index), ours.results(index), (0, 1, 2)):
            for a, b in zip(theirs.split(CHUNK), mine.split(CHUNK)):
                a = a * factor**power
                yield ((a - b).abs() / torch.maximum(a.abs(), b.abs())).max().item()


def check_equal(peer: TorchSide, ours: OurSide) -> float:
    largest = relative(ours.norm(), exact_norm(peer))
    for difference in chain([largest], differences(peer, ours)):
        if not difference <= TOLERANCE:
            raise RuntimeError(f"the results differ by {difference:.3g}, relative; allowed is {TOLERANCE:.3g}")
        largest = max(largest, difference)
    return largest


def compare(library: Library, case: Case, threads: int, rounds: int) -> Row:
    """Compares the results after a few steps, and again after the timed steps."""
    peer = TorchSide(case.sizes())
    ours = OurSide(library, peer)
    for _ in range(CHECKED_STEPS):
        peer.restore()
        peer.step()
        ours.step()
    check_equal(peer, ours)
    sides = Side(peer.restore, peer.step), Side(lambda: None, ours.step)
    alternate(sides, rounds, repeatable=False)
    difference, norm_error = check_equal(peer, ours), relative(peer.norm(), ours.norm())
    ours.free()
    return Row(case.name(), "float32", threads, *sides, case.bar, difference, norm_error)
