# SPDX-License-Identifier: Apache-2.0
"""Results: one line of the table and one object of the JSON file per row."""

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import torch

from binding import Library
from measure import Side

COLUMNS = f"{'work':<56} {'dtype':<9} {'threads':>7} {'PyTorch':>10} {'ours':>10} {'ratio':>7}  bar"


def count_text(count: int) -> str:
    return f"{count // 1_000_000} M" if count % 1_000_000 == 0 else f"{count:,}"


def time_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


@dataclass
class Row:
    work: str
    dtype: str
    threads: int
    torch: Side
    ours: Side
    bar: float | None = None
    difference: float | None = None  # largest relative difference of the results; None: the same bits
    torch_norm_error: float | None = None  # relative

    def ratio(self) -> float:
        return self.torch.median() / self.ours.median()

    def bar_text(self) -> str:
        if self.bar is None:
            return ""
        return f">= {self.bar:g} {'held' if self.ratio() >= self.bar else 'MISSED'}"

    def line(self) -> str:
        return (
            f"{self.work:<56} {self.dtype:<9} {self.threads:>7} {time_text(self.torch.median()):>10} "
            f"{time_text(self.ours.median()):>10} {self.ratio():>7.2f}  {self.bar_text()}"
        ).rstrip()

    def as_json(self) -> dict:
        return {
            "work": self.work,
            "dtype": self.dtype,
            "threads": self.threads,
            "torch_median_s": self.torch.median(),
            "ours_median_s": self.ours.median(),
            "ratio": self.ratio(),
            "bar": self.bar,
            "held": None if self.bar is None else self.ratio() >= self.bar,
            "largest_relative_difference": self.difference,
            "torch_norm_error": self.torch_norm_error,
            "torch_rounds_s": self.torch.seconds,
            "ours_rounds_s": self.ours.seconds,
        }


def cpu_model() -> str:
    """The `model name` of x86; elsewhere the name that the platform module gives."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def header(library: Library, rounds: int) -> dict:
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "gradscaler": library.gsc_version().decode(),
        "gradscaler_isa": library.gsc_isa().decode(),
        "torch": torch.__version__,
        "torch_isa": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "rounds": rounds,
    }


def header_text(facts: dict) -> str:
    return (
        f"{facts['cpu']}, {facts['cores']} cores\n"
        f"gradscaler {facts['gradscaler']} ({facts['gradscaler_isa']}), PyTorch {facts['torch']} "
        f"({facts['torch_isa']}), Python {facts['python']}\n"
        f"Medians of {facts['rounds']} alternated rounds; ratio = PyTorch's time / ours."
    )


def checks_text(rows: list[Row]) -> str:
    steps = [row for row in rows if row.difference is not None]
    return (
        "Unscaled gradients: the same bits.\n"
        f"Optimizer steps: at most {max(row.difference for row in steps):.2g} apart, relative, once the error of "
        f"PyTorch's norm (float32 sums; at most {max(row.torch_norm_error for row in steps):.2g}) is taken out."
    )


def write_json(path: Path, facts: dict, rows: list[Row]) -> None:
    content = {"machine": facts, "rows": [row.as_json() for row in rows]}
    path.write_text(json.dumps(content, indent=1) + "\n")
