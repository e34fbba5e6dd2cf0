# SPDX-License-Identifier: Apache-2.0
"""The core's messages name functions and options as Python does; names of the user's stay as they are."""

import array
import re

import numpy as np
import pytest
from conftest import Arrays, f32

from gradscaler import DivergedError, GradScaler, unscale_grads

NAMES = ["gsc_scaler_unscale", "gsc_clip_grad_norm.weight", 'a "gsc_scaler_b" c', '"gsc_', 'gsc_"', "plain"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_refused_gradients_stay_what_they_are(name):
    optimizer = Arrays(np.ones(1, np.float16), names=[name])
    place = re.escape(f'gradient 0 ("{name}")')
    with pytest.raises(ValueError, match=f"^unscale_: {place} .*allow_fp16_grads=True"):
        GradScaler().unscale_(optimizer)


def test_names_of_diverged_gradients_stay_what_they_are():
    scaler, optimizer = GradScaler(max_consecutive_skips=1), Arrays(f32(np.inf), f32(np.nan), names=NAMES[:2])
    scaler.step(optimizer)
    with pytest.raises(DivergedError) as caught:
        scaler.update()
    assert f'"{NAMES[0]}" (inf), "{NAMES[1]}" (NaN)' in str(caught.value)
    assert str(caught.value).startswith("update: 1 iteration in a row overflowed")


def test_names_of_any_length():
    for length in range(150, 300):
        optimizer = Arrays(np.ones(1, np.float16), names=["x" * length])
        with pytest.raises(ValueError, match="^unscale_: gradient 0 .*allow_fp16_grads=True"):
            GradScaler().unscale_(optimizer)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.clongdouble])
def test_complex_numbers_of_any_width(dtype):
    with pytest.raises(NotImplementedError, match="complex"):
        unscale_grads([np.ones(1, dtype)], 2.0)


@pytest.mark.parametrize("single", [f32(1.0), array.array("f", [1.0])])
def test_an_array_that_is_in_no_list(single):
    scaler, name = GradScaler(), type(single).__name__
    with pytest.raises(TypeError, match=rf"got {name}, which has no step\(\); pass \[array\]$"):
        scaler.step(single)
    for call in (scaler.unscale_, lambda single: scaler.clip_grad_norm_(single, 1.0)):
        with pytest.raises(TypeError, match=rf"got {name}; pass \[array\]$"):
            call(single)


def test_a_dict_of_gradients():
    scaler, grads = GradScaler(), {"w": f32(1.0)}
    for call in (scaler.step, scaler.unscale_, lambda grads: scaler.clip_grad_norm_(grads, 1.0)):
        with pytest.raises(TypeError, match=r"; keep grads = list\(d.values\(\)\) and pass that list each time$"):
            call(grads)


def test_what_is_nothing_like_gradients_gets_no_advice():
    for value in (object(), "text", b"bytes", None):
        with pytest.raises(TypeError, match=rf"got {type(value).__name__}$"):
            GradScaler().unscale_(value)


def test_clipping_wants_the_optimizer():
    advice = r"; pass the optimizer: clip_grad_norm_\(optimizer, max_norm\)$"
    with pytest.raises(TypeError, match="got generator" + advice):
        GradScaler().clip_grad_norm_((parameter for parameter in [f32(1.0)]), 1.0)
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(1, 1)
    for parameters in (list(model.parameters()), tuple(model.parameters())):
        with pytest.raises(TypeError, match="^gradient 0 is a parameter" + advice):
            GradScaler().clip_grad_norm_(parameters, 1.0)
    with pytest.raises(TypeError, match=r"^gradient 0 is a parameter; pass gradients: "):  # a mistake of its grads()
        GradScaler().clip_grad_norm_(Arrays(*model.parameters()), 1.0)


def test_the_result_of_another_list():
    scaler, grads = GradScaler(), [f32(1.0)]
    scaler.step(grads)
    with pytest.raises(RuntimeError, match=r"of a list of arrays, ask with the same list object, before update\(\)$"):
        scaler.outcome(list(grads))
