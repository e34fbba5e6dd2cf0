# SPDX-License-Identifier: Apache-2.0
"""Modules named torch or numpy that lack some attributes: stubs, and modules that are being imported."""

import sys
import types
from array import array
from unittest import mock

import numpy as np
import pytest
from conftest import f32, sgd

from gradscaler import GradScaler, check_grads, clip_grad_norm_


class Tensor:
    pass


def module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    return made


STUBS = {
    "empty": module("stub"),
    "half imported": module("stub", Tensor=Tensor, nn=module("nn"), ndarray=np.ndarray),
    "no classes": module("stub", Tensor=3, nn=None, ndarray="ndarray", generic=None),
    "mock": mock.MagicMock(),
    "none": None,  # it is not to be imported
}


@pytest.mark.parametrize("name", ["torch", "numpy"])
@pytest.mark.parametrize("stub", STUBS)
def test_stubs(monkeypatch, name, stub):
    monkeypatch.setitem(sys.modules, name, STUBS[stub])
    scaler = GradScaler(init_scale=4.0, allow_fp16_grads=True)
    for optimizer in (sgd(f32(4.0)), [f32(4.0)], [array("f", [4.0])]):
        scaler.step(optimizer)
        scaler.update()
        scaler.clip_grad_norm_(optimizer, 1.0)
        scaler.update()
    assert check_grads([f32(1.0), array("d", [2.0])]) is False
    assert clip_grad_norm_(f32(3.0, 4.0), 1.0) == 5.0
    assert scaler.scale(f32(2.0)).tolist() == [8.0]


@pytest.mark.parametrize("stub", STUBS)
def test_scale_aware_optimizers_beside_stubs(monkeypatch, stub):
    monkeypatch.setitem(sys.modules, "torch", STUBS[stub])
    optimizer = sgd(f32(4.0))
    optimizer._step_supports_amp_scaling = True
    assert GradScaler().step(optimizer) == 1


@pytest.mark.torch
def test_the_real_one_after_a_stub(monkeypatch):
    torch = pytest.importorskip("torch")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", mock.MagicMock())
        check_grads([f32(1.0)])
    assert clip_grad_norm_(torch.tensor([3.0, 4.0]), 1.0) == 5.0
