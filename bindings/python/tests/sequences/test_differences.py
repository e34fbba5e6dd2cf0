# SPDX-License-Identifier: Apache-2.0
"""Each deliberate difference to PyTorch's scaler, shown on ours and, where it is installed, on PyTorch's."""

from __future__ import annotations

import copy
import inspect
import re
import struct
import warnings
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from gradscaler import GradScaler  # noqa: E402

from . import arrays  # noqa: E402
from .differences import ALONE, DIFFERENCES  # noqa: E402
from .machine import is_pytorchs  # noqa: E402

DOCS = Path(__file__).parents[4] / "docs" / "python-differences.md"

Case = Callable[[Any, Any], Any]  # an array library's names (arrays.py), a scaler's type
CASES: Dict[str, Case] = {}
NEED_TORCH = (
    *("traced-scale", "fused-overflow", "preset-grad-scale", "fused-float16"),
    *("update-types", "update-requires-grad", "empty-sparse-gradient", "isinstance"),
)


def shows(identifier: str) -> Callable[[Case], Case]:
    def register(case: Case) -> Case:
        CASES[identifier] = case
        return case

    return register


def array(library: Any, values: List[float], dtype: str = "float32") -> Any:
    code = {"float16": "e", "float32": "f", "float64": "d"}[dtype]
    return library.array(dtype, [len(values)], struct.pack(f"<{len(values)}{code}", *values))


def sgd(library: Any, *grads: List[float], dtype: str = "float32") -> Any:
    params = []
    for values in grads:
        params.append(library.Parameter(array(library, [0.0] * len(values), dtype)))
        params[-1].grad = array(library, values, dtype)
    return library.OPTIMIZERS["sgd"](params, 1.0)


def param(optimizer: Any) -> Any:
    return optimizer.param_groups[0]["params"][0]


def started(library: Any, scaler_type: Any, **arguments: Any) -> Any:
    """A scaler that has scaled a loss."""
    scaler = scaler_type("cpu", **arguments)
    scaler.scale(array(library, [1.0]))
    return scaler


def iterate(scaler: Any, library: Any, *values: float) -> None:
    scaler.step(sgd(library, list(values)))
    scaler.update()


@shows("default-device")
def _(library: Any, scaler_type: Any) -> Any:
    return inspect.signature(scaler_type).parameters["device"].default


@shows("device-not-served")
def _(library: Any, scaler_type: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scaler_type("cuda").is_enabled()


@shows("number-as-device")
def _(library: Any, scaler_type: Any) -> Any:
    return scaler_type(1024.0).is_enabled()


@shows("constructor-range")
def _(library: Any, scaler_type: Any) -> Any:
    scaler_type("cpu", growth_interval=0)


@shows("constructor-types")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = scaler_type("cpu", init_scale=True, growth_interval=2.5)
    return f"{scaler.get_scale()} {scaler.get_growth_interval()}"


@shows("disabled-by-none")
def _(library: Any, scaler_type: Any) -> Any:
    return scaler_type("cpu", enabled=None).is_enabled()


@shows("scale-of-mapping")
def _(library: Any, scaler_type: Any) -> Any:
    return type(scaler_type("cpu").scale({"loss": array(library, [1.0])})).__name__


@shows("scale-of-named-tuple")
def _(library: Any, scaler_type: Any) -> Any:
    class Pair(NamedTuple):
        first: Any
        second: Any

    return type(scaler_type("cpu").scale(Pair(array(library, [1.0]), array(library, [2.0])))).__name__


@shows("scale-of-numpy")
def _(library: Any, scaler_type: Any) -> Any:
    return scaler_type("cpu", init_scale=4.0).scale(np.float32(1.0))


@shows("scale-first")
def _(library: Any, scaler_type: Any) -> Any:
    scaler_type("cpu").unscale_(sgd(library, [1.0]))


@shows("scale-of-string")
def _(library: Any, scaler_type: Any) -> Any:
    scaler_type("cpu").scale([array(library, [1.0]), "loss"])


@shows("float32-scale")
def _(library: Any, scaler_type: Any) -> Any:
    return scaler_type("cpu", init_scale=0.1).get_scale()


@shows("interval-lowered")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type)
    for _ in range(3):
        iterate(scaler, library, 1.0)
    scaler.set_growth_interval(2)
    iterate(scaler, library, 1.0)
    return scaler.get_scale()


@shows("scale-floor")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type, init_scale=2.0**-126)
    iterate(scaler, library, float("inf"))
    return scaler.get_scale() < 2.0**-126


@shows("unscale-overflow")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type, init_scale=0.5)
    optimizer = sgd(library, [2.0**127])
    scaler.step(optimizer)
    return float(param(optimizer).data[0]) == 0.0  # skipped


@shows("float64-reciprocal")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type, init_scale=3.0)
    optimizer = sgd(library, [1.0], dtype="float64")
    scaler.unscale_(optimizer)
    return float(param(optimizer).grad[0]) == 1.0 / 3.0


@shows("empty-gradients")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type)
    iterate(scaler, library)
    return scaler.state_dict()["_growth_tracker"]


@shows("shared-gradient")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type, init_scale=2.0)
    optimizer = sgd(library, [1.0], [1.0])
    first = param(optimizer)
    optimizer.param_groups[1]["params"][0].grad = first.grad
    scaler.unscale_(optimizer)
    return float(first.grad[0])


@shows("held-gradients")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type, init_scale=2.0)
    optimizer = sgd(library, [2.0], [2.0])
    scaler.unscale_(optimizer)
    gradient = weakref.ref(param(optimizer).grad)
    param(optimizer).grad = None
    return gradient() is None


@shows("late-gradient")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type, init_scale=2.0)
    optimizer = sgd(library, [2.0], [0.0])
    late = optimizer.param_groups[1]["params"][0]
    late.grad = None
    scaler.unscale_(optimizer)
    late.grad = array(library, [16.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scaler.step(optimizer)
    return f"{float(late.data[0])} {[warning.category.__name__ for warning in caught]}"


@shows("replaced-after-failure")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type, init_scale=2.0)
    optimizer = sgd(library, [2.0])
    step = optimizer.step
    optimizer.step = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        scaler.step(optimizer)
    optimizer.step = step
    param(optimizer).grad = array(library, [16.0])
    scaler.step(optimizer)
    return float(param(optimizer).data[0])


@shows("overlapping-gradient")
def _(library: Any, scaler_type: Any) -> Any:
    optimizer = sgd(library, [1.0, 1.0])
    param(optimizer).grad = library.laid_out(param(optimizer).grad, "expanded")
    started(library, scaler_type).unscale_(optimizer)


@shows("nan-bits")
def _(library: Any, scaler_type: Any) -> Any:
    """How many different NaNs the copies of one NaN become."""
    scaler = started(library, scaler_type, init_scale=2.0)
    gradient = library.array("bfloat16", [41], b"\xc0\x7f" * 41)
    parameter = library.Parameter(library.array("bfloat16", [41], bytes(82)))
    parameter.grad = gradient
    scaler.unscale_(library.OPTIMIZERS["sgd"]([parameter], 1.0))
    return len(set(library.words(gradient)))


@shows("not-an-optimizer")
def _(library: Any, scaler_type: Any) -> Any:
    started(library, scaler_type).unscale_(None)


@shows("positional-closure")
def _(library: Any, scaler_type: Any) -> Any:
    return started(library, scaler_type).step(sgd(library, [1.0]), lambda: 0.5)


@shows("list-of-arrays")
def _(library: Any, scaler_type: Any) -> Any:
    gradient = array(library, [1.0])
    started(library, scaler_type, init_scale=2.0).unscale_([gradient])
    return float(gradient[0])


@shows("disabled-getters")
def _(library: Any, scaler_type: Any) -> Any:
    return scaler_type("cpu", enabled=False).get_growth_factor()


@shows("disabled-checks")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = scaler_type("cpu", enabled=False)
    scaler.load_state_dict({**scaler_type("cpu").state_dict(), "growth_interval": 0})


@shows("state-dict-entries")
def _(library: Any, scaler_type: Any) -> Any:
    more = {} if is_pytorchs(scaler_type("cpu")) else {"min_scale": 1.0}
    return len(scaler_type("cpu", **more).state_dict()) > 5


@shows("load-range")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = scaler_type("cpu")
    scaler.load_state_dict({**scaler.state_dict(), "scale": 0.0})


@shows("load-half-done")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = scaler_type("cpu", init_scale=2.0)
    with pytest.raises(KeyError):
        scaler.load_state_dict({"scale": 3.0})
    return scaler.get_scale()


@shows("load-mid-iteration")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type)
    optimizer = sgd(library, [1.0])
    scaler.unscale_(optimizer)
    scaler.load_state_dict(scaler.state_dict())


@shows("call-inside-step")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type)
    optimizer = sgd(library, [1.0])
    optimizer.step = scaler.update
    return scaler.step(optimizer)


@shows("pickle-mid-iteration")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type)
    optimizer = sgd(library, [1.0])
    scaler.unscale_(optimizer)
    copy.deepcopy(scaler)


@shows("complex-beside-float32")
def _(library: Any, scaler_type: Any) -> Any:
    """What the float32 gradient is after the refusal."""
    scaler = started(library, scaler_type, init_scale=4.0)
    optimizer = sgd(library, [4.0], [1.0])
    imaginary = library.Parameter(library.array("complex64", [1], bytes(8)))
    imaginary.grad = library.array("complex64", [1], bytes(8))
    optimizer.param_groups[1]["params"] = [imaginary]
    with pytest.raises(NotImplementedError):
        scaler.unscale_(optimizer)
    return float(param(optimizer).grad[0])


@shows("pickle-after-refusal")
def _(library: Any, scaler_type: Any) -> Any:
    scaler = started(library, scaler_type)
    half = library.Parameter(library.array("float16", [1], bytes(2)))
    half.grad = library.array("float16", [1], bytes(2))
    with pytest.raises(ValueError):
        scaler.unscale_(library.OPTIMIZERS["sgd"]([half], 1.0))
    return copy.deepcopy(scaler).get_scale()


@shows("update-types")
def _(library: Any, scaler_type: Any) -> Any:
    """PyTorch drops the imaginary part."""
    import torch

    scales = []
    for new_scale in (torch.tensor(True), torch.tensor(2 + 3j)):
        scaler = started(library, scaler_type)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaler.update(new_scale)
        scales.append(str(scaler.get_scale()))
    return " ".join(scales)


@shows("update-requires-grad")
def _(library: Any, scaler_type: Any) -> Any:
    import torch

    started(library, scaler_type).update(torch.ones((), requires_grad=True))


@shows("empty-sparse-gradient")
def _(library: Any, scaler_type: Any) -> Any:
    import torch

    scaler, optimizer = started(library, scaler_type), sgd(library, [1.0])
    param(optimizer).grad = torch.sparse_coo_tensor(torch.zeros((1, 0), dtype=torch.int64), torch.zeros(0), (1,))
    scaler.step(optimizer)
    scaler.update()
    return scaler.state_dict()["_growth_tracker"]


@shows("isinstance")
def _(library: Any, scaler_type: Any) -> Any:
    import torch

    return isinstance(scaler_type("cpu"), torch.amp.GradScaler)


@shows("private-names")
def _(library: Any, scaler_type: Any) -> Any:
    return scaler_type("cpu")._growth_tracker


@shows("private-scale")
def _(library: Any, scaler_type: Any) -> Any:
    """Before the first scale, and after it."""
    fresh, scaler = scaler_type("cpu", init_scale=4.0)._scale, started(library, scaler_type, init_scale=4.0)
    assert float(scaler._get_scale_async()) == 4.0
    return f"{None if fresh is None else float(fresh)} {float(scaler._scale)}"


@shows("private-override")
def _(library: Any, scaler_type: Any) -> Any:
    """Whether it is called."""

    class Own(scaler_type):  # type: ignore[misc]
        called = False

        def _unscale_grads_(self, *arguments: Any) -> Any:
            self.called = True
            return super()._unscale_grads_(*arguments)

    scaler = started(library, Own)
    scaler.unscale_(sgd(library, [1.0]))
    return scaler.called


def fused(library: Any, value: float, dtype: str = "float32") -> Any:
    """A fused optimizer that counts its steps."""

    class Counting(library.FusedAdam):  # type: ignore[misc]
        calls = 0

        def step(self, *args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return super().step(*args, **kwargs)

    parameter = library.Parameter(array(library, [0.0], dtype))
    parameter.grad = array(library, [value], dtype)
    return Counting([parameter], 0.5)


@shows("fused-overflow")
def _(library: Any, scaler_type: Any) -> Any:
    optimizer = fused(library, float("inf"))
    started(library, scaler_type).step(optimizer)
    assert float(param(optimizer).data[0]) == 0.0
    return optimizer.calls


@shows("fused-float16")
def _(library: Any, scaler_type: Any) -> Any:
    optimizer = fused(library, 1.0, "float16")
    started(library, scaler_type).step(optimizer)
    return float(param(optimizer).data[0]) != 0.0


@shows("preset-grad-scale")
def _(library: Any, scaler_type: Any) -> Any:
    optimizer = fused(library, 1.0)
    optimizer.grad_scale = array(library, [4.0])[0]
    started(library, scaler_type).step(optimizer)
    kept = getattr(optimizer, "grad_scale", None)
    return None if kept is None else float(kept)


@shows("traced-scale")
def _(library: Any, scaler_type: Any) -> Any:
    """What functions give that were traced when the scale was 4, and run when it is 8."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    scaler, one = started(library, scaler_type, init_scale=4.0), torch.ones(1)

    def scale(loss: Any) -> Any:
        return scaler.scale(loss)

    def trace(tracer: Callable[[], Any]) -> Any:
        try:
            return tracer()
        except torch.fx.proxy.TraceError:
            return lambda _: "TraceError"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        traced = [
            torch.jit.trace(scale, (one,), check_trace=False),
            make_fx(scale)(one),
            trace(lambda: torch.fx.symbolic_trace(scale)),
        ]
    scaler.step(sgd(library, [1.0]))
    scaler.update(8.0)
    results = [function(one) for function in traced]
    return " ".join(result if isinstance(result, str) else str(float(result)) for result in results)


def outcome(case: Case, library: Any, scaler_type: Any) -> str:
    try:
        return str(case(library, scaler_type))
    except Exception as error:  # the outcome is which one
        return type(error).__name__


def test_each_difference_has_its_case() -> None:
    assert set(CASES) == set(ALONE)


# trial T19
@pytest.mark.parametrize("identifier", [each for each in ALONE if each not in NEED_TORCH])
def test_here(identifier: str) -> None:
    assert outcome(CASES[identifier], arrays, GradScaler) == ALONE[identifier].here


@pytest.mark.parametrize("identifier", ALONE)
def test_here_with_torch(identifier: str) -> None:
    pytest.importorskip("torch")
    from . import arrays_torch

    assert outcome(CASES[identifier], arrays_torch, GradScaler) == ALONE[identifier].here


@pytest.mark.parametrize("identifier", ALONE)
def test_in_pytorch(identifier: str) -> None:
    torch = pytest.importorskip("torch")
    from . import arrays_torch

    if identifier == "device-not-served" and torch.cuda.is_available():
        pytest.skip("this machine has what the difference is about")
    assert outcome(CASES[identifier], arrays_torch, arrays_torch.GradScaler) == ALONE[identifier].pytorch


@pytest.mark.skipif(not DOCS.exists(), reason="the docs are not part of a source distribution")
def test_the_docs_name_each_difference() -> None:
    named = re.findall(r"^\| `([a-z0-9-]+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(DIFFERENCES)
