# SPDX-License-Identifier: Apache-2.0
"""The two reference pages, lucid's and TensorPlay's GradScaler: a test for each statement, in their order."""

import inspect

import numpy as np
import pytest
from conftest import Loss, Param, Sgd, f32, sgd

from gradscaler import DeviceError, GradScaler, Outcome, clip_grad_norm_

ml_dtypes = pytest.importorskip("ml_dtypes")

METHODS = [
    *("get_scale", "load_state_dict", "scale", "state_dict", "step", "update", "unscale_"),  # of both pages
    *("get_backoff_factor", "get_growth_factor", "get_growth_interval", "is_enabled"),
    *("set_backoff_factor", "set_growth_factor", "set_growth_interval"),
]


# lucid ---------------------------------------------------------------------------------------------------------------


def test_lucid_constructor():
    scaler = GradScaler(init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True)
    assert scaler.get_scale() == GradScaler().get_scale() == 65536.0
    assert scaler.state_dict() == GradScaler().state_dict()
    with pytest.raises(TypeError, match="init_scale="):  # its first parameter; here that is the device
        GradScaler(2.0**16)


@pytest.mark.parametrize("bad", [1.0, 0.5])
def test_lucid_growth_factor_must_be_above_1(bad):
    with pytest.raises(ValueError, match="growth_factor"):
        GradScaler(growth_factor=bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, 2.0])
def test_lucid_backoff_factor_must_be_in_0_1(bad):
    with pytest.raises(ValueError, match="backoff_factor"):
        GradScaler(backoff_factor=bad)


def test_methods_are_there_and_documented():
    for name in METHODS:
        assert inspect.getdoc(getattr(GradScaler, name))


def train(scaler, optimizer, data, clip=None):
    """The loops of the page's examples."""
    (weight,) = optimizer.param_groups[0]["params"]
    for x, y in data:
        optimizer.zero_grad()
        scaler.scale(Loss(weight, x, y)).backward()
        if clip is not None:
            scaler.unscale_(optimizer)
            clip_grad_norm_([weight.grad], max_norm=clip)
        scaler.step(optimizer)
        scaler.update()
    return float(weight.data[0])


DATA = [(1.0, 3.0), (0.5, -2.0), (2.0, 1.0)]


@pytest.mark.parametrize("clip", [None, 1.0])
def test_lucid_training_equals_ordinary_training(clip):
    scaled = train(GradScaler(), Sgd([Param([0.25])], lr=0.1), DATA, clip)
    ordinary = train(GradScaler(enabled=False), Sgd([Param([0.25])], lr=0.1), DATA, clip)
    assert scaled == ordinary != 0.25


def test_lucid_scaled_gradients_survive_half_precision():
    weight, tiny = Param([0.0]), 2.0**-30
    GradScaler().scale(Loss(weight, x=1.0, y=-tiny)).backward()
    weight.grad = np.asarray(weight.grad, np.float16).astype(np.float32)  # as a backward pass in float16 stores it
    GradScaler().unscale_(Sgd([weight]))
    assert np.float16(tiny) == 0.0
    assert weight.grad == tiny


def test_lucid_the_scale_makes_a_sawtooth():
    scaler, scales = GradScaler(init_scale=2.0**10, growth_interval=2), []
    for _ in range(14):
        limit = np.float32(2.0**12)  # what the gradients can bear
        scaler.step([f32(np.inf if scaler.get_scale() > limit else 1.0)])
        scaler.update()
        scales.append(scaler.get_scale())
    assert [np.log2(s) for s in scales] == [10, 11, 11, 12, 12, 13, 12, 12, 13, 12, 12, 13, 12, 12]


def test_lucid_overflow_skips_and_backs_off_and_growth_needs_consecutive_steps():
    scaler, optimizer = GradScaler(growth_interval=2), sgd(f32(1.0))
    (weight,) = optimizer.param_groups[0]["params"]
    for grad, scale in ((1.0, 65536), (np.inf, 32768), (1.0, 32768), (np.nan, 16384), (1.0, 16384), (1.0, 32768)):
        weight.grad = f32(grad)
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
    assert optimizer.steps == 4


def test_lucid_disabled_is_a_transparent_pass_through():
    scaler, optimizer, loss = GradScaler(enabled=False), sgd(f32(np.inf)), object()
    assert scaler.scale(loss) is loss
    assert scaler.step(optimizer) == 1
    assert scaler.update() is None
    assert scaler.step(optimizer, closure=lambda: 0.0) == 2


def test_lucid_unscaled_gradients_are_not_divided_again():
    scaler, optimizer = GradScaler(init_scale=4.0), sgd(f32(8.0))
    (weight,) = optimizer.param_groups[0]["params"]
    scaler.unscale_(optimizer)
    assert weight.grad == 2.0
    scaler.step(optimizer)
    assert (float(weight.grad[0]), float(weight.data[0])) == (2.0, -1.0)


def test_lucid_stages():
    scaler, optimizer, other = GradScaler(), sgd(f32(1.0)), sgd(f32(1.0))
    for _ in range(2):
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError):
            scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError):
            scaler.step(optimizer)
        scaler.unscale_(other)  # per optimizer
        scaler.update()


def test_lucid_several_optimizers():
    for first, second in ((np.inf, 1.0), (1.0, np.inf)):
        scaler, optimizers = GradScaler(), [sgd(f32(first)), sgd(f32(second))]
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        assert [o.steps for o in optimizers] == [int(np.isfinite(first)), int(np.isfinite(second))]
        assert scaler.get_scale() == 32768.0


def test_lucid_gradients_keep_their_dtype():
    for dtype in (np.float32, np.float64, ml_dtypes.bfloat16):
        optimizer = sgd(np.array([6.0], dtype))
        GradScaler(init_scale=4.0).unscale_(optimizer)
        (weight,) = optimizer.param_groups[0]["params"]
        assert weight.grad.dtype == dtype
        assert weight.grad == 1.5


def test_lucid_bfloat16_is_divided_in_float32_and_rounded_once():
    bits = np.arange(0x3F80, 0x4080, dtype=np.uint16)
    grad = bits.view(ml_dtypes.bfloat16).copy()
    GradScaler(init_scale=3.0).unscale_([grad])
    products = bits.view(ml_dtypes.bfloat16).astype(np.float32) * np.float32(1.0 / 3.0)
    assert np.array_equal(grad.view(np.uint16), products.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_lucid_float64_is_divided_in_float64():
    grad = np.array([1.0])
    GradScaler(init_scale=3.0).unscale_([grad])
    assert grad[0] == 1.0 / 3.0


@pytest.mark.parametrize(
    ("bad", "error"), [(np.ones(1, np.float16), ValueError), (np.ones(1, np.complex64), NotImplementedError)]
)
def test_lucid_refused_gradients(bad, error):
    scaler, optimizer = GradScaler(init_scale=2.0), sgd(f32(4.0), bad)
    for call in (scaler.unscale_, scaler.step):
        with pytest.raises(error):
            call(optimizer)
    first, second = optimizer.param_groups[0]["params"]
    assert (first.grad, second.grad, optimizer.steps) == (4.0, 1.0, 0)
    second.grad = None
    scaler.unscale_(optimizer)  # the stage has not changed
    assert first.grad == 2.0


def test_lucid_step_no_longer_asks_for_float32_once_unscaled():
    scaler, optimizer = GradScaler(), sgd(f32(1.0))
    scaler.unscale_(optimizer)
    optimizer.param_groups[0]["params"][0].grad = np.ones(1, np.float16)  # "if the gradients still need unscaling"
    assert scaler.step(optimizer) == 1


def test_lucid_all_entries_are_divided_after_an_overflow_too():
    optimizer = sgd(f32(8.0, np.inf, -np.inf, np.nan), f32(4.0), data=0.0)
    scaler = GradScaler(init_scale=4.0)
    scaler.unscale_(optimizer)
    first, second = optimizer.param_groups[0]["params"]
    assert first.grad[:3].tolist() == [2.0, np.inf, -np.inf]
    assert np.isnan(first.grad[3])
    assert second.grad == 1.0
    assert scaler.step(optimizer) is None


def test_lucid_what_step_forwards_and_returns():
    scaler, optimizer = GradScaler(), sgd(f32(1.0))
    assert scaler.step(optimizer, 1, two=2) == 1
    assert optimizer.received == ((1,), {"two": 2})
    scaler.update()
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, closure=lambda: 0.0)


def test_lucid_scale_keeps_the_structure():
    scaler, weight = GradScaler(init_scale=2.0), Param([1.0])
    scaled = scaler.scale([Loss(weight, 1.0, 0.0), Loss(weight, 2.0, 0.0)])
    assert isinstance(scaled, list)
    assert [loss.factor for loss in scaled] == [2.0, 2.0]


def test_lucid_state_dict_is_of_plain_numbers():
    scaler = GradScaler(init_scale=8.0)
    saved = scaler.state_dict()
    assert all(type(v) in (float, int) for v in saved.values())
    restored = GradScaler()
    restored.load_state_dict(saved)
    assert restored.get_scale() == 8.0
    restored.load_state_dict(
        {"scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 10, "growth_tracker": 9}
    )
    restored.step([f32(1.0)])
    restored.update()
    assert restored.get_scale() == 8.0


def test_lucid_update_with_a_scale():
    scaler, optimizer = GradScaler(), sgd(f32(np.inf))
    scaler.step(optimizer)
    scaler.update(new_scale=9.0)
    assert scaler.get_scale() == 9.0
    optimizer.param_groups[0]["params"][0].grad = f32(1.0)
    scaler.unscale_(optimizer)  # ready again
    scaler.update()
    assert scaler.get_scale() == 9.0


# TensorPlay ----------------------------------------------------------------------------------------------------------


def test_tensorplay_constructor():
    scaler = GradScaler("cpu", 1024.0, 3.0, 0.25, 7, True)
    assert scaler.get_scale() == 1024.0
    assert scaler.get_growth_factor() == 3.0
    assert scaler.get_backoff_factor() == 0.25
    assert scaler.get_growth_interval() == 7
    assert scaler.is_enabled() is True
    with pytest.raises(DeviceError):  # never silently disabled
        GradScaler("cuda")


def test_tensorplay_getters_return_plain_numbers():
    for scaler in (GradScaler(), GradScaler(enabled=False)):
        assert type(scaler.get_backoff_factor()) is float
        assert type(scaler.get_growth_factor()) is float
        assert type(scaler.get_growth_interval()) is int
        assert type(scaler.get_scale()) is float
        assert type(scaler.is_enabled()) is bool
    assert scaler.get_scale() == 1.0


def test_tensorplay_setters():
    scaler = GradScaler(growth_interval=1)
    scaler.set_growth_factor(4.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(2)
    for grad, scale in ((1.0, 65536), (1.0, 262144), (np.inf, 65536)):
        scaler.step([f32(grad)])
        scaler.update()
        assert scaler.get_scale() == scale
    assert scaler.get_growth_interval() == 2


def test_tensorplay_load_state_dict_is_a_no_op_when_disabled():
    scaler = GradScaler(enabled=False)
    scaler.load_state_dict(GradScaler(init_scale=2.0).state_dict())
    scaler.load_state_dict({})
    assert (scaler.get_scale(), scaler.state_dict()) == (1.0, {})


def test_tensorplay_scale_of_a_tensor_a_list_a_tuple_an_iterable():
    scaler = GradScaler(init_scale=2.0)
    assert scaler.scale(f32(3.0)) == 6.0
    assert scaler.scale([f32(3.0)]) == [6.0]
    assert scaler.scale((f32(3.0),)) == (6.0,)
    assert list(scaler.scale(iter([f32(3.0)]))) == [6.0]
    outputs = (f32(3.0),)
    assert GradScaler(enabled=False).scale(outputs) is outputs


def test_tensorplay_state_dict_has_five_entries():
    scaler = GradScaler()
    for _ in range(3):
        scaler.step([f32(1.0)])
        scaler.update()
    assert scaler.state_dict() == {
        "scale": 65536.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 3,
    }
    assert GradScaler(enabled=False).state_dict() == {}


def test_tensorplay_step_unscales_unless_that_was_done():
    for explicitly in (True, False):
        scaler, optimizer = GradScaler(), sgd(f32(65536.0))
        if explicitly:
            scaler.unscale_(optimizer)
        assert scaler.step(optimizer) == 1
        assert optimizer.param_groups[0]["params"][0].data == 0.0


def test_tensorplay_a_skipped_step_leaves_the_parameters():
    optimizer = sgd(f32(np.nan), f32(1.0), data=3.0)
    GradScaler().step(optimizer)
    assert [float(p.data[0]) for p in optimizer.param_groups[0]["params"]] == [3.0, 3.0]


def test_tensorplay_clipping():
    scaler, optimizer = GradScaler(), sgd(f32(3 * 65536.0), f32(4 * 65536.0))
    scaler.unscale_(optimizer)
    gradients = [p.grad for p in optimizer.param_groups[0]["params"]]
    assert clip_grad_norm_(gradients, 1.0) == 5.0
    assert scaler.step(optimizer) == 1


def test_tensorplay_unscale_once_per_step():
    scaler, optimizer = GradScaler(), sgd(f32(1.0))
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError):
        scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == 1
    assert scaler.outcome(optimizer) is Outcome.STEPPED


def test_tensorplay_a_tensor_as_new_scale_is_copied():
    scaler, new_scale = GradScaler(), np.array(77.0)
    scaler.update(123.0)
    assert scaler.get_scale() == 123.0
    scaler.update(new_scale)
    new_scale[()] = 5.0
    assert scaler.get_scale() == 77.0
    with pytest.raises(ValueError):
        scaler.update(np.array([1.0, 2.0]))


def test_tensorplay_update_belongs_at_the_end_of_an_iteration():
    with pytest.raises(RuntimeError):
        GradScaler().update()
