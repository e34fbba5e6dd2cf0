# SPDX-License-Identifier: Apache-2.0
"""torch._amp_foreach_non_finite_check_and_unscale_ against gsc_unscale_grads, on the very same buffers."""

from collections.abc import Callable
from ctypes import POINTER, byref, c_bool, c_double, c_int64, c_size_t, cast
from dataclasses import dataclass

import torch

from binding import KDL_BFLOAT, KDL_CPU, KDL_FLOAT, DataType, Device, DLTensor, Library
from measure import Side, alternate
from report import Row, count_text

DTYPES = {
    torch.float32: DataType(KDL_FLOAT, 32, 1),
    torch.float64: DataType(KDL_FLOAT, 64, 1),
    torch.bfloat16: DataType(KDL_BFLOAT, 16, 1),
}
MIB = 1 << 20
# The results are compared at this scale: products are rounded, and the inverse is the same number in float32, in which
# PyTorch computes it, and in double, in which we do.
CHECKED_SCALE = 1 / 1.5


@dataclass(frozen=True)
class Case:
    tensors: int
    bytes_each: int
    dtype: torch.dtype = torch.float32
    bar: float | None = None  # the least allowed ratio: PyTorch's time / ours
    quick: bool = False  # part of the smoke run

    def elements_each(self) -> int:
        return self.bytes_each // self.dtype.itemsize

    def name(self) -> str:
        size = f"{self.bytes_each // MIB} MiB" if self.bytes_each >= MIB else f"{self.elements_each()} elements"
        return f"unscale {count_text(self.tensors)} x {size}"


CASES = [
    Case(1_000, 64 * 4, bar=10.0, quick=True),
    Case(10_000, 64 * 4),
    Case(1, MIB, quick=True),
    Case(100, MIB),
    Case(1, 256 * MIB, bar=1.0),
    Case(1, 256 * MIB, torch.bfloat16),
    Case(1, 256 * MIB, torch.float64),
]


def describe(tensor: torch.Tensor) -> DLTensor:
    """The DLPack view of a one-dimensional tensor, which must outlive it."""
    return DLTensor(
        data=tensor.data_ptr(),
        device=Device(KDL_CPU, 0),
        ndim=1,
        dtype=DTYPES[tensor.dtype],
        shape=(c_int64 * 1)(tensor.numel()),
    )


class Comparison:
    """One list of gradients and the two calls on it. The arguments are built once, here; only the calls are timed."""

    def __init__(self, library: Library, case: Case) -> None:
        generator = torch.Generator().manual_seed(1)
        self.grads = [
            torch.randn(case.elements_each(), generator=generator).to(case.dtype) for _ in range(case.tensors)
        ]
        self._descriptions = [describe(grad) for grad in self.grads]
        self._list = (POINTER(DLTensor) * case.tensors)(*map(POINTER(DLTensor), self._descriptions))
        self._library = library
        self.torch_found = torch.zeros(1)
        self.our_found = c_bool()

    def torch_call(self, scale: float) -> Callable[[], None]:
        unscale, grads, found = torch._amp_foreach_non_finite_check_and_unscale_, self.grads, self.torch_found
        inverse = torch.full((1,), 1 / scale)
        return lambda: unscale(grads, found, inverse)

    def our_call(self, scale: float) -> Callable[[], None]:
        unscale, grads, count = self._library.gsc_unscale_grads, self._list, c_size_t(len(self.grads))
        divisor, found = c_double(scale), byref(self.our_found)
        return lambda: unscale(grads, count, divisor, found)


def check_overflow(comparison: Comparison) -> None:
    """Both must find an infinity in the last element."""
    comparison.torch_found.zero_()
    last = comparison.grads[-1][-1:]
    kept = last.clone()
    last.fill_(torch.inf)
    comparison.torch_call(2.0)()
    comparison.our_call(0.5)()
    last.copy_(kept)
    if comparison.torch_found.item() != 1.0 or not comparison.our_found.value:
        raise RuntimeError("an infinity was not found")


def check_equal(comparison: Comparison) -> None:
    """Both must write the same bits and find no infinity. The gradients are restored."""
    before = [grad.clone() for grad in comparison.grads]
    comparison.torch_call(CHECKED_SCALE)()
    torch_results = [grad.clone() for grad in comparison.grads]
    for grad, kept in zip(comparison.grads, before):
        grad.copy_(kept)
    comparison.our_call(CHECKED_SCALE)()
    same = all(map(torch.equal, comparison.grads, torch_results))
    for grad, kept in zip(comparison.grads, before):
        grad.copy_(kept)
    if not same or comparison.torch_found.item() != 0.0 or comparison.our_found.value:
        raise RuntimeError("the unscaled gradients differ")


def there_and_back(call: Callable[[float], Callable[[], None]]) -> Side:
    """Halves and doubles, so that any number of repetitions leaves the values where they were."""
    halve, double = call(2.0), call(0.5)

    def work() -> None:
        halve()
        double()

    return Side(prepare=work, work=work, work_units=2)


def compare(library: Library, case: Case, threads: int, rounds: int) -> Row:
    comparison = Comparison(library, case)
    check_equal(comparison)
    check_overflow(comparison)
    sides = there_and_back(comparison.torch_call), there_and_back(comparison.our_call)
    alternate(sides, rounds, repeatable=True)
    return Row(case.name(), str(case.dtype).removeprefix("torch."), threads, *sides, bar=case.bar)
