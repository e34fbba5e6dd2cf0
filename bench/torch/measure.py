# SPDX-License-Identifier: Apache-2.0
"""Times two sides in turn, so that a disturbance of the machine affects both."""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

# A timed section repeats its work until it takes about this long.
SECTION_SECONDS = 5e-3
# Threads of the side that ran last may spin while they wait for more work: this pause lets them fall asleep.
SETTLE_SECONDS = 5e-3

ROUNDS, QUICK_ROUNDS = 15, 3


def parse_rounds(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Adds --quick and --rounds, which every comparison has, and parses the command line."""
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: a smoke run")
    parser.add_argument("--rounds", type=int, help=f"rounds per row, default {ROUNDS}, with --quick {QUICK_ROUNDS}")
    arguments = parser.parse_args()
    if arguments.rounds is None:
        arguments.rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}, at least 1 is needed")
    return arguments


@dataclass
class Side:
    prepare: Callable[[], None]  # before each timed section, not timed
    work: Callable[[], None]
    work_units: int = 1  # results are seconds per unit
    repeats: int = 1
    seconds: list[float] = field(default_factory=list)

    def median(self) -> float:
        return statistics.median(self.seconds)


def elapsed(work: Callable[[], None], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return time.perf_counter() - start


def run_section(side: Side) -> float:
    time.sleep(SETTLE_SECONDS)
    side.prepare()
    return elapsed(side.work, side.repeats) / (side.repeats * side.work_units)


def alternate(sides: tuple[Side, Side], rounds: int, repeatable: bool) -> None:
    """Appends one time per round to the seconds of each side; the sides swap order after each round. Work that is
    `repeatable` may run many times after one `prepare`. The first section of each side warms up and is not counted."""
    for side in sides:
        once = run_section(side)
        if repeatable:
            side.repeats = max(1, math.ceil(SECTION_SECONDS / (once * side.work_units)))
    for index in range(rounds):
        for side in sides if index % 2 == 0 else reversed(sides):
            side.seconds.append(run_section(side))
