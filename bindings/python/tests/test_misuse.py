# SPDX-License-Identifier: Apache-2.0
"""Gradients that would be divided twice, or applied scaled, are refused."""

import numpy as np
import pytest
from conftest import Arrays, Param, Sgd, f32, sgd

from gradscaler import GradScaler


# trial T1
@pytest.mark.parametrize("strict", [False, True])
def test_a_fresh_list_each_time(strict):
    scaler, weights = GradScaler(init_scale=1024.0, strict=strict), [f32(1024.0), f32(2048.0)]
    scaler.unscale_([g for g in weights])
    with pytest.raises(RuntimeError, match="^step: gradient 0 shares memory with gradient 0 of another optimizer"):
        scaler.step([g for g in weights])
    assert weights == [1.0, 2.0]
    scaler.update()
    for _ in range(3):  # the memory is used again after a step
        for weight in weights:
            weight[:] = 2048.0
        scaler.step([g for g in weights])
        assert weights == [2.0, 2.0]
        scaler.update(1024.0)


class FailsOnce(Sgd):
    def step(self):
        if self.received is None:
            self.received = ()
            raise ZeroDivisionError
        return super().step()


# trial T3
def test_gradients_made_anew_after_a_step_that_failed():
    scaler, param = GradScaler(init_scale=4.0), Param([1.0], f32(8.0))
    optimizer = FailsOnce([param])
    with pytest.raises(ZeroDivisionError):
        scaler.step(optimizer)
    unscaled, param.grad = param.grad, f32(8.0)
    with pytest.raises(RuntimeError, match=r"^step: gradient 0 .* before the step that failed.*update .*rearm"):
        scaler.step(optimizer)
    assert (optimizer.steps, param.data.tolist()) == (0, [1.0])
    param.grad = unscaled
    assert scaler.step(optimizer) == 1
    assert param.data.tolist() == [-1.0]


@pytest.mark.parametrize("by_environment", [False, True])
def test_strict_finds_replaced_gradients(monkeypatch, by_environment):
    if by_environment:
        monkeypatch.setenv("GSC_STRICT", "1")
    scaler, optimizer = GradScaler(init_scale=4.0, strict=not by_environment), sgd(f32(8.0))
    (param,) = optimizer.param_groups[0]["params"]
    scaler.unscale_(optimizer)
    unscaled, param.grad = param.grad, f32(8.0)
    with pytest.raises(RuntimeError, match=r"^step: gradient 0 .*strict"):
        scaler.step(optimizer)
    param.grad = unscaled
    assert scaler.step(optimizer) == 1
    scaler.update()
    if not by_environment:
        plain = GradScaler(init_scale=4.0)
        plain.unscale_(optimizer)
        param.grad = f32(8.0)
        assert plain.step(optimizer) == 2


def test_strict_finds_a_gradient_of_two_optimizers():
    scaler, shared = GradScaler(init_scale=4.0, strict=True), f32(8.0)
    first, second = Arrays(shared), Arrays(shared)
    scaler.step(first)
    with pytest.raises(RuntimeError, match="another optimizer"):
        scaler.step(second)
    assert np.all(shared == 2.0)
