# SPDX-License-Identifier: Apache-2.0
"""Gradients that were absent when the others were unscaled and are there at the step: they would be applied scaled.
PyTorch's scaler says nothing; ours warns, and does the same."""

import warnings

import numpy as np
import pytest
from conftest import Arrays, Param, f32, sgd

from gradscaler import GradScaler, Outcome

WARNING = (
    "was absent when the others were unscaled, and is there now: it is used as it is; if it comes from backward, it is "
    "still scaled. Call unscale_ after the last backward pass"
)


def params(optimizer):
    return optimizer.param_groups[0]["params"]


# trial T4
def test_a_gradient_that_came_after_unscale():
    scaler, optimizer = GradScaler(init_scale=4.0), sgd(f32(8.0), None)
    scaler.unscale_(optimizer)
    params(optimizer)[1].grad = f32(8.0)
    with pytest.warns(
        RuntimeWarning, match=r"^step: gradient 1 \(\"param_groups\[0\]\['params'\]\[1\]\"\) " + WARNING
    ) as seen:
        assert scaler.step(optimizer) == 1
    assert seen[0].filename == __file__
    assert [p.data.tolist() for p in params(optimizer)] == [[-1.0], [-7.0]]  # the second one is still scaled
    scaler.update()
    scaler.step(optimizer)  # the next iteration is a new one


def test_a_group_that_was_added_after_unscale():
    scaler, optimizer = GradScaler(init_scale=4.0), sgd(f32(8.0))
    scaler.unscale_(optimizer)
    group = {"params": [Param([1.0], f32(8.0)), Param([1.0], f32(8.0))], "param_names": ["late", "b"], "lr": 1.0}
    optimizer.param_groups.append(group)
    with pytest.warns(RuntimeWarning, match=r'gradient 1 \("late"\) \(and 1 more\) ' + WARNING):
        scaler.step(optimizer)


def test_an_array_that_was_appended_to_a_list():
    scaler, gradients = GradScaler(init_scale=4.0), [f32(8.0)]
    scaler.unscale_(gradients)
    gradients.append(f32(8.0))
    with pytest.warns(RuntimeWarning, match="^step: gradient 1 " + WARNING):
        scaler.step(gradients)
    assert scaler.outcome(gradients) is Outcome.STEPPED
    assert gradients == [2.0, 8.0]


def test_clipping_warns_too():
    scaler, optimizer = GradScaler(init_scale=4.0), sgd(f32(8.0), None)
    scaler.clip_grad_norm_(optimizer, 100.0)
    params(optimizer)[1].grad = f32(8.0)
    with pytest.warns(RuntimeWarning, match="^clip_grad_norm_: gradient 1 .*" + WARNING) as seen:
        scaler.clip_grad_norm_(optimizer, 100.0)
    assert seen[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="^step: gradient 1 .*" + WARNING):
        scaler.step(optimizer)


def test_what_gives_no_warning():
    """Gradients that went or were replaced, and where nothing is known (record, grads())."""
    scaler, optimizer = GradScaler(init_scale=4.0), sgd(f32(8.0), f32(8.0))
    scaler.unscale_(optimizer)
    params(optimizer)[0].grad = None
    params(optimizer)[1].grad = f32(1.0)
    scaler.step(optimizer)
    scaler.update()
    scaler.unscale_(optimizer)  # without the first one
    scaler.rearm(optimizer)
    scaler.record(optimizer, False)
    params(optimizer)[0].grad = f32(1.0)
    scaler.step(optimizer)
    scaler.update()
    late = Arrays(f32(8.0), None)
    scaler.unscale_(late)
    late.arrays = [f32(8.0), f32(8.0)]
    assert scaler.step(late) == "stepped"
    scaler.update()
    scaler.unscale_(optimizer)
    scaler.rearm(optimizer)
    params(optimizer).append(Param([1.0], f32(8.0)))
    scaler.step(optimizer)
    assert params(optimizer)[2].grad == 2.0


def test_as_an_error_it_comes_before_the_step():
    """With `python -W error`: nothing is applied."""
    scaler, optimizer = GradScaler(init_scale=4.0), sgd(f32(8.0), None)
    scaler.unscale_(optimizer)
    params(optimizer)[1].grad = f32(8.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match=WARNING):
            scaler.step(optimizer)
    assert (optimizer.steps, params(optimizer)[0].data.tolist()) == (0, [1.0])
    params(optimizer)[1].grad /= np.float32(4.0)
    with pytest.warns(RuntimeWarning):
        scaler.step(optimizer)
    assert optimizer.steps == 1
