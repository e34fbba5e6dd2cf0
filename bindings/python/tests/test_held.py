# SPDX-License-Identifier: Apache-2.0
"""Gradients that were unscaled stay in memory until their optimizer's step: nobody else gets memory that the core takes
for unscaled."""

import gc
import weakref

import numpy as np
import pytest
from conftest import Arrays, Param, Sgd, f32

from gradscaler import GradScaler

SIZE = 1000


def param_of(optimizer):
    (param,) = optimizer.param_groups[0]["params"]
    return param


class Idle(Sgd):
    def step(self):
        return None


def idle():
    return Idle([Param([1.0])])


def with_gradient(optimizer, make):
    """Gives the optimizer a new gradient; returns a weak reference to it."""
    param_of(optimizer).grad = make()
    return weakref.ref(param_of(optimizer).grad)


def numpy_gradient():
    return np.full(SIZE, 8.0, np.float32)


def torch_gradient():
    return pytest.importorskip("torch").full((SIZE,), 8.0)


def torch_transposed():
    return pytest.importorskip("torch").full((10, SIZE // 10), 8.0).t()


def torch_sparse():
    torch = pytest.importorskip("torch")
    return torch.sparse_coo_tensor(torch.arange(SIZE)[None], torch.full((SIZE,), 8.0), (SIZE,), is_coalesced=True)


MAKERS = [
    numpy_gradient,
    *(pytest.param(make, marks=pytest.mark.torch) for make in (torch_gradient, torch_transposed, torch_sparse)),
]


def unscale(scaler, optimizer):
    scaler.unscale_(optimizer)


def clip(scaler, optimizer):
    scaler.clip_grad_norm_(optimizer, float("inf"))


# trial T1
@pytest.mark.parametrize("unscale", [unscale, clip])
@pytest.mark.parametrize("make", MAKERS)
def test_freed_gradients_of_one_optimizer_are_not_those_of_another(make, unscale):
    scaler, first, second = GradScaler(init_scale=4.0), idle(), idle()
    for round_ in range(50):
        with_gradient(first, make)
        unscale(scaler, first)
        param_of(first).grad = None
        with_gradient(second, make)
        unscale(scaler, second)
        if round_ % 2:
            scaler.step(second)
        scaler.update(4.0)


# trial T1
def test_lists_and_objects():
    scaler, second = GradScaler(init_scale=4.0), Arrays()
    for _ in range(50):
        listed = [numpy_gradient(), numpy_gradient()]
        scaler.unscale_(listed)
        listed.clear()
        second.arrays = [numpy_gradient(), numpy_gradient()]
        scaler.unscale_(second)
        second.arrays = None
        scaler.step([numpy_gradient(), numpy_gradient()])
        scaler.update(4.0)


# trial T1
def test_a_known_optimizer_gets_the_memory_of_a_dead_one():
    scaler, second, memory = GradScaler(init_scale=4.0), idle(), numpy_gradient()
    scaler.skip(second)
    scaler.update()
    first = idle()
    gradient = with_gradient(first, lambda: memory[:])
    scaler.unscale_(first)
    del first
    gc.collect()
    assert gradient() is None
    with_gradient(second, lambda: memory[:])
    scaler.unscale_(second)


ENDS = {
    "step": lambda scaler, optimizer: scaler.step(optimizer),
    "skip": lambda scaler, optimizer: scaler.skip(optimizer),
    "rearm": lambda scaler, optimizer: scaler.rearm(optimizer),
    "update": lambda scaler, optimizer: scaler.update(),
    "update_to": lambda scaler, optimizer: scaler.update(2.0),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("unscale", [unscale, clip])
@pytest.mark.parametrize("make", MAKERS[:1] + MAKERS[1:2])
def test_they_are_released(make, unscale, end):
    scaler, optimizer = GradScaler(init_scale=4.0), idle()
    gradient = with_gradient(optimizer, make)
    unscale(scaler, optimizer)
    param_of(optimizer).grad = None
    assert gradient() is not None
    ENDS[end](scaler, optimizer)
    assert gradient() is None


def test_a_step_from_ready_holds_none():
    scaler, optimizer = GradScaler(init_scale=4.0), idle()
    for value in (8.0, np.inf):
        gradient = with_gradient(optimizer, lambda value=value: f32(value))
        scaler.step(optimizer)
        param_of(optimizer).grad = None
        assert gradient() is None
        scaler.update()


def test_a_skipped_step_releases_them():
    scaler, optimizer = GradScaler(init_scale=4.0), idle()
    gradient = with_gradient(optimizer, lambda: f32(np.inf))
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer) is None
    param_of(optimizer).grad = None
    assert gradient() is None


class Fails(Sgd):
    def step(self):
        raise ZeroDivisionError


# trial T3
@pytest.mark.parametrize("unscales_before", [False, True])
def test_after_a_step_that_failed(unscales_before):
    scaler, failing, second = GradScaler(init_scale=4.0), Fails([Param([1.0])]), idle()
    for _ in range(50):
        gradient = with_gradient(failing, numpy_gradient)
        if unscales_before:
            scaler.unscale_(failing)
        with pytest.raises(ZeroDivisionError):
            scaler.step(failing)
        param_of(failing).grad = None
        assert gradient() is not None
        with_gradient(second, numpy_gradient)
        scaler.unscale_(second)
        scaler.update(4.0)
        assert gradient() is None


def test_a_late_gradient_stays_late_after_a_step_that_failed():
    scaler, optimizer = GradScaler(init_scale=4.0), Fails([Param([1.0], f32(8.0)), Param([1.0])])
    scaler.unscale_(optimizer)
    optimizer.param_groups[0]["params"][1].grad = f32(8.0)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="was absent"), pytest.raises(ZeroDivisionError):
            scaler.step(optimizer)


def test_the_step_may_free_its_gradients():
    class Freeing(Sgd):
        def step(self):
            param_of(self).grad = None
            return gradient()

    scaler, optimizer = GradScaler(init_scale=4.0), Freeing([Param([1.0])])
    gradient = with_gradient(optimizer, numpy_gradient)
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer) is None


def test_numpys_resize_between_unscale_and_step():
    scaler, optimizer = GradScaler(init_scale=4.0), idle()
    with_gradient(optimizer, numpy_gradient)
    scaler.unscale_(optimizer)
    with pytest.raises(ValueError, match="cannot resize"):
        param_of(optimizer).grad.resize(2 * SIZE)
    scaler.step(optimizer)
    param_of(optimizer).grad.resize(2 * SIZE)
