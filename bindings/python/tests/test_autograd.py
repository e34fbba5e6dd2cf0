# SPDX-License-Identifier: Apache-2.0
"""What is changed in place is told to PyTorch's autograd: a backward pass that needs what was there before raises, as
after PyTorch's own functions. Without PyTorch, a stand-in of the names that are used."""

import sys
import types

import numpy as np
import pytest
from conftest import Arrays, f32, sgd

from gradscaler import (
    GradScaler,
    check_grads,
    clip_grad_norm_,
    clip_grad_value_,
    grad_norm,
    unscale_grads,
    unscale_grads_to,
)


class Tensor(np.ndarray):
    is_sparse = False


def tensor(*values):
    return f32(*values).view(Tensor)


@pytest.fixture
def told(monkeypatch):
    """The tensors that autograd is told of, by id."""
    seen = []
    torch, autograd = types.ModuleType("torch"), types.ModuleType("torch.autograd")
    torch.Tensor, torch.autograd = Tensor, autograd
    autograd.graph = types.SimpleNamespace(increment_version=lambda tensors: seen.extend(map(id, tensors)))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return seen


# trial T6
def test_functions_that_write_tell_autograd(told):
    grad, array = tensor(3.0, 4.0), f32(1.0)
    for write in (
        lambda grads: unscale_grads(grads, 2.0),
        lambda grads: clip_grad_norm_(grads, 1.0),
        lambda grads: clip_grad_value_(grads, 0.1),
        lambda grads: unscale_grads_to(grads, grads, 2.0),
    ):
        told.clear()
        write([None, array, grad])
        assert told == [id(grad)]
        told.clear()
        with pytest.raises(ValueError):
            write([grad, np.ones(1, np.int32)])
        assert told == []
    check_grads([grad])
    grad_norm([grad])
    assert told == []


def test_scalers_tell_autograd(told):
    scaler, grad = GradScaler(init_scale=4.0), tensor(3.0, 4.0)
    for call in (scaler.unscale_, scaler.step, lambda optimizer: scaler.clip_grad_norm_(optimizer, 1.0)):
        for optimizer in (Arrays(grad), [grad], sgd(grad)):
            told.clear()
            call(optimizer)
            assert told and set(told) == {id(grad)}
            scaler.update(4.0)
    told.clear()
    grad[0] = np.inf  # skipped, but divided
    scaler.step([grad])
    assert told == [id(grad)]
    scaler.update(4.0)
    with pytest.raises(ValueError):
        scaler.step([grad, np.ones(1, np.float16)])
    assert told == [id(grad)]


def test_clipping_unscaled_gradients_tells_autograd(told):
    scaler, optimizer = GradScaler(init_scale=4.0), [tensor(3.0, 4.0)]
    scaler.unscale_(optimizer)
    told.clear()
    scaler.clip_grad_norm_(optimizer, 1e-3)
    assert told == [id(optimizer[0])]
    scaler.step(optimizer)
    assert told == [id(optimizer[0])]  # not written again
    disabled = GradScaler(enabled=False)
    disabled.step(optimizer)
    assert told == [id(optimizer[0])]
    disabled.clip_grad_norm_(optimizer, 1e-6)
    assert told == [id(optimizer[0])] * 2


def test_a_fused_step_leaves_gradients_as_they_are(told):
    scaler, optimizer = GradScaler(init_scale=4.0), sgd(tensor(3.0))
    optimizer._step_supports_amp_scaling = True
    scaler.step(optimizer)
    assert told == []


def test_a_step_that_fails_has_written(told):
    class Torn(Arrays):
        def step(self):
            raise ZeroDivisionError

    grad = tensor(3.0)
    with pytest.raises(ZeroDivisionError):
        GradScaler(init_scale=4.0).step(Torn(grad))
    assert told == [id(grad)]


def test_older_versions_take_one_tensor(told, monkeypatch):
    def one(value):
        if not isinstance(value, Tensor):
            raise TypeError("expected a tensor")
        told.append(id(value))

    sys.modules["torch"].autograd.graph.increment_version = one
    grads = [tensor(1.0), tensor(2.0)]
    unscale_grads(grads, 2.0)
    assert told == list(map(id, grads))
    del sys.modules["torch"].autograd.graph.increment_version
    assert unscale_grads(grads, 2.0) is False


@pytest.mark.torch
@pytest.mark.parametrize(
    "write",
    [
        lambda grad: unscale_grads([grad], 2.0),
        lambda grad: clip_grad_norm_([grad], 1.0),
        lambda grad: clip_grad_value_([grad], 1.0),
        lambda grad: GradScaler().unscale_([grad]),
        lambda grad: GradScaler().step([grad]),
        lambda grad: GradScaler().clip_grad_norm_([grad], 1.0),
    ],
)
def test_a_saved_gradient_is_noticed_by_pytorch(write):
    torch = pytest.importorskip("torch")
    weight = torch.tensor([3.0, 4.0], requires_grad=True)
    (grad,) = torch.autograd.grad((weight**3).sum(), weight, create_graph=True)
    penalty = (grad * grad).sum()  # saves grad
    write(grad.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        penalty.backward()
    with torch.inference_mode():
        write(torch.ones(2))  # has no version
