# SPDX-License-Identifier: Apache-2.0
"""The collectives that a scaler calls, where several ranks train together."""

from __future__ import annotations

from typing import Protocol


class Comm(Protocol):
    """Collectives over the ranks, for `GradScaler(comm=...)`: all ranks then skip a step together.

    Every rank calls them in the same order, each with a writable memoryview to change in place. With mpi4py:

        class Ranks:
            def allreduce_max(self, values):
                MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, values, op=MPI.MAX)

    An `allreduce_sum` of the same form (over float64 values) is optional: give one where each rank holds a shard of
    the gradients, so that norms are those of the whole; leave it out where all ranks hold the same gradients. With
    float64 shards, give an `allreduce_max64` (over float64 values) too: it takes the norm with p = infinity, which
    `allreduce_max` rounds to float32. An exception that a collective raises comes out of the scaler's call.
    """

    def allreduce_max(self, values: memoryview) -> object:
        """Replaces each of the float32 values by its maximum over all ranks."""
