# SPDX-License-Identifier: Apache-2.0
"""The functions without a scaler, and the examples in all docstrings."""

import doctest
import importlib
import math
import pkgutil
import subprocess
import sys
from array import array

import numpy as np
import pytest
from conftest import f32

import gradscaler
from gradscaler import (
    check_grads,
    clip_grad_norm_,
    clip_grad_value_,
    grad_norm,
    grad_statistics,
    unscale_grads,
    unscale_grads_to,
)

ml_dtypes = pytest.importorskip("ml_dtypes")


def test_unscale():
    grads = [f32(2.0, 4.0), None, np.array([8.0]), np.array([2.0], np.float16), np.array([2.0], ml_dtypes.bfloat16)]
    assert unscale_grads(grads, 2.0) is False
    assert [g.astype(float).tolist() for g in grads if g is not None] == [[1.0, 2.0], [4.0], [1.0], [1.0]]
    assert unscale_grads([f32(1.0), f32(np.nan)], 2) is True
    assert unscale_grads([], 2.0) is False
    for scale in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError):
            unscale_grads(grads, scale)
    with pytest.raises(TypeError, match="scale"):
        unscale_grads(grads, "2")


def test_an_overflow_made_by_unscaling():
    grad = np.array([60000.0], np.float16)
    assert unscale_grads([grad], 2.0**-10) is True
    assert grad[0] == np.inf


def test_one_array_is_not_its_rows():
    matrix = np.full((2, 3), 4.0, np.float32)
    assert unscale_grads(matrix, 4.0) is False
    assert (matrix == 1.0).all()
    assert grad_norm(np.array(3.0)) == 3.0
    assert grad_norm(array("f", [3.0, 4.0])) == 5.0
    assert grad_norm(np.array([3.0, 4.0], ml_dtypes.bfloat16)) == 5.0


def test_any_iterable():
    assert grad_norm(f32(x) for x in (3.0, 4.0)) == 5.0
    assert grad_norm((f32(3.0), None)) == 3.0
    assert grad_norm({"w": f32(3.0)}.values()) == 3.0
    for bad in (3.0, None, object()):
        with pytest.raises(TypeError):
            grad_norm(bad)
    with pytest.raises(TypeError, match="1"):
        grad_norm([f32(1.0), "text"])
    with pytest.raises(TypeError):
        grad_norm([[1.0, 2.0]])


def test_norms():
    assert grad_norm([np.array([300.0], np.float16)]) == 300.0
    assert grad_norm([f32(1e20)]) == pytest.approx(1e20, rel=1e-7)
    assert grad_norm([f32(1e-25)]) == pytest.approx(1e-25, rel=1e-7)
    assert grad_norm([f32(3.0, -4.0)], math.inf) == 4.0
    assert grad_norm([f32(3.0, -4.0)], norm_type=1) == 7.0
    assert math.isnan(grad_norm([f32(1.0, np.nan)]))
    assert grad_norm([]) == 0.0
    with pytest.raises(ValueError):
        grad_norm([f32(1.0)], 0.0)


def test_clip():
    grads = [f32(3.0), np.array([4.0])]
    assert clip_grad_norm_(grads, 1.0) == 5.0
    assert [float(g[0]) for g in grads] == pytest.approx([0.6, 0.8], rel=1e-6)
    assert clip_grad_norm_(grads, 10.0) == pytest.approx(1.0)
    overflowed = f32(1.0, np.inf)
    assert clip_grad_norm_(overflowed, 1.0) == np.inf
    assert overflowed[0] == 1.0
    with pytest.raises(ValueError):
        clip_grad_norm_(grads, -1.0)
    half = np.array([300.0], np.float16)
    clip_grad_norm_(half, 1.0)
    assert half[0] == 1.0


def test_clip_value():
    grad = f32(-3.0, 0.5, np.inf, np.nan)
    assert clip_grad_value_(grad, 1.0) is None
    assert grad[:3].tolist() == [-1.0, 0.5, 1.0]
    assert np.isnan(grad[3])
    with pytest.raises(ValueError):
        clip_grad_value_(grad, -1.0)


def test_check():
    assert check_grads([f32(1.0), None, np.array([1e308])]) is False
    assert check_grads([f32(1.0), np.array([np.nan], ml_dtypes.bfloat16)]) is True


def test_what_is_only_read_may_be_read_only():
    grad = f32(3.0)
    grad.flags.writeable = False
    assert check_grads([grad]) is False
    assert grad_norm(grad) == 3.0
    assert grad_statistics(grad).count == 1
    for change in (lambda: unscale_grads([grad], 2.0), lambda: clip_grad_value_([grad], 1.0)):
        with pytest.raises(ValueError, match="read-only"):
            change()


def test_complex_is_not_implemented():
    with pytest.raises(NotImplementedError):
        unscale_grads([np.ones(1, np.complex64)], 2.0)


def test_statistics():
    stats = grad_statistics(f32(0.0, -0.0, 1.0, -1.5, 0.25, np.inf, np.nan, 2.0**-149))
    assert stats[:6] == (8, 2, 1, 1, 2.0**-149, 1.5)
    assert stats.exponents == {-149: 1, -2: 1, 0: 2}
    assert grad_statistics(np.zeros((2, 0))) == (0, 0, 0, 0, 0.0, 0.0, {})
    assert grad_statistics(np.array([1e300, 1e-300])).exponents == {-150: 1, 129: 1}
    assert grad_statistics(np.eye(3, dtype=np.float16)).zeros == 6
    for bad in (None, [f32(1.0)], 3.0):
        with pytest.raises(TypeError):
            grad_statistics(bad)


def modules():
    yield gradscaler
    for info in pkgutil.iter_modules(gradscaler.__path__):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"gradscaler.{info.name}")


def test_the_examples_in_the_docstrings():
    attempted = 0
    for module in modules():
        failures, count = doctest.testmod(module)
        assert failures == 0
        attempted += count
    assert attempted > 30


def test_nothing_is_imported_behind_the_users_back():
    code = (
        "import sys, gradscaler; from array import array; g = [array('f', [4.0])];"
        "s = gradscaler.GradScaler(init_scale=4.0); s.step(g); s.update(); assert g[0][0] == 1.0;"
        "assert not {'numpy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# trial T23
def test_unscaling_half_precision_into_float32():
    """Apex's loop: 2**-10 / 2**20 is zero in float16."""
    half, doubles = np.full(3, 2.0**-10, np.float16), np.full((2, 2), 3.0)
    masters = [np.zeros(3, np.float32), None, np.zeros((2, 2))]
    assert unscale_grads_to([half, half, doubles], masters, 2.0**20) is False
    assert masters[0].tolist() == [2.0**-30] * 3
    assert masters[2].tolist() == [[3.0 * 2.0**-20] * 2] * 2
    assert half.tolist() == [2.0**-10] * 3
    half[1] = np.inf
    half.flags.writeable = False
    assert unscale_grads_to(half, masters[0], 2.0) is True
    assert masters[0].tolist() == [2.0**-11, np.inf, 2.0**-11]


def test_refusals_of_unscale_grads_to():
    half, master = np.ones(3, np.float16), np.zeros(3, np.float32)
    read_only = master.copy()
    read_only.flags.writeable = False
    for arrays, out, scale, error, match in (
        ([half], [], 2.0, ValueError, "out has 0 arrays and arrays 1; give equally many"),
        ([half], [np.zeros(4, np.float32)], 2.0, ValueError, r"^unscale_grads_to: .*shape\[0\]"),
        ([master], [half], 2.0, ValueError, "^unscale_grads_to: .*wider"),
        ([None, half], [None, read_only], 2.0, ValueError, r"^out\[1\] \(a ndarray\) is read-only"),
        ([half], ["text"], 2.0, TypeError, r"^out\[0\] \(a str\) is no array"),
        ([half], 3, 2.0, TypeError, "got int"),
        ([half], [master], 0.0, ValueError, "scale is 0"),
        ([half, half], [master, master[:3]], 0.5, None, None),
        ([half, half.copy()], [master, master], 2.0, ValueError, "^unscale_grads_to"),
    ):
        if error is None:
            assert unscale_grads_to(arrays, out, scale) is False  # the same pair twice
            assert master.tolist() == [2.0] * 3
            master[:] = 0
            continue
        with pytest.raises(error, match=match):
            unscale_grads_to(arrays, out, scale)
        assert (half.tolist(), master.tolist()) == ([1.0] * 3, [0.0] * 3)
