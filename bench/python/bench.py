# SPDX-License-Identifier: Apache-2.0
"""bench.py [--quick] [--rounds N] [--json FILE]: gradscaler.GradScaler beside torch.amp.GradScaler and beside NumPy."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gradscaler
import numpy
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "torch"))
from measure import Side, alternate, parse_rounds
from report import count_text, cpu_model, time_text

ELEMENT_BYTES, MIB = 4, 1 << 20
NO_GROWTH = 2**31 - 1
COLUMNS = f"{'work':<44} {'beside':<8} {'threads':>7} {'theirs':>10} {'ours':>10} {'ratio':>7}  bar"


@dataclass(frozen=True)
class Case:
    tensors: int
    elements: int
    scalers: int  # each makes one call per timed section; an even number, so that the values are kept
    bar: float | None = None  # the least allowed ratio of unscale_: PyTorch's time / ours
    quick: bool = False  # part of the smoke run

    def size(self) -> str:
        size = self.elements * ELEMENT_BYTES
        each = f"{size // MIB} MiB" if size >= MIB else f"{self.elements} elements"
        return f"{count_text(self.tensors)} x {each}"


CASES = [
    Case(1_000, 64, scalers=20, bar=1.0, quick=True),
    Case(1, MIB // ELEMENT_BYTES, scalers=20, quick=True),
    Case(1, 256 * MIB // ELEMENT_BYTES, scalers=2, bar=1 / 1.05),
]


@dataclass
class Row:
    work: str
    beside: str
    threads: int
    theirs: Side
    ours: Side
    bar: float | None = None

    def ratio(self) -> float:
        return self.theirs.median() / self.ours.median()

    def bar_text(self) -> str:
        if self.bar is None:
            return ""
        return f">= {self.bar:.2f} {'held' if self.ratio() >= self.bar else 'MISSED'}"

    def line(self) -> str:
        return (
            f"{self.work:<44} {self.beside:<8} {self.threads:>7} {time_text(self.theirs.median()):>10} "
            f"{time_text(self.ours.median()):>10} {self.ratio():>7.2f}  {self.bar_text()}"
        ).rstrip()

    def as_json(self) -> dict:
        return {
            "work": self.work,
            "beside": self.beside,
            "threads": self.threads,
            "theirs_median_s": self.theirs.median(),
            "ours_median_s": self.ours.median(),
            "ratio": self.ratio(),
            "bar": self.bar,
            "held": None if self.bar is None else self.ratio() >= self.bar,
            "theirs_rounds_s": self.theirs.seconds,
            "ours_rounds_s": self.ours.seconds,
        }


class Idle(torch.optim.SGD):
    """An optimizer whose step does nothing, so that a scaler's calls cost only the scaler's own work."""

    def step(self) -> None:
        pass


def make_optimizer(case: Case) -> Idle:
    generator = torch.Generator().manual_seed(1)
    parameters = [torch.nn.Parameter(torch.zeros(case.elements)) for _ in range(case.tensors)]
    for parameter in parameters:
        parameter.grad = torch.randn(case.elements, generator=generator)
    return Idle(parameters)


def scales(case: Case) -> list[float]:
    """2 and 1/2 in turn: any number of sections keeps the values."""
    return [2.0, 0.5] * (case.scalers // 2)


def make_scalers(kind: type, case: Case) -> list:
    made = [kind("cpu", init_scale=scale, growth_interval=NO_GROWTH) for scale in scales(case)]
    for scaler in made:
        scaler.scale(torch.ones(1))  # PyTorch's scaler allocates at the first call
    return made


def unscale_side(kind: type, optimizer: object, case: Case) -> Side:
    scalers, values = make_scalers(kind, case), scales(case)

    def prepare() -> None:
        for scaler, value in zip(scalers, values):
            scaler.update(value)  # the optimizer is ready again

    def work() -> None:
        for scaler in scalers:
            scaler.unscale_(optimizer)

    return Side(prepare, work, work_units=len(scalers))


def iteration_side(kind: type, optimizer: Idle, case: Case) -> Side:
    scalers = make_scalers(kind, case)

    def work() -> None:
        for scaler in scalers:
            scaler.step(optimizer)
            scaler.update()

    return Side(work, work, work_units=len(scalers))


def numpy_side(gradients: list, case: Case) -> Side:
    inverses = [numpy.float32(1 / scale) for scale in scales(case)]

    def work() -> None:
        for inverse in inverses:
            finite = True
            for gradient in gradients:
                gradient *= inverse
                finite &= bool(numpy.isfinite(gradient).all())

    return Side(lambda: None, work, work_units=len(inverses))


def unscaled(kind: type, optimizer: Idle) -> tuple[list, bool]:
    """Copies of the gradients after unscaling, and whether the step was taken. The gradients are restored."""
    parameters = optimizer.param_groups[0]["params"]
    kept = [parameter.grad.clone() for parameter in parameters]
    scaler = kind("cpu", init_scale=3.0)
    scaler.scale(torch.ones(1))
    scaler.step(optimizer)
    scaler.update()
    results = [parameter.grad.clone() for parameter in parameters]
    for parameter, values in zip(parameters, kept):
        parameter.grad.copy_(values)
    return results, scaler.get_scale() == 3.0


def check_equal(optimizer: Idle) -> None:
    """Both must write the same bits, step with finite gradients, and skip a step with an infinity."""
    theirs, ours = unscaled(torch.amp.GradScaler, optimizer), unscaled(gradscaler.GradScaler, optimizer)
    if not (theirs[1] and ours[1] and all(map(torch.equal, theirs[0], ours[0]))):
        raise RuntimeError("the unscaled gradients differ")
    last = optimizer.param_groups[0]["params"][-1].grad[-1:]
    kept = last.clone()
    last.fill_(torch.inf)
    stepped = [unscaled(kind, optimizer)[1] for kind in (torch.amp.GradScaler, gradscaler.GradScaler)]
    last.copy_(kept)
    if any(stepped):
        raise RuntimeError("an infinity was not found")


def compare(case: Case, threads: int, rounds: int) -> Iterator[Row]:
    optimizer = make_optimizer(case)
    check_equal(optimizer)
    kinds = torch.amp.GradScaler, gradscaler.GradScaler
    for name, make_side, repeatable, bar in (
        ("unscale_", unscale_side, False, case.bar),
        ("step, update", iteration_side, True, None),
    ):
        sides = tuple(make_side(kind, optimizer, case) for kind in kinds)
        alternate(sides, rounds, repeatable)
        yield Row(f"{name} {case.size()}", "PyTorch", threads, *sides, bar=bar)
    arrays = [parameter.grad.numpy() for parameter in optimizer.param_groups[0]["params"]]
    sides = numpy_side(arrays, case), unscale_side(gradscaler.GradScaler, arrays, case)
    alternate(sides, rounds, repeatable=False)
    yield Row(f"unscale_ {case.size()}", "NumPy", threads, *sides)


def measure(quick: bool, rounds: int) -> Iterator[Row]:
    for case in CASES:
        if quick and not case.quick:
            continue
        for threads in sorted({1, len(os.sched_getaffinity(0))}):
            torch.set_num_threads(threads)
            gradscaler.set_num_threads(threads)
            yield from compare(case, threads, rounds)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compares the Python package with PyTorch's GradScaler and with NumPy."
    )
    parser.add_argument("--json", type=Path, help="write results and every round there")
    return parse_rounds(parser)


def machine(rounds: int) -> dict:
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "gradscaler": gradscaler.__version__,
        "gradscaler_isa": gradscaler.isa(),
        "torch": torch.__version__,
        "torch_isa": torch.backends.cpu.get_cpu_capability(),
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "rounds": rounds,
    }


def main() -> int:
    arguments = parse_arguments()
    facts = machine(arguments.rounds)
    print(
        f"{facts['cpu']}, {facts['cores']} cores\n"
        f"gradscaler {facts['gradscaler']} ({facts['gradscaler_isa']}), PyTorch {facts['torch']} ({facts['torch_isa']}), "
        f"NumPy {facts['numpy']}, Python {facts['python']}\n"
        f"Medians of {arguments.rounds} alternated rounds; ratio = their time / ours.\n\n{COLUMNS}"
    )
    rows = []
    for row in measure(arguments.quick, arguments.rounds):
        rows.append(row)
        print(row.line(), flush=True)
    if arguments.json:
        content = {"machine": facts, "rows": [row.as_json() for row in rows]}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
