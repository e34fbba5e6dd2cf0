# SPDX-License-Identifier: Apache-2.0
"""scale(): its results, with their types and dtypes."""

from array import array
from collections import namedtuple
from fractions import Fraction

import numpy as np
import pytest
from conftest import Loss, Param, f32

from gradscaler import GradScaler, check_grads

ml_dtypes = pytest.importorskip("ml_dtypes")
Pair = namedtuple("Pair", "loss auxiliary")


def test_structures_come_back_as_they_are():
    scaler = GradScaler(init_scale=2.0)
    assert scaler.scale([f32(8.0), (f32(4.0), f32(8.0)), [f32(4.0), f32(8.0)]]) == [16.0, (8.0, 16.0), [8.0, 16.0]]
    nested = scaler.scale((Pair(f32(1.0), [f32(2.0)]),))
    assert isinstance(nested, tuple)
    assert isinstance(nested[0], Pair)
    assert nested[0].auxiliary == [4.0]
    assert scaler.scale([]) == []
    assert scaler.scale(()) == ()

    class Losses(list):
        pass

    assert type(scaler.scale(Losses([f32(1.0)]))) is Losses


def test_other_iterables_are_lazy():
    scaler, read = GradScaler(init_scale=2.0), []

    def losses():
        for value in (1.0, 2.0):
            read.append(value)
            yield f32(value)

    scaled = scaler.scale(losses())
    assert read == []
    assert next(scaled) == 2.0
    assert read == [1.0]
    assert [x.item() for x in scaled] == [4.0]
    assert [x.item() for x in scaler.scale(map(f32, [3.0]))] == [6.0]


# trial T17
@pytest.mark.parametrize(
    ("number", "expected"), [(3.0, 12.0), (3, 12.0), (-0.5, -2.0), (Fraction(1, 4), 1.0), (1 + 2j, 4 + 8j)]
)
def test_numbers(number, expected):
    scaler = GradScaler(init_scale=4.0)
    scaled = scaler.scale(number)
    assert (scaled, type(scaled)) == (expected, type(expected))
    assert scaler.scale([f32(1.0), (number,)]) == [4.0, (expected,)]
    assert np.isnan(scaler.scale(float("nan")))
    assert GradScaler(enabled=False).scale(number) is number


def test_a_number_beyond_the_range_of_a_float():
    with pytest.raises(ValueError, match="outputs is .* within the range of a float"):
        GradScaler().scale(10**400)


@pytest.mark.parametrize("bad", [True, None, "loss", b"loss", {"loss": f32(1.0)}, array("f", [1.0]), object()])
def test_anything_else_is_refused(bad):
    scaler = GradScaler()
    with pytest.raises(ValueError, match="tensor"):
        scaler.scale(bad)
    with pytest.raises(ValueError):
        scaler.scale([f32(1.0), bad])


def test_a_mapping_is_refused_with_a_hint():
    with pytest.raises(ValueError, match=r"got dict; pass its values\(\)"):
        GradScaler().scale({"loss": f32(1.0)})
    assert list(GradScaler(init_scale=2.0).scale({"loss": f32(1.0)}.values())) == [2.0]


def test_classes_of_arrays_are_no_arrays():
    for bad in (np.ndarray, np.float32, DLPackOnly):
        with pytest.raises(ValueError, match="must be a tensor, a number or an iterable of these, got type"):
            GradScaler().scale(bad)
        with pytest.raises(TypeError, match="expected an array or an iterable of arrays, got type"):
            check_grads(bad)


class DLPackOnly:
    def __dlpack__(self):
        raise AssertionError


def test_arrays_that_are_no_numbers():
    for bad in (np.array(["a"]), np.array([None]), np.zeros(1, "V4"), np.array(["2024-01-01"], "M8[D]")):
        with pytest.raises(ValueError):
            GradScaler().scale(bad)


@pytest.mark.parametrize("enabled_input", [4.0, None, "loss", [f32(1.0)], {"a": 1}])
def test_disabled_returns_the_very_same_object(enabled_input):
    assert GradScaler(enabled=False).scale(enabled_input) is enabled_input


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (np.ones(1, np.float16), "float16", np.inf),
        (np.ones((), np.float16), "float32", 65536.0),
        (np.float16(1), "float32", 65536.0),
        (np.ones(1, ml_dtypes.bfloat16), "bfloat16", 65536.0),
        (np.ones((), ml_dtypes.bfloat16), "float32", 65536.0),
        (ml_dtypes.bfloat16(1), "float32", 65536.0),
        (np.ones(1, np.float32), "float32", 65536.0),
        (np.float32(1), "float32", 65536.0),
        (np.ones(1, np.float64), "float64", 65536.0),
        (np.float64(1e300), "float64", 1e300 * 65536.0),
        (np.ones(1, np.int64), "float32", 65536.0),
        (np.ones(1, bool), "float32", 65536.0),
        (np.ones(1, np.complex64), "complex64", 65536.0),
        (np.ones(1, np.complex128), "complex128", 65536.0),
    ],
)
def test_dtypes_follow_pytorchs_promotion(value, dtype, expected):
    with np.errstate(over="ignore"):
        scaled = GradScaler().scale(value)
    assert scaled.dtype.name == dtype
    assert np.shape(scaled) == np.shape(value)
    assert isinstance(scaled, np.ndarray) == isinstance(value, np.ndarray)
    assert complex(scaled.reshape(-1)[0] if np.ndim(scaled) else scaled) == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int32, np.complex64])
def test_masked_arrays_keep_their_mask(dtype):
    scaler = GradScaler(init_scale=2.0)
    loss = np.ma.array(np.array([1, 2, 3]), dtype=dtype, mask=[0, 1, 0], fill_value=7)
    scaled = scaler.scale(loss)
    assert type(scaled) is np.ma.MaskedArray
    assert scaled.dtype == (np.float32 if dtype is np.int32 else dtype)
    assert scaled.mask.tolist() == [False, True, False]
    assert scaled.compressed().astype(complex).tolist() == [2.0, 6.0]
    scaled.mask = False
    scaled[...] = 0
    assert loss.mask.tolist() == [False, True, False]
    assert loss.compressed().astype(complex).tolist() == [1.0, 3.0]
    assert scaler.scale(np.ma.masked) is np.ma.masked
    if dtype is not np.complex64:
        assert scaler.scale(loss.sum()) == 8.0
        assert scaler.scale(loss[:1].reshape(())).dtype == (np.float64 if dtype is np.float64 else np.float32)


def test_masked_half_precision_is_rounded_once():
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float16)
    scaler = GradScaler(init_scale=3.3)
    assert np.array_equal(scaler.scale(np.ma.array(values)).data, scaler.scale(values))
    large = np.ma.array(np.array([60000, 60000], np.float16), mask=[0, 1])
    assert scaler.scale(large)[0] == np.inf


def test_subclasses_of_ndarray_keep_their_type(tmp_path):
    class Named(np.ndarray):
        pass

    scaler = GradScaler(init_scale=2.0)
    values = f32(1.0, 2.0)
    for kind in (Named, np.recarray, np.matrix):
        for dtype in (np.float16, np.float32, np.float64):
            loss = values.astype(dtype).view(kind)
            scaled = scaler.scale(loss)
            assert (type(scaled), scaled.dtype) == (kind, dtype)
            assert np.asarray(scaled).reshape(-1).tolist() == [2.0, 4.0]
            assert np.asarray(loss).reshape(-1).tolist() == [1.0, 2.0]
    path = tmp_path / "loss"
    values.tofile(path)
    assert scaler.scale(np.memmap(path, np.float32, "r")).tolist() == [2.0, 4.0]
    assert np.fromfile(path, np.float32).tolist() == [1.0, 2.0]


def test_the_input_is_not_changed_and_may_be_read_only():
    loss = f32(1.0, 2.0)
    loss.flags.writeable = False
    scaled = GradScaler(init_scale=2.0).scale(loss)
    assert loss.tolist() == [1.0, 2.0]
    assert scaled.tolist() == [2.0, 4.0]
    assert scaled.flags.writeable


def test_strided_and_empty_arrays():
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    scaler = GradScaler(init_scale=2.0)
    for view in (matrix.T, matrix[:, ::2], matrix[::-1], matrix[1:1]):
        assert np.array_equal(scaler.scale(view), view * np.float32(2.0))


def test_float32_products_round_once():
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    scaler = GradScaler(init_scale=3.3)
    assert np.array_equal(scaler.scale(values), values * np.float32(3.3))
    halves = values.astype(ml_dtypes.bfloat16)
    expected = (halves.astype(np.float32) * np.float32(3.3)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(scaler.scale(halves).view(np.uint16), expected.view(np.uint16))


def test_tensors_of_other_frameworks_multiply_themselves():
    scaler, weight = GradScaler(init_scale=4.0), Param([1.0])
    (loss,) = scaler.scale([Loss(weight, x=2.0, y=0.0)])
    loss.backward()
    assert weight.grad == 16.0


def test_array_likes_with_dlpack_multiply_themselves():
    class Foreign:
        def __init__(self, value):
            self.value = value

        def __dlpack__(self):
            raise AssertionError

        def __mul__(self, factor):
            return Foreign(self.value * factor)

    assert GradScaler(init_scale=4.0).scale(Foreign(3.0)).value == 12.0
