# SPDX-License-Identifier: Apache-2.0
"""Subclasses with an unscale_ of their own: step calls it, as PyTorch's does."""

import numpy as np
import pytest
from conftest import f32, sgd

from gradscaler import GradScaler, Outcome


class Clipping(GradScaler):
    def __init__(self, **options):
        super().__init__(init_scale=4.0, **options)
        self.calls = 0

    def unscale_(self, optimizer):
        self.calls += 1
        super().unscale_(optimizer)
        self.clip_grad_norm_(optimizer, 1.0)


def grad(optimizer):
    return optimizer.param_groups[0]["params"][0].grad


def test_step_calls_an_overridden_unscale():
    scaler, optimizer = Clipping(), sgd(f32(40.0))
    assert scaler.step(optimizer) == 1
    assert grad(optimizer) == pytest.approx(1.0)
    assert scaler.calls == 1
    with pytest.raises(RuntimeError, match="step"):
        scaler.step(optimizer)
    assert scaler.calls == 1
    scaler.update()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert scaler.calls == 2


def test_one_of_this_object_is_called_too(monkeypatch):
    scaler, optimizer, seen = GradScaler(), sgd(f32(65536.0)), []
    monkeypatch.setattr(scaler, "unscale_", seen.append)
    scaler.step(optimizer)  # which unscales, as that has not been done
    assert seen == [optimizer]
    assert grad(optimizer) == 1.0


def test_overflows_and_lists():
    scaler, optimizer = Clipping(), sgd(f32(np.inf))
    assert scaler.step(optimizer) is None
    assert scaler.outcome(optimizer) is Outcome.SKIPPED_OVERFLOW
    gradients = [f32(40.0)]
    scaler.step(gradients)
    assert gradients[0] == pytest.approx(1.0)
    assert scaler.calls == 2


def test_what_it_raises_comes_out_of_step():
    class Refusing(GradScaler):
        def unscale_(self, optimizer):
            raise KeyError("mine")

    scaler, optimizer = Refusing(), sgd(f32(4.0))
    with pytest.raises(KeyError, match="mine"):
        scaler.step(optimizer)
    assert (optimizer.steps, grad(optimizer)) == (0, 4.0)
    with pytest.raises(TypeError, match="param_groups"):
        Clipping().step(object())


def test_it_is_not_called_where_nothing_is_to_be_unscaled():
    scaler, optimizer = Clipping(enabled=False), sgd(f32(4.0))
    assert scaler.step(optimizer) == 1
    optimizer._step_supports_amp_scaling = True
    assert (scaler.calls, grad(optimizer)) == (0, 4.0)
    scaler = Clipping()
    scaler.step(optimizer)  # scale-aware: it divides itself
    assert (scaler.calls, grad(optimizer)) == (0, 4.0)


@pytest.mark.torch
def test_as_pytorch():
    torch = pytest.importorskip("torch")

    def clipping(scaler_type):
        class Own(scaler_type):
            def unscale_(self, optimizer):
                super().unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)

        return Own("cpu", init_scale=4.0)

    def weights(scaler):
        weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        optimizer = torch.optim.SGD([weight], lr=0.5)
        scaler.scale((weight * weight).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        return weight.tolist()

    assert weights(clipping(GradScaler)) == weights(clipping(torch.amp.GradScaler)) != [0.0, 0.0]
