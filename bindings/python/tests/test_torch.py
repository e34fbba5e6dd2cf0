# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors and optimizers: the statements of PyTorch's own tests of its GradScaler, and equal results."""

import copy
import math
import pickle

import pytest
from conftest import Arrays

from gradscaler import DeviceError, GradScaler, Outcome, clip_grad_norm_, grad_norm, grad_statistics, unscale_grads

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def parameter(value, grad=None, dtype=torch.float32):
    result = torch.nn.Parameter(torch.tensor(value, dtype=dtype))
    if grad is not None:
        result.grad = torch.tensor(grad, dtype=dtype)
    return result


def sgd(*grads, lr=1.0, **options):
    return torch.optim.SGD([parameter([1.0] * len(g), g) for g in grads], lr=lr, **options)


# scale ---------------------------------------------------------------------------------------------------------------


def test_scale_keeps_the_graph():
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * 2).sum()
    scaled = GradScaler(init_scale=8.0).scale(loss)
    scaled.backward()
    assert weight.grad.tolist() == [16.0, 16.0, 16.0]
    assert (loss.item(), scaled.item()) == (6.0, 48.0)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (torch.ones(1, dtype=torch.float16), torch.float16),
        (torch.ones((), dtype=torch.float16), torch.float32),
        (torch.ones(1, dtype=torch.bfloat16), torch.bfloat16),
        (torch.ones(1, dtype=torch.float64), torch.float64),
        (torch.ones(1, dtype=torch.int64), torch.float32),
    ],
)
def test_scale_promotes_as_pytorch(value, dtype):
    scaled = GradScaler().scale(value)
    reference = torch.amp.GradScaler("cpu").scale(value)
    assert scaled.dtype == reference.dtype == dtype
    assert torch.equal(scaled, reference)


def test_the_class_is_no_tensor():
    for bad in (torch.Tensor, torch.nn.Parameter):
        with pytest.raises(ValueError, match="got"):
            GradScaler().scale(bad)


def test_scale_of_structures():
    scaler = GradScaler(init_scale=2.0)
    four, eight = torch.tensor(4.0), torch.tensor(8.0)
    assert scaler.scale([eight, (four, eight), [four]]) == [16.0, (8.0, 16.0), [8.0]]
    assert list(scaler.scale(t for t in (four, eight))) == [8.0, 16.0]
    assert scaler.scale([four, 4.0]) == [8.0, 8.0]


def test_scale_after_inference_mode():
    scaler, weight = GradScaler(init_scale=2.0), torch.ones(1, requires_grad=True)
    with torch.inference_mode():
        scaler.scale(torch.ones(1))
    scaler.scale(weight.sum()).backward()
    assert weight.grad == 2.0


# unscale_ ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("bad", [None, math.inf, math.nan])
def test_unscale_of_dense_and_strided_gradients(dtype, bad):
    def fours():
        return torch.full((20, 20), 4.0, dtype=dtype)

    grads = [fours(), fours().t(), fours()[:, :5]]
    for place in range(3) if bad is not None else [None]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros_like(g)) for g in grads], lr=1.0)
        for param, grad in zip(optimizer.param_groups[0]["params"], grads):
            param.grad = grad.clone(memory_format=torch.preserve_format)
        if place is not None:
            optimizer.param_groups[0]["params"][place].grad[2, 2] = bad
        scaler = GradScaler(init_scale=4.0)
        scaler.unscale_(optimizer)
        assert scaler.found_inf(optimizer) == (bad is not None)
        assert [o.index for o in scaler.overflows(optimizer)] == ([] if bad is None else [place])
        for param in optimizer.param_groups[0]["params"]:
            finite = param.grad[torch.isfinite(param.grad)]
            assert (finite == 1.0).all()


def test_columns_between_are_left_alone():
    base = torch.full((20, 20), 4.0)
    param = torch.nn.Parameter(torch.zeros(20, 5))
    param.grad = base[:, :5]
    GradScaler(init_scale=4.0).unscale_(torch.optim.SGD([param], lr=1.0))
    assert (base[:, :5] == 1.0).all()
    assert (base[:, 5:] == 4.0).all()


def test_refusals_name_the_parameter():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).half())
    optimizer = torch.optim.SGD(model.named_parameters(), lr=1.0)
    for param in model.parameters():
        param.grad = torch.full_like(param, 2.0)
    scaler = GradScaler(init_scale=2.0)
    for call in (scaler.unscale_, scaler.step):
        with pytest.raises(ValueError, match=r"1\.weight.*float32"):
            call(optimizer)
    assert (model[0].weight.grad == 2.0).all()
    unnamed = torch.optim.SGD([parameter([1.0 + 1j], [1.0 + 1j], torch.complex64)], lr=1.0)
    with pytest.raises(NotImplementedError, match=r"param_groups\[0\]\['params'\]\[0\]"):
        scaler.unscale_(unnamed)


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
def test_gradients_with_a_graph_of_their_own():
    weight = torch.nn.Parameter(torch.tensor([3.0]))
    (weight**2).sum().backward(create_graph=True)
    assert weight.grad.requires_grad
    scaler = GradScaler(init_scale=2.0)
    scaler.unscale_(torch.optim.SGD([weight], lr=1.0))
    assert weight.grad.item() == 3.0
    weight.grad = None  # or the two would keep each other alive


def sparse(values, dtype=torch.float32, index=((0, 1, 1), (2, 0, 2))):
    return torch.sparse_coo_tensor(torch.tensor(index), torch.tensor(values, dtype=dtype), (2, 3))


def with_sparse_gradient(grad):
    param = torch.nn.Parameter(torch.zeros(2, 3, dtype=grad.dtype))
    param.grad = grad
    return torch.optim.SGD([param], lr=1.0), param


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_sparse_gradients(dtype):
    for bad in (None, math.inf, math.nan):
        optimizer, param = with_sparse_gradient(sparse([16.0, bad or 32.0, 64.0], dtype))
        scaler = GradScaler(init_scale=4.0, allow_fp16_grads=True)
        scaler.unscale_(optimizer)
        assert scaler.found_inf(optimizer) == (bad is not None)
        dense = param.grad.to_dense()
        assert dense[0, 2] == 4.0
        assert dense[1, 2] == 16.0
        assert bad is not None or dense[1, 0] == 8.0
    assert param.grad.is_sparse


def test_sparse_duplicates_that_overflow_in_their_sum():
    index = ((1, 1), (2, 2))
    for values, overflows in (((64000.0, 64000.0), True), ((32768.0, 32768.0), True), ((1.0, 2.0), False)):
        optimizer, _ = with_sparse_gradient(sparse(values, torch.float16, index))
        scaler = GradScaler(init_scale=4.0, allow_fp16_grads=True)
        scaler.unscale_(optimizer)
        assert scaler.found_inf(optimizer) == overflows
    optimizer, param = with_sparse_gradient(sparse((1.0, 2.0), torch.float16, index))
    with pytest.raises(ValueError):
        GradScaler().unscale_(optimizer)
    assert not param.grad.is_coalesced()
    with pytest.raises(ValueError, match="coalesce"):
        GradScaler(allow_fp16_grads=True).unscale_([param.grad])
    optimizer, param = with_sparse_gradient(sparse((4.0, 8.0), torch.float32, index))
    GradScaler(init_scale=4.0).unscale_(optimizer)
    assert param.grad.to_dense()[1, 2] == 3.0


def test_other_devices_are_refused():
    param = torch.nn.Parameter(torch.zeros(2, device="meta"))
    param.grad = torch.zeros(2, device="meta")
    with pytest.raises(DeviceError, match=r"param_groups\[0\].*device meta"):
        GradScaler().unscale_(torch.optim.SGD([param], lr=1.0))


def test_other_layouts_are_refused():
    scaler, grad = GradScaler(), torch.eye(3).to_mkldnn()
    for optimizer, name in (([grad], ""), (Arrays(grad, names=["w"]), r'\("w"\) ')):
        with pytest.raises(ValueError, match=rf"^gradient 0 {name}.*layout torch._mkldnn.*to_dense\(\)"):
            scaler.step(optimizer)


# options -------------------------------------------------------------------------------------------------------------


def test_options_may_be_tensors_of_one_element():
    scaler = GradScaler(init_scale=torch.tensor([4.0]), growth_interval=torch.tensor(3), enabled=torch.tensor(True))
    assert (scaler.get_scale(), scaler.get_growth_interval()) == (4.0, 3)
    for bad in (torch.tensor(True), torch.tensor(4j), torch.ones((), device="meta")):
        for call in (lambda: GradScaler(init_scale=bad), lambda: grad_norm([], norm_type=bad)):
            with pytest.raises(TypeError, match="init_scale|norm_type"):
                call()
        with pytest.raises(TypeError, match="new_scale"):
            scaler.update(bad)
    for bad in (torch.ones(2), torch.ones((), requires_grad=True)):
        with pytest.raises(ValueError, match="init_scale"):
            GradScaler(init_scale=bad)
    for bad in (torch.ones(2), torch.ones((), device="meta"), torch.tensor(1.0)):
        with pytest.raises((TypeError, ValueError), match="enabled"):
            GradScaler(enabled=bad)


# step ----------------------------------------------------------------------------------------------------------------


def test_step_returns_and_refuses_closures():
    scaler, optimizer = GradScaler(init_scale=4.0), sgd([8.0])
    assert scaler.step(optimizer) is None
    assert optimizer.param_groups[0]["params"][0].item() == -1.0
    scaler.update()
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, closure=lambda: 7.0)
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, lambda: 7.0)
    assert GradScaler(enabled=False).step(optimizer, lambda: 7.0) == 7.0


def test_absent_gradients():
    optimizer = torch.optim.SGD([parameter([1.0], [8.0]), parameter([1.0])], lr=1.0)
    scaler = GradScaler(init_scale=4.0)
    scaler.step(optimizer)
    assert [p.item() for p in optimizer.param_groups[0]["params"]] == [-1.0, 1.0]
    optimizer.zero_grad()
    scaler.update()
    scaler.step(optimizer)
    assert scaler.outcome(optimizer) is Outcome.NO_GRADS


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_no_second_look_between_unscale_and_step(kind, fused):
    for bad in (math.inf, math.nan):
        optimizer = kind([parameter([1.0, 1.0], [1.0, 1.0])], lr=1.0, fused=fused)
        scaler = GradScaler()
        scaler.unscale_(optimizer)
        optimizer.param_groups[0]["params"][0].grad.fill_(bad)
        scaler.step(optimizer)
        assert not torch.isfinite(optimizer.param_groups[0]["params"][0]).any()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("fused", [False, True])
def test_a_skipped_step_changes_no_bit(kind, fused):
    options = {"lr": 0.1, "fused": fused} if kind is torch.optim.Adam else {"lr": 0.1, "fused": fused, "momentum": 0.9}
    optimizer = kind([parameter([1.0, 2.0], [1.0, 1.0])], **options)
    (param,) = optimizer.param_groups[0]["params"]
    scaler = GradScaler(init_scale=2.0)
    scaler.step(optimizer)
    scaler.update()
    before, state = param.clone(), copy.deepcopy(optimizer.state_dict())
    param.grad = torch.tensor([1.0, math.nan])
    assert scaler.step(optimizer) is None
    assert torch.equal(param, before)
    after = optimizer.state_dict()["state"][0]
    assert all(torch.equal(torch.as_tensor(v), torch.as_tensor(after[k])) for k, v in state["state"][0].items())


class Fused(torch.optim.SGD):
    _step_supports_amp_scaling = True

    def step(self):
        self.seen = (self.grad_scale, self.found_inf)


def test_the_fused_contract():
    optimizer = Fused([parameter([1.0], [1.0])], lr=1.0)
    scaler = GradScaler()
    scaler.step(optimizer)
    scale, found_inf = optimizer.seen
    assert (scale.item(), found_inf.item(), scale.dtype, scale.shape) == (65536.0, 0.0, torch.float32, ())
    assert not hasattr(optimizer, "grad_scale")
    assert not hasattr(optimizer, "found_inf")
    scaler.update()
    optimizer.grad_scale = torch.tensor(4.0)
    scaler.step(optimizer)
    assert optimizer.seen[0].item() == 4 * 65536.0
    scaler.update()
    del optimizer.grad_scale
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert optimizer.seen[0] is None


def test_the_older_contract():
    class TakesScaler(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, grad_scaler=None):
            return grad_scaler, hasattr(self, "grad_scale")

    scaler, optimizer = GradScaler(), TakesScaler([parameter([1.0], [1.0])], lr=1.0)
    with pytest.warns(FutureWarning):
        assert scaler.step(optimizer) == (scaler, False)


# update --------------------------------------------------------------------------------------------------------------


def test_a_tensor_as_new_scale():
    scaler, new_scale = GradScaler(), torch.tensor([77.0])
    scaler.update(new_scale)
    new_scale.fill_(5.0)
    assert scaler.get_scale() == 77.0
    scaler.update(torch.tensor(3))
    assert scaler.get_scale() == 3.0
    for bad in (torch.ones(2), torch.ones(1, requires_grad=True), torch.ones(0)):
        with pytest.raises(ValueError):
            scaler.update(bad)
    assert scaler.get_scale() == 3.0


# PyTorch's shared training case: two models of two layers, an infinity at the third of four batches ------------------


def make_case(kind=torch.optim.SGD, **options):
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [kind(model.parameters(), lr=0.1, **options) for model in models]
    data = [(torch.randn(8, 8), torch.randn(8, 8)) for _ in range(4)]
    return models, optimizers, data


def run_case(iterate, kind=torch.optim.SGD, enabled=True, final=512.0, tolerance=1e-7, **options):
    """iterate(model, optimizer, scaler or None, index, x, y) does one batch; the second model is the control."""
    (scaled, control), (optimizer, other), data = make_case(kind, **options)
    scaler = GradScaler(init_scale=128.0, growth_factor=2.0, growth_interval=1, enabled=enabled)
    for index, (x, y) in enumerate(data):
        iterate(scaled, optimizer, scaler, index, x, y)
        if index != 2 or not enabled:
            iterate(control, other, None, index, x, y)
    for ours, theirs in zip(scaled.parameters(), control.parameters()):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=tolerance)
    assert scaler.get_scale() == (final if enabled else 1.0)


def loss_of(model, x, y):
    return torch.nn.functional.mse_loss(model(x), y)


def plain(unscale=False, clip=None, between=lambda scaler: scaler):
    def iterate(model, optimizer, scaler, index, x, y):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        if scaler is None:
            loss.backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            return
        scaler.scale(loss).backward()
        if index == 2 and scaler.is_enabled():
            model[1].weight.grad.fill_(math.inf)
        if unscale:
            scaler.unscale_(optimizer)
        if clip is not None:
            limit = clip if unscale else clip * scaler.get_scale()
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
        scaler.step(optimizer)
        scaler.update()

    return iterate


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("unscale", [True, False])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
        (torch.optim.Adam, {}),
        (torch.optim.Adam, {"fused": True}),
        (torch.optim.AdamW, {"fused": True, "amsgrad": True}),
    ],
)
def test_training_equals_the_control(kind, options, unscale, enabled):
    run_case(plain(unscale), kind, enabled, tolerance=1e-6, **options)


@pytest.mark.parametrize("unscale", [True, False])
def test_clipping(unscale):
    run_case(plain(unscale, clip=0.2), tolerance=1e-5)


def test_accumulation():
    def iterate(model, optimizer, scaler, index, x, y):
        loss = loss_of(model, x, y) / 2
        (loss if scaler is None else scaler.scale(loss)).backward()
        if index % 2 == 1:
            optimizer.step() if scaler is None else scaler.step(optimizer)
            if scaler is not None:
                scaler.update()
            optimizer.zero_grad()

    (scaled, control), (optimizer, other), data = make_case()
    scaler = GradScaler(init_scale=128.0, growth_interval=1)
    for index, (x, y) in enumerate(data):
        iterate(scaled, optimizer, scaler, index, x, y)
        iterate(control, other, None, index, x, y)
    assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(scaled.parameters(), control.parameters()))
    assert scaler.get_scale() == 512.0


def test_gradient_penalty():
    def iterate(model, optimizer, scaler, index, x, y):
        optimizer.zero_grad()
        loss, parameters = loss_of(model, x, y), list(model.parameters())
        scaled = loss if scaler is None else scaler.scale(loss)
        grads = torch.autograd.grad(scaled, parameters, create_graph=True)
        if scaler is not None:
            grads = [g / scaler.get_scale() for g in grads]
        loss = loss + sum(g.pow(2).sum() for g in grads).sqrt()
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is None:
            optimizer.step()
            return
        if index == 2:
            model[1].weight.grad.fill_(math.inf)
        scaler.step(optimizer)
        scaler.update()

    run_case(iterate, tolerance=1e-5)


def test_two_optimizers():
    models, optimizers, data = make_case()
    scaler, steps = GradScaler(init_scale=128.0, growth_interval=1), [0, 0]
    for index, (x, y) in enumerate(data):
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, x, y)).backward()
        if index == 2:
            models[1][1].weight.grad.fill_(math.inf)
        scaler.unscale_(optimizers[0])
        for i, optimizer in enumerate(optimizers):
            scaler.step(optimizer)
            steps[i] += scaler.outcome(optimizer) is Outcome.STEPPED
        scaler.update()
    assert (steps, scaler.get_scale()) == ([4, 3], 512.0)


def test_pickling_every_iteration():
    (scaled, control), (optimizer, other), data = make_case()
    scaler, kept = GradScaler(init_scale=128.0, growth_interval=1), GradScaler(init_scale=128.0, growth_interval=1)
    for index, (x, y) in enumerate(data):
        scaler = pickle.loads(pickle.dumps(scaler))
        plain()(scaled, optimizer, scaler, index, x, y)
        plain()(control, other, kept, index, x, y)
    assert all(torch.equal(a, b) for a, b in zip(scaled.parameters(), control.parameters()))
    assert scaler.get_scale() == 512.0


# Equality with torch.amp.GradScaler ----------------------------------------------------------------------------------


def test_states_go_both_ways():
    ours, theirs = GradScaler(), torch.amp.GradScaler("cpu")
    theirs.load_state_dict(GradScaler("cpu", 3.0, 4.0, 0.25, 7).state_dict())
    theirs.scale(torch.ones(1))
    ours.load_state_dict(theirs.state_dict())
    assert ours.state_dict() == theirs.state_dict() == GradScaler("cpu", 3.0, 4.0, 0.25, 7).state_dict()
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_the_same_bits_as_pytorch():
    generator = torch.Generator().manual_seed(1)
    scalers = [cls("cpu", 3000.7, 1.9, 0.3, 3) for cls in (GradScaler, torch.amp.GradScaler)]
    optimizers = [torch.optim.SGD([torch.nn.Parameter(torch.zeros(40))], lr=0.1, momentum=0.9) for _ in range(2)]
    for _ in range(60):
        grad = torch.randn(40, generator=generator) * 1e4
        if torch.rand(1, generator=generator) < 0.2:
            grad[3] = math.inf
        for scaler, optimizer in zip(scalers, optimizers):
            (param,) = optimizer.param_groups[0]["params"]
            scaler.scale(torch.ones(1))
            param.grad = grad.clone()
            scaler.step(optimizer)
            scaler.update()
        first, second = (o.param_groups[0]["params"][0] for o in optimizers)
        assert torch.equal(first, second)
        assert torch.equal(first.grad, second.grad)
        ours, theirs = (s.state_dict() for s in scalers)
        assert theirs == {key: ours[key] for key in theirs}  # ours also counts skips in a row


# functions -----------------------------------------------------------------------------------------------------------


def test_functions():
    grad, half = torch.full((2, 3), 4.0), torch.full((4,), 8.0, dtype=torch.bfloat16)
    assert unscale_grads([grad, None, half], 4.0) is False
    assert (grad == 1.0).all()
    assert (half == 2.0).all()
    assert grad_norm(grad.t()) == pytest.approx(6**0.5)
    assert clip_grad_norm_(torch.tensor([3.0, 4.0]), 1.0) == 5.0
    assert grad_statistics(half).exponents == {1: 4}


def test_parameters_are_not_gradients():
    with pytest.raises(TypeError, match="p.grad"):
        clip_grad_norm_(torch.nn.Linear(2, 2).parameters(), 1.0)
    with pytest.raises(ValueError, match="coalesce"):
        grad_norm(sparse([1.0, 2.0, 3.0]))
    assert grad_norm(sparse([3.0, 4.0, 0.0]).coalesce()) == 5.0


def test_the_norm_of_a_sparse_gradient_with_duplicates():
    weight = torch.nn.Embedding(4, 1, sparse=True)
    weight(torch.tensor([0, 0])).sum().backward()
    optimizer = torch.optim.SGD(weight.parameters(), 1.0)
    scaler = GradScaler(init_scale=1.0)
    assert scaler.clip_grad_norm_(optimizer, 1.0) == 2.0
    assert weight.weight.grad.to_dense().norm().item() == pytest.approx(1.0, abs=1e-5)


def test_parameters_in_place_of_gradients_are_refused():
    parameters = list(torch.nn.Linear(1, 1).parameters())
    before = [p.detach().clone() for p in parameters]
    with pytest.raises(TypeError, match="gradient 0 is a parameter"):
        GradScaler().unscale_(parameters)
    assert all(torch.equal(p, b) for p, b in zip(parameters, before))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_refused_calls_do_not_coalesce(dtype):
    twice = torch.sparse_coo_tensor([[0, 0]], torch.tensor([1.0, 2.0], dtype=dtype), (2,))
    scaler, optimizer = GradScaler(allow_fp16_grads=True), sgd([1.0])
    (weight,) = optimizer.param_groups[0]["params"]
    weight.data = torch.ones(2, dtype=dtype)
    for bad in ((-1.0, 2.0), (float("nan"), 2.0), (1.0, 0.0), ("1", 2.0)):
        weight.grad = twice
        with pytest.raises((ValueError, TypeError), match="max_norm|norm_type"):
            scaler.clip_grad_norm_(optimizer, *bad)
        assert weight.grad is twice
    scaler.step(optimizer)
    weight.grad = twice.clone()
    for call in (scaler.unscale_, scaler.step, lambda optimizer: scaler.clip_grad_norm_(optimizer, 1.0)):
        with pytest.raises(RuntimeError, match="stepped|step"):
            call(optimizer)
        assert not weight.grad.is_coalesced()
