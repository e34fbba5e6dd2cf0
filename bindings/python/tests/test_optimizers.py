# SPDX-License-Identifier: Apache-2.0
"""Kinds of optimizers: their gradients, the gradients' names, their step."""

import copy
from array import array

import numpy as np
import pytest
from conftest import Arrays, Param, Sgd, f32, sgd

from gradscaler import GradScaler, Outcome

ml_dtypes = pytest.importorskip("ml_dtypes")


def make(kind, *grads):
    if kind == "param_groups":
        return sgd(*grads)
    return Arrays(*grads) if kind == "grads" else list(grads)


kinds = pytest.mark.parametrize("kind", ["param_groups", "grads", "list"])


@kinds
def test_gradients_are_unscaled_in_place(kind):
    scaler, grad = GradScaler(init_scale=4.0), f32(8.0, -2.0)
    optimizer = make(kind, None, grad)
    scaler.unscale_(optimizer)
    assert grad.tolist() == [2.0, -0.5]
    scaler.step(optimizer)
    assert grad.tolist() == [2.0, -0.5]
    assert scaler.outcome(optimizer) is Outcome.STEPPED


@kinds
def test_an_overflow_skips(kind):
    scaler, grads = GradScaler(init_scale=4.0), [f32(8.0), f32(np.nan)]
    optimizer = make(kind, *grads)
    assert scaler.step(optimizer) is None
    assert getattr(optimizer, "steps", 0) == 0
    assert grads[0] == 2.0  # divided all the same
    assert scaler.found_inf(optimizer)


def test_what_step_returns():
    scaler = GradScaler()
    assert scaler.step(sgd(f32(1.0))) == 1
    assert scaler.step(Arrays(f32(1.0))) == "stepped"
    assert scaler.step([f32(1.0)]) is None
    assert scaler.step((f32(1.0),)) is None


def test_arguments_are_forwarded():
    scaler, optimizer = GradScaler(), sgd(f32(1.0))
    scaler.step(optimizer, "first", 3, lr=0.5)
    assert optimizer.received == (("first", 3), {"lr": 0.5})
    scaler.update()
    scaler.step(optimizer)
    assert optimizer.received == ((), {})
    with pytest.raises(TypeError, match="list"):
        scaler.step([f32(1.0)], 3)


def test_a_closure_is_refused_before_anything_happens():
    scaler, optimizer = GradScaler(), sgd(f32(65536.0))
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, closure=lambda: 1.0)
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, lambda: 1.0)
    assert optimizer.param_groups[0]["params"][0].grad == 65536.0
    with pytest.raises(RuntimeError):
        scaler.update()


@pytest.mark.parametrize("bad", [None, 3, "adam", object(), {"grads": []}, f32(1.0)])
def test_what_is_no_optimizer(bad):
    scaler = GradScaler()
    for call in (scaler.unscale_, scaler.step, lambda o: scaler.clip_grad_norm_(o, 1.0)):
        with pytest.raises(TypeError, match=r"param_groups.*grads\(\).*list"):
            call(bad)
    with pytest.raises(RuntimeError):
        scaler.update()


def test_optimizers_without_a_step_can_be_unscaled():
    class Holder:
        def __init__(self, grad):
            self.param_groups = [{"params": [Param([0.0], grad)]}]

    scaler, holder = GradScaler(init_scale=2.0), Holder(f32(4.0))
    with pytest.raises(TypeError, match=r"step\(\)"):
        scaler.step(holder)
    scaler.unscale_(holder)
    assert holder.param_groups[0]["params"][0].grad == 2.0


def test_parameters_without_grad_are_named():
    optimizer = Sgd([])
    optimizer.param_groups = [{"params": [Param([0.0])]}, {"params": [f32(1.0)]}]
    with pytest.raises(TypeError, match=r"param_groups\[1\]\['params'\]\[0\] is a ndarray"):
        GradScaler().unscale_(optimizer)


def test_several_groups_are_all_unscaled():
    params = [Param([1.0], f32(65536.0)) for _ in range(3)]
    optimizer = Sgd(params[:1])
    optimizer.param_groups.append({"params": params[1:], "lr": 1.0})
    GradScaler().step(optimizer)
    assert [float(p.data[0]) for p in params] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("param_names", "named"),
    [
        (["weight"], "weight"),
        (("weight",), "weight"),
        ([], "param_groups[0]['params'][0]"),
        ([None, None], "param_groups[0]['params'][0]"),
        (None, "param_groups[0]['params'][0]"),
        ("weight", "param_groups[0]['params'][0]"),
        (7, "param_groups[0]['params'][0]"),
    ],
)
def test_names_that_are_too_few_or_no_list(param_names, named):
    scaler, optimizer = GradScaler(), sgd(f32(np.inf))
    optimizer.param_groups[0]["param_names"] = param_names
    optimizer.param_groups[0]["params"].append(Param(f32(1.0), f32(np.inf)))
    optimizer.param_groups.append({"params": [Param(f32(1.0), f32(np.inf))], "param_names": ["bias"]})
    scaler.step(optimizer)
    names = [overflow.name for overflow in scaler.overflows(optimizer)]
    assert names == [named, "param_groups[0]['params'][1]", "bias"]


@pytest.mark.parametrize(
    "groups", [{"params": []}, 3, [3], ["params"], [{}], [{"params": None}], [{"params": 2}], [None]]
)
def test_param_groups_of_other_kinds(groups):
    optimizer = sgd()
    optimizer.param_groups = groups
    for call in (GradScaler().unscale_, GradScaler().step):
        with pytest.raises(TypeError, match="param_groups .* must be a list of dicts, each with a list 'params'"):
            call(optimizer)


@pytest.mark.parametrize("returned", [None, {"weight": f32(1.0)}, 3])
def test_grads_that_are_no_list(returned):
    optimizer = Arrays()
    optimizer.grads = lambda: returned
    for call in (GradScaler().unscale_, GradScaler().step):
        with pytest.raises(TypeError, match=r"grads\(\) returned a .*, it must return a list of arrays and None"):
            call(optimizer)


def test_names_of_gradients():
    bad = f32(np.inf)
    grouped = sgd(f32(1.0))
    grouped.param_groups.append({"params": [Param([0.0]), Param([0.0], bad)]})
    named = sgd(bad)
    named.param_groups[0]["param_names"] = ["head.bias"]
    for optimizer, name in (
        (grouped, "param_groups[1]['params'][1]"),
        (named, "head.bias"),
        (Arrays(bad), None),
        (Arrays(bad, names=["w"]), "w"),
        (Arrays(bad, names=[]), None),
        (Arrays(bad, names=[None]), None),
        ([bad], None),
    ):
        scaler = GradScaler()
        scaler.step(optimizer)
        (overflow,) = scaler.overflows(optimizer)
        assert overflow.name == name
    assert overflow.index == 0


@kinds
@pytest.mark.parametrize(
    ("grad", "error"),
    [
        (np.ones(2, np.float16), ValueError),
        (np.ones(2, np.int32), ValueError),
        (np.ones(2, np.complex64), NotImplementedError),
        (np.broadcast_to(f32(1.0), (3,)), ValueError),
        (np.ones(2, np.float32).astype(">f4"), ValueError),
        (memoryview(b"12345678").cast("f"), ValueError),
        ("text", TypeError),
        (object(), TypeError),
    ],
)
def test_refused_gradients_change_nothing(kind, grad, error):
    scaler, fine = GradScaler(init_scale=2.0), f32(2.0)
    optimizer = make(kind, fine, None, grad)
    for call in (scaler.unscale_, scaler.step, lambda o: scaler.clip_grad_norm_(o, 1.0)):
        with pytest.raises(error, match="2"):
            call(optimizer)
    assert fine == 2.0
    with pytest.raises(RuntimeError):
        scaler.update()


def test_a_refused_gradient_is_named():
    optimizer = Arrays(f32(1.0), np.ones(1, np.float16), names=["stem", "head.weight"])
    with pytest.raises(ValueError, match=r"head\.weight.*float32"):
        GradScaler().step(optimizer)
    read_only = f32(1.0)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match=r"stem.*read-only"):
        GradScaler().step(Arrays(read_only, names=["stem"]))


def test_float16_gradients_where_allowed():
    grad = np.array([1024.0, 65504.0], np.float16)
    scaler = GradScaler(init_scale=1024.0, allow_fp16_grads=True)
    scaler.unscale_([grad])
    assert grad.tolist() == [1.0, 63.96875]


def test_bfloat16_gradients():
    grad = np.array([2.0, -4.0], ml_dtypes.bfloat16)
    scaler = GradScaler(init_scale=2.0)
    scaler.unscale_([grad])
    assert grad.astype(np.float32).tolist() == [1.0, -2.0]
    for pattern in (0x7F80, 0xFF80, 0x7FC0):
        optimizer = [np.array([0, pattern], np.uint16).view(ml_dtypes.bfloat16)]
        scaler.unscale_(optimizer)
        assert scaler.found_inf(optimizer)


def test_float64_gradients_keep_their_range():
    grad = np.array([1e300, 1e-300 * 65536.0])
    scaler, optimizer = GradScaler(), sgd(grad)
    scaler.unscale_(optimizer)
    assert not scaler.found_inf(optimizer)
    assert grad.tolist() == [1e300 / 65536.0, 1e-300]


def test_mixed_dtypes_and_an_overflow_in_each_in_turn():
    dtypes = [np.float32, np.float64, ml_dtypes.bfloat16, np.float16]
    for bad in (None, 0, 1, 2, 3):
        grads = [np.full(3, 1024.0).astype(d) for d in dtypes]
        if bad is not None:
            grads[bad][1] = np.inf
        scaler = GradScaler(init_scale=1024.0, allow_fp16_grads=True)
        optimizer = sgd(*grads, data=np.zeros(3))
        scaler.unscale_(optimizer)
        assert scaler.found_inf(optimizer) == (bad is not None)
        assert [o.index for o in scaler.overflows(optimizer)] == ([] if bad is None else [bad])
        assert all(float(g[0]) == 1.0 for g in grads)


def test_strided_gradients():
    base = np.full((20, 20), 4.0, np.float32)
    columns = np.full((20, 20), 4.0, np.float32)
    scaler = GradScaler(init_scale=4.0)
    scaler.unscale_([base.T, columns[:, :5]])
    assert (base == 1.0).all()
    assert (columns[:, :5] == 1.0).all()
    assert (columns[:, 5:] == 4.0).all()


def test_buffers_other_than_numpy():
    grads = [array("f", [8.0]), array("d", [8.0]), memoryview(bytearray(8)).cast("d")]
    GradScaler(init_scale=4.0).unscale_(grads)
    assert grads[0][0] == grads[1][0] == 2.0


def test_empty_gradients_do_not_count():
    scaler, optimizer = GradScaler(growth_interval=1), sgd(np.zeros(0, np.float32))
    scaler.step(optimizer)
    assert scaler.outcome(optimizer) is Outcome.NO_GRADS
    scaler.update()
    assert scaler.get_scale() == 65536.0


def test_gradients_are_not_looked_at_again():
    scaler, optimizer = GradScaler(), sgd(f32(65536.0))
    scaler.unscale_(optimizer)
    optimizer.param_groups[0]["params"][0].grad[:] = np.nan
    assert scaler.step(optimizer) == 1
    assert np.isnan(optimizer.param_groups[0]["params"][0].data).all()


def test_gradients_are_not_asked_for_again():
    class Counting(Arrays):
        asked = 0

        def grads(self):
            self.asked += 1
            return super().grads()

    scaler, optimizer = GradScaler(), Counting(f32(1.0))
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == "stepped"
    assert (optimizer.asked, scaler.outcome(optimizer)) == (1, Outcome.STEPPED)


@pytest.mark.parametrize("scale_aware", [False, True])
@pytest.mark.parametrize("unscaled", [False, True])
def test_a_step_may_do_with_its_arrays_what_it_likes(scale_aware, unscaled):
    """An array cannot be resized while its memory is borrowed, nor NumPy's while there are further references to it."""

    class Growing(Arrays):
        _step_supports_amp_scaling = scale_aware

        def step(self):
            self.arrays[0].append(3.0)
            self.arrays[1].resize(len(self.arrays[0]))
            return self.arrays[1].size

    scaler, optimizer = GradScaler(init_scale=4.0), Growing(array("f", [8.0, 4.0]), np.ones(2, np.float32))
    if unscaled:
        scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == 3
    assert scaler.outcome(optimizer) is Outcome.STEPPED
    scaler.update()
    assert scaler.step(optimizer) == 4


class Fused(Sgd):
    """Divides by the scale itself, as PyTorch's fused optimizers do."""

    _step_supports_amp_scaling = True

    def step(self):
        self.seen = (self.grad_scale, self.found_inf)
        assert self.found_inf == 0.0
        for param in self.param_groups[0]["params"]:
            if param.grad is not None:
                param.data -= param.grad / np.float32(self.grad_scale or 1.0)
        return "fused"


def fused(*grads):
    return Fused(sgd(*grads).param_groups[0]["params"])


def test_scale_aware_optimizers_get_scaled_gradients():
    scaler, optimizer = GradScaler(init_scale=4.0), fused(f32(8.0))
    assert scaler.step(optimizer) == "fused"
    (param,) = optimizer.param_groups[0]["params"]
    assert (float(param.grad[0]), float(param.data[0])) == (8.0, -1.0)
    assert optimizer.seen == (4.0, 0.0)
    assert not hasattr(optimizer, "grad_scale")
    assert not hasattr(optimizer, "found_inf")
    assert scaler.outcome(optimizer) is Outcome.STEPPED


def test_scale_aware_optimizers_after_an_explicit_unscale():
    scaler, optimizer = GradScaler(init_scale=4.0), fused(f32(8.0))
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert optimizer.seen == (None, 0.0)
    assert optimizer.param_groups[0]["params"][0].data == -1.0


def test_scale_aware_optimizers_are_skipped_like_others():
    scaler, optimizer = GradScaler(), fused(f32(np.inf))
    assert scaler.step(optimizer) is None
    assert not hasattr(optimizer, "seen")
    assert scaler.outcome(optimizer) is Outcome.SKIPPED_OVERFLOW


def test_a_grad_scale_of_the_users_is_a_further_divisor():
    scaler, optimizer = GradScaler(), fused(f32(4 * 65536.0))
    optimizer.grad_scale = 4.0
    scaler.step(optimizer)
    assert optimizer.seen[0] == 4 * 65536.0
    assert optimizer.param_groups[0]["params"][0].data == 0.0
    assert optimizer.grad_scale == 4.0
    scaler.update()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert optimizer.seen[0] == 4.0


def test_scale_aware_optimizers_that_raise():
    class Failing(Fused):
        def step(self):
            raise OSError("no")

    scaler, optimizer = GradScaler(init_scale=4.0), Failing([Param([1.0], f32(8.0))])
    with pytest.raises(OSError, match="no"):
        scaler.step(optimizer)
    assert not hasattr(optimizer, "grad_scale")
    assert optimizer.param_groups[0]["params"][0].grad == 8.0
    with pytest.raises(RuntimeError, match="between iterations"):
        copy.copy(scaler)  # what was checked still counts
    scaler.unscale_(optimizer)  # ready still
    scaler.update()


def test_a_raising_grads_method_changes_nothing():
    class Broken(Arrays):
        def grads(self):
            raise LookupError("no gradients")

    scaler = GradScaler()
    with pytest.raises(LookupError, match="no gradients"):
        scaler.step(Broken())
    with pytest.raises(RuntimeError):
        scaler.update()


def test_two_scalers_may_share_an_optimizer():
    first, second, optimizer = GradScaler(init_scale=2.0), GradScaler(init_scale=4.0), sgd(f32(8.0))
    first.unscale_(optimizer)
    second.unscale_(optimizer)
    assert optimizer.param_groups[0]["params"][0].grad == 1.0


class Once:
    """Parameters that can be read again and again, but have no length."""

    def __init__(self, *members):
        self.members = members

    def __iter__(self):
        return iter(self.members)


@pytest.mark.parametrize("params", [Once, lambda *members: dict(enumerate(members)).values()])
def test_parameters_in_any_iterable(params):
    optimizer = sgd(f32(8.0))
    optimizer.param_groups[0]["params"] = params(Param([1.0], f32(8.0)), Param([1.0], f32(np.inf)))
    scaler = GradScaler(init_scale=4.0)
    scaler.step(optimizer)
    (overflow,) = scaler.overflows(optimizer)
    assert (overflow.index, overflow.name) == (1, "param_groups[0]['params'][1]")


def test_an_iterator_of_parameters_is_read_once_as_in_pytorch():
    param = Param([1.0], f32(8.0))
    optimizer = sgd()
    optimizer.param_groups[0].update(params=iter([param]), param_names=["weight"])
    scaler = GradScaler(init_scale=4.0)
    scaler.unscale_(optimizer)
    assert param.grad == 2.0
    param.grad = np.ones(1, np.float16)
    optimizer.param_groups[0]["params"] = (p for p in [param])
    scaler.update()
    with pytest.raises(ValueError, match=r'^step: gradient 0 \("weight"\) .*float16'):
        scaler.step(optimizer)
