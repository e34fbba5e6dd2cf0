# SPDX-License-Identifier: Apache-2.0
"""Small models and optimizers for the tests; they need only NumPy."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests share these classes: from conftest import Sgd


def pytest_configure(config):
    config.addinivalue_line("markers", "torch: needs PyTorch, and is skipped without it")


@pytest.fixture
def no_hang():
    """SIGALRM ends a test that waits forever, also inside the extension."""
    signal.alarm(120)
    yield
    signal.alarm(0)


class Param:
    def __init__(self, data, grad=None):
        self.data = np.asarray(data, np.float32)
        self.grad = grad


class Sgd:
    """Like PyTorch's: param_groups, and a step that subtracts. It counts its steps and returns their number."""

    def __init__(self, params, lr=1.0):
        self.param_groups = [{"params": list(params), "lr": lr}]
        self.steps = 0
        self.received = None

    def zero_grad(self):
        for group in self.param_groups:
            for param in group["params"]:
                param.grad = None

    def step(self, *args, **kwargs):
        self.received = (args, kwargs)
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    param.data -= group["lr"] * np.asarray(param.grad, np.float32)
        self.steps += 1
        return self.steps


class Arrays:
    """An optimizer with grads(), names() and step()."""

    def __init__(self, *grads, names=None):
        self.arrays = grads
        self.steps = 0
        if names is not None:
            self.names = lambda: names

    def grads(self):
        return self.arrays

    def step(self):
        self.steps += 1
        return "stepped"


class Loss:
    """(weight * x - y)^2 / 2 as the tensor of a framework without DLPack: it can be scaled and run backward."""

    shape, dtype = (), "float32"

    def __init__(self, weight, x, y, factor=1.0):
        self.weight, self.x, self.y, self.factor = weight, x, y, factor

    def __mul__(self, factor):
        return Loss(self.weight, self.x, self.y, self.factor * factor)

    def backward(self):
        error = self.weight.data * self.x - self.y
        self.weight.grad = np.asarray(np.float32(self.factor) * error * self.x, np.float32)


def f32(*values):
    return np.array(values, np.float32)


def sgd(*grads, data=1.0):
    """An optimizer with one parameter of value `data` for each gradient."""
    params = [Param(np.full(np.shape(g) if g is not None else (1,), data), g) for g in grads]
    return Sgd(params)


def run(scaler, *kinds):
    """Iterations that are clean (0) or overflow (1); returns (scale, tracker) after each."""
    seen = []
    for kind in kinds:
        scaler.step([f32(np.inf if kind else 1.0)])
        scaler.update()
        seen.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
    return seen
