# SPDX-License-Identifier: Apache-2.0
"""The core's messages name functions and options as Python does; names of the user's stay as they are."""

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
