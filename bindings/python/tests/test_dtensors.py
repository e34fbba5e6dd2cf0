# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DTensors: each rank's part is unscaled, and ranks that share one skip together. Without PyTorch, a stand-in
of the names that are used; with it, two processes beside PyTorch's own scaler."""

import subprocess
import sys
import types

import numpy as np
import pytest
from conftest import Param, Sgd, f32, sgd

from gradscaler import GradScaler, Outcome, grad_norm


class Tensor(np.ndarray):
    is_sparse = False

    def detach(self):
        return self


class DTensor(Tensor):
    def to_local(self):
        return self.part


class Mesh:
    def __init__(self, *sizes):
        self.sizes = sizes

    def size(self, dimension):
        return self.sizes[dimension]

    def get_group(self, dimension):
        return f"group {dimension} of {self.sizes}"


SHARD = types.SimpleNamespace(is_replicate=lambda: False)
REPLICATE = types.SimpleNamespace(is_replicate=lambda: True)


def dtensor(part, mesh, *placements):
    made = np.zeros(0, np.float32).view(DTensor)
    made.part, made.device_mesh, made.placements = part.view(Tensor), mesh, placements
    return made


@pytest.fixture
def ranks(monkeypatch):
    """groups: those that were asked; others: what another rank found."""
    seen = types.SimpleNamespace(groups=[], others=0.0)

    def all_reduce(flag, operation, group):
        assert operation == "max"
        seen.groups.append(group)
        flag[...] = max(flag, seen.others)

    torch = types.ModuleType("torch")
    torch.Tensor, torch.tensor, torch.float32 = Tensor, lambda value: np.array(value, np.float32), "float32"
    torch.distributed = types.SimpleNamespace(all_reduce=all_reduce, ReduceOp=types.SimpleNamespace(MAX="max"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return seen


# trial T18
def test_each_rank_unscales_its_part(ranks):
    mesh, parts = Mesh(2), [f32(8.0), f32(4.0, 16.0)]
    scaler, optimizer = GradScaler(init_scale=4.0), sgd(*(dtensor(part, mesh, SHARD) for part in parts))
    scaler.unscale_(optimizer)
    assert [part.tolist() for part in parts] == [[2.0], [1.0, 4.0]]
    assert ranks.groups == ["group 0 of (2,)"]
    assert scaler.found_inf(optimizer) is False


@pytest.mark.parametrize("unscale", [True, False])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("value", "others"), [(8.0, 1.0), (np.inf, 0.0), (8.0, 0.0)])
def test_ranks_skip_together(ranks, unscale, fused, value, others):
    class Plain(Sgd):
        def step(self):
            self.steps += 1
            self.scale = getattr(self, "grad_scale", None)

    scaler, optimizer = GradScaler(init_scale=4.0), Plain([Param([1.0], dtensor(f32(value), Mesh(2), SHARD))])
    optimizer._step_supports_amp_scaling = fused
    ranks.others = others
    if unscale:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    skips = value == np.inf or others == 1.0
    assert scaler.outcome(optimizer) is (Outcome.SKIPPED_OVERFLOW if skips else Outcome.STEPPED)
    assert optimizer.steps == (not skips)
    assert [overflow.index for overflow in scaler.overflows(optimizer)] == ([0] if value == np.inf else [])
    assert len(ranks.groups) == 1
    scaler.update()
    assert scaler.get_scale() == (2.0 if skips else 4.0)
    if not skips:
        assert optimizer.scale is None  # the gradients are unscaled


def test_only_the_groups_that_share_gradients_are_asked(ranks):
    mesh, alone = Mesh(2, 3), Mesh(1)
    gradients = [dtensor(f32(4.0), mesh, REPLICATE, SHARD), dtensor(f32(4.0), mesh, REPLICATE, SHARD)]
    gradients += [dtensor(f32(4.0), alone, SHARD), dtensor(f32(4.0), mesh, REPLICATE, REPLICATE), f32(4.0)]
    GradScaler(init_scale=4.0).step(sgd(*gradients))
    assert ranks.groups == ["group 1 of (2, 3)"]
    assert [g.part.item() for g in gradients[:-1]] == [1.0] * 4


def test_with_comm_the_core_agrees(ranks):
    class Comm:
        calls = 0

        def allreduce_max(self, values):
            self.calls += 1

        def allreduce_sum(self, values):
            pass

    comm = Comm()
    scaler, optimizer = GradScaler(init_scale=4.0, comm=comm), sgd(dtensor(f32(12.0, 16.0), Mesh(2), SHARD))
    assert scaler.clip_grad_norm_(optimizer, 1.0) == 5.0
    scaler.step(optimizer)
    assert (ranks.groups, comm.calls) == ([], 1)


def test_norms_over_ranks_are_refused(ranks):
    split, whole = dtensor(f32(3.0, 4.0), Mesh(2), SHARD), dtensor(f32(3.0, 4.0), Mesh(2), REPLICATE)
    with pytest.raises(NotImplementedError, match=r"unscale_ and torch.nn.utils.clip_grad_norm_, or .*comm"):
        GradScaler().clip_grad_norm_(sgd(split), 1.0)
    with pytest.raises(NotImplementedError, match=r"to_local\(\)"):
        grad_norm([split])
    assert split.part.tolist() == [3.0, 4.0]
    assert GradScaler(init_scale=1.0).clip_grad_norm_(sgd(whole), 10.0) == grad_norm([whole]) == 5.0


TWO_RANKS = """
import os, sys, torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from gradscaler import GradScaler
rank, path = int(sys.argv[1]), sys.argv[2]
store = torch.distributed.FileStore(path, 2)
torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
for kind, options in ((torch.optim.SGD, {}), (torch.optim.AdamW, {}), (torch.optim.Adam, {"fused": True})):
    seen = []
    for scaler in (GradScaler("cpu", 8.0), torch.amp.GradScaler("cpu", 8.0)):
        weight = torch.nn.Parameter(distribute_tensor(torch.arange(4.0), mesh, [Shard(0)]))
        optimizer = kind([weight], lr=0.5, **options)
        scaler.scale(torch.ones(1))
        for bad in (None, 3, None, 0):  # rank 1 has the elements 2 and 3
            grad = torch.arange(1.0, 5.0)
            if bad is not None:
                grad[bad] = torch.inf
            weight.grad = distribute_tensor(grad, mesh, [Shard(0)])
            scaler.unscale_(optimizer) if bad == 0 else None
            scaler.step(optimizer)
            scaler.update()
        seen.append((scaler.get_scale(), weight.full_tensor().tolist()))
    assert seen[0] == seen[1] and seen[0][0] == 2.0, (kind, seen)
torch.distributed.destroy_process_group()
"""


@pytest.mark.torch
def test_two_ranks_as_with_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch is built without torch.distributed")
    command = [sys.executable, "-c", TWO_RANKS]
    running = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
