# SPDX-License-Identifier: Apache-2.0
"""Checks that neither reference counts nor memory grow with the iterations."""

import gc
import sys

ITERATIONS = 100_000


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def assert_no_drift(iterate, watched):
    """Over ITERATIONS calls of iterate, neither the reference counts of the watched objects nor the memory grow. Memory
    may grow in one of two halves: an allocator may need a new page for other reasons."""

    def rounds(n):
        for _ in range(n):
            iterate()
        gc.collect()

    rounds(ITERATIONS // 20)
    before, memory = [sys.getrefcount(item) for item in watched], [resident_bytes()]
    for _ in range(2):
        rounds(ITERATIONS // 2)
        memory.append(resident_bytes())
    drift = [sys.getrefcount(item) - count for item, count in zip(watched, before)]
    assert max(map(abs, drift)) < 50, drift
    assert min(memory[1] - memory[0], memory[2] - memory[1]) < 1 << 20, memory
