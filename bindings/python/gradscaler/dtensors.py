# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DTensors, as FSDP2 makes them: of each, the part that lies on this rank. The ranks among which one is split
agree through the groups of its mesh, as with PyTorch's scaler."""

from __future__ import annotations

import sys
from typing import Any


def is_dtensor(tensor: Any) -> bool:
    """Whether a PyTorch tensor is a DTensor."""
    return hasattr(tensor, "to_local") and hasattr(tensor, "placements")


def groups_of(tensor: Any) -> list[Any]:
    """The process groups of the ranks among which the DTensor is split; [] where each rank has the whole."""
    mesh = tensor.device_mesh
    return [
        mesh.get_group(dimension)
        for dimension, placement in enumerate(tensor.placements)
        if mesh.size(dimension) > 1 and not placement.is_replicate()
    ]


def found_on_any_rank(found: bool, groups: list[Any]) -> bool:
    """Whether `found` is true on some rank of the groups. Every rank calls it."""
    torch = sys.modules["torch"]
    distributed = torch.distributed
    flag = torch.tensor(float(found))
    for group in groups:
        distributed.all_reduce(flag, distributed.ReduceOp.MAX, group)
    return bool(flag)
