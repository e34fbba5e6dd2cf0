# SPDX-License-Identifier: Apache-2.0
"""Borrowing arrays: which objects are arrays, that their own memory is used, and that it is given back."""

import array
import ctypes
import sys
import weakref

import pytest
from producer import COMPLEX, COPIED, CUDA, READ_ONLY, New, Old

import gradscaler
from gradscaler import _core

np = pytest.importorskip("numpy")


def unscale(*grads, name=None):
    return _core.unscale_grads(list(grads), 2.0, name)


def check(*grads):
    return _core.check_grads(list(grads), None)


def four(dtype="float32"):
    return np.array([2, 4, 6, 8], dtype)


# NumPy


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numpy_is_written_in_place(dtype):
    grad = four(dtype)
    address = grad.ctypes.data
    assert unscale(grad) is False
    assert grad.ctypes.data == address
    assert grad.dtype == dtype
    assert grad.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2],
        lambda a: a[::-1],
        lambda a: a.T,
        lambda a: a[::-1, ::-2],
        lambda a: a[1:3, 1:2],
        lambda a: a[1],
        lambda a: a[:, 1],
        lambda a: a[2, 3, ...],
        lambda a: a[None, :, None, 1:],
    ],
)
def test_numpy_views_change_their_elements_alone(view):
    grad, expected = (np.arange(1, 25, dtype="float32").reshape(4, 6) for _ in range(2))
    view(expected)[...] /= 2
    unscale(view(grad))
    assert np.array_equal(grad, expected)


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (0, 0)])
def test_empty_arrays_are_passed_over(shape):
    assert unscale(np.empty(shape, "float32"), None) is False


def test_zero_dimensional():
    grad = np.array(3.0, "float32")
    unscale(grad)
    assert grad == 1.5


def test_many_dimensions():
    grad = np.ones((2,) + (1,) * 28 + (2,), "float32").T
    unscale(grad[..., ::-1])
    assert np.all(grad == 0.5)


def test_elements_reached_twice_may_be_read_but_not_written():
    twice = np.lib.stride_tricks.as_strided(np.ones(2, "float32"), (2, 3), (4, 0))
    assert check(twice) is False
    with pytest.raises(ValueError, match="gradient 0 .*more than once"):
        unscale(twice)


def test_strides_inside_elements():
    packed = np.zeros(4, [("a", "f4"), ("b", "i1")])
    with pytest.raises(ValueError, match=r"gradient 0 \(a ndarray\).*strides"):
        check(packed["a"])
    aligned = np.ones(4, [("a", "f4"), ("b", "f4")])
    unscale(aligned["b"])
    assert aligned["a"].tolist() == [1] * 4 and aligned["b"].tolist() == [0.5] * 4


def test_misaligned_elements():
    grad = np.frombuffer(bytearray(17), "float32", 4, 1)
    with pytest.raises(ValueError, match="gradient 0 .*not aligned"):
        unscale(grad)


def test_read_only_may_be_read_but_not_written():
    grad = four()
    grad.flags.writeable = False
    assert check(grad) is False
    with pytest.raises(ValueError, match=r'gradient 1 \("w1"\) \(a ndarray\) is read-only'):
        unscale(None, grad, name="w{}".format)
    assert grad.tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">f2", ">c8", ">i4"])
def test_foreign_byte_order(dtype):
    if sys.byteorder == "little":
        with pytest.raises(ValueError, match="gradient 0 .*byte order"):
            check(four(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int32", "int64", "uint64"])
def test_integers_are_refused_by_the_core(dtype):
    with pytest.raises(ValueError, match=rf"^check_grads: gradient 0 .*\b{dtype}\b.*float32"):
        check(four(dtype))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_is_not_implemented(dtype):
    with pytest.raises(NotImplementedError, match="^check_grads: gradient 0 is complex"):
        check(four(dtype))


@pytest.mark.parametrize("dtype", ["longdouble", "S4", "U2", [("a", "f4"), ("b", "f4")]])
def test_other_elements(dtype):
    with pytest.raises(ValueError, match="gradient 0"):
        check(np.zeros(4, dtype))


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]"])
def test_numpy_without_a_buffer(dtype):
    with pytest.raises(ValueError, match=r"gradient 0 \(a ndarray\) has dtype .*64\[s\]; allowed are") as caught:
        check(np.zeros(4, dtype))
    assert caught.value.__cause__ is not None


def test_objects_are_no_numbers():
    with pytest.raises(ValueError, match="no numbers"):
        check(np.array([None, 1]))


def test_subclasses_of_ndarray():
    class Named(np.ndarray):
        pass

    for kind in (Named, np.recarray, np.matrix):
        grad = four().view(kind)
        unscale(grad)
        assert np.asarray(grad).reshape(-1).tolist() == [1, 2, 3, 4]


def test_mapped_files_are_changed_in_place(tmp_path):
    path = tmp_path / "gradient"
    four().tofile(path)
    grad = np.memmap(path, np.float32, "r+")
    assert unscale(grad[::2]) is False
    grad.flush()
    assert np.fromfile(path, np.float32).tolist() == [1, 4, 3, 8]
    with pytest.raises(ValueError, match=r"gradient 0 \(a memmap\) is read-only"):
        unscale(np.memmap(path, np.float32, "r"))
    assert check(np.memmap(path, np.float32, "r")) is False


def test_masked_arrays_are_refused():
    grad = np.ma.array(four(), mask=[0, 1, 0, 0])
    for call in (unscale, check, lambda g: _core.grad_statistics(g)):
        with pytest.raises(TypeError, match=r"\(a MaskedArray\) is masked.*\.data"):
            call(grad)
    assert grad.data.tolist() == [2, 4, 6, 8]
    unscale(grad.data)
    assert grad.data.tolist() == [1, 2, 3, 4]


def test_bfloat16_of_ml_dtypes():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    grad = np.arange(1, 25, dtype="float32").reshape(4, 6).astype(bfloat16)
    expected = grad.copy()
    expected[::-1, ::2] = expected[::-1, ::2] / bfloat16(2)
    assert unscale(grad[::-1, ::2]) is False
    assert np.array_equal(grad, expected)
    scalar = np.array(3, bfloat16)
    unscale(scalar)
    assert scalar == 1.5
    grad[3, 3] = np.inf
    assert check(grad) is True
    grad.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        unscale(grad)


def test_other_types_of_ml_dtypes():
    with pytest.raises(ValueError, match="gradient 0 .*has dtype float8_e5m2; allowed are float32"):
        check(four(pytest.importorskip("ml_dtypes").float8_e5m2))


# Other buffers


@pytest.mark.parametrize("code", "fd")
def test_array_array(code):
    grad = array.array(code, [2, 4, 6, 8])
    unscale(grad)
    assert grad.tolist() == [1, 2, 3, 4]
    grad.append(0)  # BufferError while somebody borrows it


def test_memoryview():
    grad = array.array("f", [2, 4, 6, 8])
    unscale(memoryview(grad)[::-2])
    assert grad.tolist() == [2, 2, 6, 4]
    matrix = memoryview(bytearray(32)).cast("d", (2, 2))
    matrix[1, 1] = 3.0
    unscale(matrix)
    assert matrix[1, 1] == 1.5
    with pytest.raises(ValueError, match="read-only"):
        unscale(memoryview(grad).toreadonly())


def test_released_memoryview():
    view = memoryview(array.array("f", [1]))
    view.release()
    with pytest.raises((TypeError, ValueError)):
        check(view)


def test_ctypes():
    grad = (ctypes.c_float * 2 * 2)((2, 4), (6, 8))
    unscale(grad)
    assert [list(row) for row in grad] == [[1, 2], [3, 4]]


def test_bytes():
    with pytest.raises(ValueError, match=r"gradient 0 \(a bytes\) is read-only"):
        unscale(b"12345678")
    with pytest.raises(ValueError, match="gradient 0 has dtype uint8"):
        check(b"12345678")
    with pytest.raises(ValueError, match="gradient 0 has dtype uint8"):
        unscale(bytearray(8))


# DLPack


@pytest.mark.parametrize("producer", [Old, New])
def test_dlpack_alone(producer):
    grad = producer([2, 4, 6, 8])
    assert unscale(grad) is False
    assert list(grad.values) == [1, 2, 3, 4]
    assert grad.exports == 0


def test_dlpack_strides_and_offset():
    strides = (ctypes.c_int64 * 2)(1, 2)
    grad = Old([1, 2, 4, 6, 8], strides=strides, byte_offset=4)
    unscale(grad)
    assert list(grad.values) == [1, 1, 2, 3, 4]


def test_dlpack_is_asked_for_no_copy():
    grad = New([2, 4])
    check(grad)
    assert grad.asked == [((1, 1), False)]


def test_dlpack_read_only():
    grad = New([2, 4], flags=READ_ONLY)
    assert check(grad) is False
    with pytest.raises(ValueError, match=r"gradient 0 \(a New\) is read-only"):
        unscale(grad)
    assert list(grad.values) == [2, 4] and grad.exports == 0


@pytest.mark.parametrize(
    "grad, message",
    [(New([1, 2], flags=COPIED), "copy"), (New([1, 2], version=(2, 0)), "newer")],
)
def test_dlpack_capsules_that_are_refused(grad, message):
    with pytest.raises(TypeError, match=message):
        check(grad)
    assert grad.exports == 0


def test_descriptors_that_no_array_has_are_the_cores_to_refuse():
    for fields in ({"shape": None}, {"ndim": 65}, {"ndim": 2**31 - 1}):
        with pytest.raises(ValueError, match="shape|ndim"):
            check(Old([1, 2], **fields))


def test_dlpack_of_other_devices_and_dtypes_is_left_to_the_core():
    grad = Old([1, 2], device_type=CUDA)
    with pytest.raises(_core.DeviceError, match=r"gradient 1 \(\"b\"\).*device"):
        unscale(None, grad, name=lambda index: "ab"[index])
    assert grad.exports == 0
    with pytest.raises(NotImplementedError, match="complex"):
        check(Old([1, 2, 3, 4], code=COMPLEX, bits=64))
    with pytest.raises(ValueError, match="4 lanes"):
        check(Old([1, 2], lanes=4))


class Raises:
    def __init__(self, exception):
        self.exception = exception

    def __dlpack__(self, **_):
        raise self.exception


@pytest.mark.parametrize("exception", [BufferError("no"), RuntimeError("no"), TypeError("no"), ValueError("no")])
def test_what_dlpack_raises_is_the_cause(exception):
    with pytest.raises(TypeError, match=r"gradient 0 \(a Raises\)") as caught:
        check(Raises(exception))
    assert caught.value.__cause__ is exception
    assert caught.value.__cause__.__traceback__ is not None


def test_dlpack_is_asked_again_only_where_it_knows_no_versions():
    class Counting(Old):
        asked = 0

        def __dlpack__(self, **options):
            self.asked += 1
            if "max_version" in options and self.delegates:
                return super().__dlpack__(**options)  # a TypeError of its signature
            if self.exception is not None:
                raise self.exception
            return super().__dlpack__()

    grad = Counting([2, 4])
    grad.delegates, grad.exception = False, TypeError("mine")
    with pytest.raises(TypeError) as caught:
        check(grad)
    assert caught.value.__cause__ is grad.exception
    assert grad.asked == 1
    grad.delegates = True
    with pytest.raises(TypeError) as caught:
        check(grad)
    assert caught.value.__cause__ is grad.exception
    assert "max_version" in str(grad.exception.__context__)
    assert grad.asked == 3
    grad.exception = None
    assert check(grad) is False
    assert grad.asked == 5


def test_a_type_error_of_the_second_call_is_not_hidden_either():
    class Failing(Old):
        def __dlpack__(self, stream=None):
            raise TypeError("mine")

    with pytest.raises(TypeError) as caught:
        check(Failing([2, 4]))
    assert str(caught.value.__cause__) == "mine"


@pytest.mark.parametrize("exception", [KeyboardInterrupt(), MemoryError()])
def test_trouble_of_the_interpreter_is_passed_on(exception):
    with pytest.raises(type(exception)):
        check(Raises(exception))


def test_dlpack_that_returns_something_else():
    class Wrong:
        def __dlpack__(self):
            return 3

    with pytest.raises(TypeError, match="no new capsule"):
        check(Wrong())


# No arrays


@pytest.mark.parametrize("grad", [1, 1.5, "text", [1.0], (1.0,), {}, object(), int])
def test_what_is_no_array(grad):
    with pytest.raises(TypeError, match=r'gradient 1 \("w1"\) \(a \w+\) is no array'):
        unscale(four(), grad, name="w{}".format)


@pytest.mark.parametrize("grads", [None, 1, (), four(), iter([]), "text"])
def test_what_is_no_list(grads):
    with pytest.raises(TypeError, match="list"):
        _core.check_grads(grads, None)


def test_names_may_be_absent_and_may_raise():
    with pytest.raises(TypeError, match=r"^gradient 0 \(a int\)"):
        unscale(1, name=lambda index: None)
    with pytest.raises(ZeroDivisionError):
        unscale(1, name=lambda index: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        unscale(four("int32"), name=lambda index: 1 / 0)
    with pytest.raises(ValueError, match=r'^unscale_grads: gradient 0 \("wä\?"\) has dtype int32'):
        unscale(four("int32"), name=lambda index: "wä?")


# Nothing is kept after a call, failed or not


def test_nothing_changes_when_one_is_refused():
    first = four()
    for bad in (1, four("int32"), four("complex64"), b"1234", Old([1, 2], device_type=CUDA)):
        with pytest.raises((TypeError, ValueError, NotImplementedError, _core.DeviceError)):
            unscale(first, bad)
        assert first.tolist() == [2, 4, 6, 8]


class AlwaysRaises:
    def __dlpack__(self, **_):
        raise RuntimeError


@pytest.mark.parametrize("bad", [None, 1.5, b"1234", AlwaysRaises(), array.array("i", [1])])
def test_everything_is_given_back(bad):
    first, second, third = four(), array.array("f", [2]), four()[::2]
    producers = [Old([2, 4]), New([2, 4])]
    counted = (first, second, third) if bad is None else (first, second, third, bad)
    before = [sys.getrefcount(grad) for grad in counted]
    for _ in range(100):
        try:
            unscale(first, second, *producers, third, bad)
        except (TypeError, ValueError):
            assert bad is not None
    assert [sys.getrefcount(grad) for grad in counted] == before
    second.append(0)
    assert [producer.exports for producer in producers] == [0, 0]
    dead = weakref.ref(first)
    del first, counted
    assert dead() is None


def test_a_scaler_gives_back_what_a_refused_list_had_lent():
    grads = [array.array("f", [1]), 1]
    with pytest.raises(TypeError, match="gradient 1"):
        gradscaler.GradScaler().unscale_(grads)
    grads[0].append(0)


def test_a_list_that_shrinks_meanwhile():
    class Clears:
        def __dlpack__(self):
            grads.clear()
            return Old([1, 2]).__dlpack__()

    grads = [array.array("f", [1]), Clears(), four()]
    first = grads[0]
    with pytest.raises(IndexError):
        _core.unscale_grads(grads, 2.0, None)
    first.append(2)
    assert first.tolist() == [1, 2]


def test_calls_inside_a_call():
    class Nested(Old):
        def __dlpack__(self):
            unscale(inner)
            return super().__dlpack__()

    inner, outer = four(), Nested([2, 4])
    unscale(four(), outer, four())
    assert inner.tolist() == [1, 2, 3, 4] and list(outer.values) == [1, 2]


# PyTorch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_torch(torch):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for grad in (
            torch.tensor([[2.0, 4.0], [6.0, 8.0]], dtype=dtype),
            torch.nn.Parameter(torch.tensor([[2.0, 4.0], [6.0, 8.0]], dtype=dtype)),
            torch.tensor([[2.0, 4.0], [6.0, 8.0]], dtype=dtype, requires_grad=True),
        ):
            address, count = grad.data_ptr(), sys.getrefcount(grad)
            unscale(grad)
            assert grad.tolist() == [[1, 2], [3, 4]]
            assert grad.data_ptr() == address
            assert sys.getrefcount(grad) == count


def test_torch_views(torch):
    base = torch.arange(1.0, 25.0).reshape(4, 6)
    expected = base.clone()
    expected.t()[::2, 1] /= 2
    unscale(base.t()[::2, 1])
    assert torch.equal(base, expected)
    unscale(torch.empty(0), torch.empty(3, 0))
    scalar = torch.tensor(3.0)
    unscale(scalar)
    assert scalar.item() == 1.5


def test_torch_that_is_refused(torch):
    with pytest.raises(NotImplementedError, match="complex"):
        check(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="dtype"):
        check(torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="more than once"):
        unscale(torch.ones(2, 1).expand(2, 3))


def test_torch_dtypes_are_named(torch):
    for dtype in (torch.int32, torch.uint8, torch.bool, torch.int64):
        name = str(dtype).replace("torch.", "")
        with pytest.raises(ValueError, match=rf"gradient 0 .*\b{name}\b.*float32"):
            check(torch.zeros(2, dtype=dtype))
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "bits8", "float4_e2m1fn_x2"):
        if hasattr(torch, name):
            with pytest.raises(ValueError, match=rf"gradient 0 .*dtype torch.{name}; allowed are float32"):
                check(torch.empty(2, dtype=getattr(torch, name)))


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, that some layouts are young
def test_torch_tensors_without_memory_to_lend_say_what_they_are(torch):
    four = torch.eye(4)
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    strided, jagged = (
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
        for layout in (torch.strided, torch.jagged)
    )
    for grad, exception, words in (
        (torch.empty(2, device="meta"), _core.DeviceError, "is on device meta; served is the CPU"),
        (torch.empty(2, dtype=torch.int32, device="meta"), _core.DeviceError, "device meta"),
        (torch.nn.Parameter(torch.empty(2, device="meta")), _core.DeviceError, "device meta"),
        (four.to_sparse_csr(), ValueError, r"layout torch.sparse_csr; allowed are .*to_dense\(\)"),
        (four.to_sparse_csc(), ValueError, "layout torch.sparse_csc"),
        (four.to_sparse_bsr((2, 2)), ValueError, "layout torch.sparse_bsr"),
        (four.to_sparse(), ValueError, "layout torch.sparse_coo"),  # of those, callers pass the values
        (four.to_mkldnn(), ValueError, r"layout torch._mkldnn; allowed are .*to_dense\(\)"),
        (quantized, ValueError, r"dtype torch.qint8; allowed are float32"),
        (strided, ValueError, r"nested; .*unbind\(\)"),
        (jagged, ValueError, r"nested; .*unbind\(\)"),
    ):
        with pytest.raises(exception, match=rf'gradient 1 \("w1"\) .*{words}') as caught:
            unscale(None, grad, name="w{}".format)
        assert caught.value.__cause__ is not None


def test_subclasses_of_torch_tensors(torch):
    class Named(torch.Tensor):
        pass

    grad = torch.tensor([2.0, 4.0]).as_subclass(Named)
    unscale(grad)
    assert grad.tolist() == [1, 2]
    with pytest.raises(TypeError, match=r"gradient 0 \(a Named\)") as caught:
        unscale(torch.tensor([2.0], requires_grad=True).as_subclass(Named))
    assert isinstance(caught.value.__cause__, BufferError)
