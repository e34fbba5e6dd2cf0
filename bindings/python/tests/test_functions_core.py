# SPDX-License-Identifier: Apache-2.0
"""The functions of the extension: what they return and raise, and that they give up the GIL."""

import math
import subprocess
import sys
import threading
import time

import pytest

from gradscaler import _core

np = pytest.importorskip("numpy")


def ones(count=4, dtype="float32"):
    return np.ones(count, dtype)


def test_unscale_grads():
    first, second = ones(), np.array([[3, math.inf]], "float64")
    assert _core.unscale_grads([first, None, second], 4.0, None) is True
    assert first.tolist() == [0.25] * 4
    assert second.tolist() == [[0.75, math.inf]]
    assert _core.unscale_grads([], 4.0, None) is False
    assert _core.unscale_grads(grads=[first], scale=1, name=None) is False


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 1e39, 1e-39])
def test_unscale_grads_refuses_scales(scale):
    with pytest.raises(ValueError, match="^unscale_grads: scale is"):
        _core.unscale_grads([ones()], scale, None)


def test_check_grads():
    grads = [ones(), None, np.array([1, math.nan])]
    assert _core.check_grads(grads[:2], None) is False
    assert _core.check_grads(grads, None) is True


def test_grad_norm():
    grads = [np.array([3.0]), np.array([-4.0], "float32")]
    assert _core.grad_norm(grads, 2.0, None) == 5.0
    assert _core.grad_norm(grads, 1.0, None) == 7.0
    assert _core.grad_norm(grads, math.inf, None) == 4.0
    assert _core.grad_norm([], 2.0, None) == 0.0
    assert math.isnan(_core.grad_norm([np.array([math.nan])], 2.0, None))
    with pytest.raises(ValueError, match="^grad_norm: norm_type is -1"):
        _core.grad_norm(grads, -1.0, None)


def test_clip_grad_norm():
    grads = [np.array([3.0]), np.array([-4.0])]
    assert _core.clip_grad_norm(grads, 1.0, 2.0, None) == 5.0
    assert _core.grad_norm(grads, 2.0, None) == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(ValueError, match="^clip_grad_norm_: max_norm is -1"):
        _core.clip_grad_norm(grads, -1.0, 2.0, None)


def test_clip_grad_value():
    grad = np.array([-3, 0.5, math.nan, math.inf], "float32")
    assert _core.clip_grad_value([grad], 1.0, None) is None
    assert grad.tolist()[:2] == [-1, 0.5] and math.isnan(grad[2]) and grad[3] == 1
    with pytest.raises(ValueError, match="^clip_grad_value_: clip_value is nan"):
        _core.clip_grad_value([grad], math.nan, None)


def test_grad_statistics():
    grad = np.array([0, 0.5, -4, math.inf, math.nan, math.nan], "float32")
    *counts, exponents = _core.grad_statistics(grad)
    assert counts == [6, 1, 1, 2, 0.5, 4.0]
    assert len(exponents) == 280
    assert {index - 150: count for index, count in enumerate(exponents) if count} == {-1: 1, 2: 1}
    with pytest.raises(TypeError, match="^grad "):
        _core.grad_statistics(None)
    with pytest.raises(TypeError, match=r"^grad \(a str\)"):
        _core.grad_statistics("text")
    with pytest.raises(NotImplementedError, match="^grad_statistics: grad is complex"):
        _core.grad_statistics(ones(dtype="complex64"))


@pytest.mark.parametrize(
    "call",
    [
        lambda: _core.unscale_grads([]),
        lambda: _core.unscale_grads([], "1", None),
        lambda: _core.unscale_grads([], 1.0, None, 2),
        lambda: _core.check_grads(None, None),
        lambda: _core.set_num_threads(1.5),
    ],
)
def test_arguments_of_wrong_types(call):
    with pytest.raises(TypeError):
        call()


def test_messages_name_the_gradient():
    with pytest.raises(ValueError, match=r'^unscale_grads: gradient 2 \("w2"\) has dtype int32'):
        _core.unscale_grads([ones(), None, ones(dtype="int32")], 1.0, "w{}".format)


def test_threads_do_not_change_results():
    grads = [np.random.default_rng(0).standard_normal(300_000, "float32")]
    norms = set()
    for count in (1, 2, 5, 0):
        _core.set_num_threads(count)
        norms.add(_core.grad_norm(grads, 2.0, None))
    assert len(norms) == 1
    with pytest.raises(ValueError, match="^set_num_threads: n is -1"):
        _core.set_num_threads(-1)


def test_isa_and_version():
    assert _core.isa() in {"avx512", "avx2", "neon", "baseline"}
    assert [part.isdigit() for part in _core.version().split(".")] == [True] * 3


def test_exceptions():
    for exception in (_core.DeviceError, _core.CommError, _core.DivergedError):
        assert issubclass(exception, RuntimeError)
        assert exception.__module__ == "gradscaler"


@pytest.fixture
def turns():
    """A thread that counts whenever it gets the GIL, which no thread is forced to give up."""
    count, done, interval = [0], threading.Event(), sys.getswitchinterval()

    def run():
        while not done.is_set():
            count[0] += 1
            time.sleep(0)

    sys.setswitchinterval(1000)
    thread = threading.Thread(target=run)
    thread.start()
    yield count
    done.set()
    thread.join()
    sys.setswitchinterval(interval)


def test_other_threads_run_meanwhile(turns):
    large, small = [ones(4_000_000)], [ones(1000)]
    for _ in range(100):
        before = turns[0]
        _core.check_grads(small, None)
        assert turns[0] == before
    deadline = time.monotonic() + 20
    while turns[0] == before and time.monotonic() < deadline:
        _core.grad_norm(large, 2.0, None)
    assert turns[0] > before


def test_several_threads_at_once():
    results = []

    def work(value):
        grads = [np.full(100_000, value, "float32") for _ in range(3)]
        for _ in range(20):
            _core.unscale_grads(grads, 2.0, None)
            _core.unscale_grads(grads, 0.5, None)
        results.append(all((grad == value).all() for grad in grads))

    threads = [threading.Thread(target=work, args=(value,)) for value in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


def test_a_second_load_gives_the_same_objects():
    name, module = "gradscaler._core", sys.modules["gradscaler._core"]
    import importlib.util

    spec = importlib.util.find_spec(name)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert again is not module
    assert again.DeviceError is module.DeviceError
    assert again.Handle is module.Handle and again.Scaler is module.Scaler


def test_a_second_interpreter_is_refused():
    pytest.importorskip("_testcapi")
    attempt = "try:\n  from gradscaler import _core\nexcept ImportError: pass\nelse: 1 / 0"
    code = f"import sys; sys.path[:] = {sys.path!r}\n{attempt}"
    # In another process: PyTorch deadlocks on the GIL after a second interpreter has run.
    run = f"import _testcapi, gradscaler._core; raise SystemExit(_testcapi.run_in_subinterp({code!r}))"
    assert subprocess.run([sys.executable, "-c", run]).returncode == 0
