# SPDX-License-Identifier: Apache-2.0
"""bench.py FOLDER [--quick] [--json FILE]: the same work in PyTorch and in the libraries built in FOLDER."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

import step
import unscale
from binding import Library
from measure import parse_rounds
from report import COLUMNS, Row, checks_text, header, header_text, write_json


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares unscaling and a whole optimizer step with PyTorch's.")
    parser.add_argument("folder", type=Path, help="build folder of the libraries")
    parser.add_argument("--json", type=Path, help="results and every round, default FOLDER/bench-torch.json")
    return parse_rounds(parser)


def measure(library: Library, quick: bool, rounds: int) -> Iterator[Row]:
    all_cores = len(os.sched_getaffinity(0))
    for module in (unscale, step):
        for case in module.CASES:
            if quick and not case.quick:
                continue
            for threads in sorted({1, all_cores}):
                torch.set_num_threads(threads)
                library.gsc_set_num_threads(threads)
                try:
                    yield module.compare(library, case, threads, rounds)
                except RuntimeError as error:
                    sys.exit(f"{case.name()}, threads: {threads}: {error}")


def main() -> int:
    arguments = parse_arguments()
    library = Library(arguments.folder / "src")
    facts = header(library, arguments.rounds)
    print(header_text(facts), COLUMNS, sep="\n\n")
    rows = []
    for row in measure(library, arguments.quick, arguments.rounds):
        rows.append(row)
        print(row.line(), flush=True)
    print("", checks_text(rows), sep="\n")
    path = arguments.json or arguments.folder / "bench-torch.json"
    write_json(path, facts, rows)
    print(f"Every round: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
