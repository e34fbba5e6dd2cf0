# SPDX-License-Identifier: Apache-2.0
"""Arguments of the constructor, the setters and others: which types are accepted, and the messages of refusals."""

import decimal
import inspect
from fractions import Fraction

import numpy as np
import pytest
from conftest import f32

import gradscaler
from gradscaler import DeviceError, GradScaler


def test_signature():
    parameters = inspect.signature(GradScaler).parameters
    assert list(parameters)[:6] == [
        "device",
        "init_scale",
        "growth_factor",
        "backoff_factor",
        "growth_interval",
        "enabled",
    ]
    assert [p.default for p in parameters.values()][:6] == ["cpu", 65536.0, 2.0, 0.5, 2000, True]
    assert all(p.kind is p.KEYWORD_ONLY for p in list(parameters.values())[6:])


@pytest.mark.parametrize("first", [65536.0, 1024, True, np.float32(2.0)])
def test_a_number_as_first_argument_is_a_mistake(first):
    with pytest.raises(TypeError, match="init_scale="):
        GradScaler(first)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "metal", "mps", "gpu", ""])
def test_devices_not_served(device):
    with pytest.raises(DeviceError, match="device"):
        GradScaler(device)
    with pytest.raises(DeviceError):
        GradScaler(device, enabled=False)


def test_the_cpu_in_several_spellings():
    class Device:
        type = "cpu"

    for device in ("cpu", "cpu:0", Device()):
        assert GradScaler(device).get_scale() == 65536.0
    with pytest.raises(TypeError, match="device"):
        GradScaler(None)


@pytest.mark.parametrize(
    "options",
    [
        {"init_scale": 0.0},
        {"init_scale": -1.0},
        {"init_scale": float("nan")},
        {"init_scale": float("inf")},
        {"init_scale": 10**400},
        {"growth_factor": 1.0},
        {"growth_factor": float("inf")},
        {"backoff_factor": 1.0},
        {"backoff_factor": 0.0},
        {"backoff_factor": -0.5},
        {"growth_interval": 0},
        {"growth_interval": 2**64},
        {"min_scale": 131072.0},
        {"init_scale": 2048.0, "max_scale": 1024.0},
        {"min_scale": 0.0},
        {"hysteresis": 0},
        {"hysteresis": 2**31},
        {"max_consecutive_skips": -1},
        {"skip_window": 1, "max_skip_share": 0.5},
        {"skip_window": 4097, "max_skip_share": 0.5},
        {"max_skip_share": 0.0, "skip_window": 8},
        {"max_skip_share": 1.0, "skip_window": 8},
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_values_out_of_range(options, enabled):
    name = next(iter(options))
    with pytest.raises(ValueError, match=f"{name} is"):
        GradScaler(enabled=enabled, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"init_scale": "65536"},
        {"init_scale": None},
        {"init_scale": True},
        {"growth_interval": 2000.5},
        {"growth_interval": True},
        {"hysteresis": 1.5},
        {"hysteresis_until_growth": "no"},
        {"strict": 2},
        {"comm": object()},
        {"on_event": 3},
    ],
)
def test_values_of_wrong_types(options):
    (name,) = options
    with pytest.raises(TypeError, match=name):
        GradScaler(**options)


# trial T18
def test_enabled_none_is_disabled_as_in_pytorch():
    scaler = GradScaler(enabled=None)
    assert scaler.is_enabled() is False
    assert scaler.scale("loss") == "loss"
    for name in ("strict", "allow_fp16_grads"):
        with pytest.raises(TypeError, match=f"{name} is None"):
            GradScaler(**{name: None})


REALS = ("init_scale", "growth_factor", "backoff_factor", "min_scale", "max_scale", "max_skip_share")
INTEGERS = ("growth_interval", "hysteresis", "max_consecutive_skips", "skip_window")
FLAGS = ("enabled", "allow_fp16_grads", "hysteresis_until_growth", "strict")
NO_NUMBERS = (
    *(True, np.bool_(True), np.array(True), "4", np.array("4"), np.str_("4"), b"4", 4j, np.complex64(4), [4.0]),
    *(np.datetime64("2020", "ns"), np.timedelta64(4, "ns"), np.array(None), object()),
)


class Unprintable:
    def __repr__(self):
        raise ZeroDivisionError


def numbers_to_set():
    """(name, function) of each number that the package takes, other than options."""
    scaler, state = GradScaler(), GradScaler(hysteresis=2).state_dict()
    state["hysteresis_tracker"] = 1

    def load(key):
        return lambda value: scaler.load_state_dict({**state, key: value})

    yield "growth_factor", scaler.set_growth_factor
    yield "backoff_factor", scaler.set_backoff_factor
    yield "growth_interval", scaler.set_growth_interval
    yield "new_scale", scaler.update
    yield "max_norm", lambda value: scaler.clip_grad_norm_([], value)
    yield "norm_type", lambda value: scaler.clip_grad_norm_([], 1.0, value)
    yield "scale", lambda value: gradscaler.unscale_grads([], value)
    yield "norm_type", lambda value: gradscaler.grad_norm([], value)
    yield "max_norm", lambda value: gradscaler.clip_grad_norm_([], value)
    yield "clip_value", lambda value: gradscaler.clip_grad_value_([], value)
    for key in (*state, "min_scale", "max_scale", "consecutive_skips"):
        yield key, load(key)


def everything_that_takes_a_number():
    for name in REALS + INTEGERS:
        others = {"skip_window": 8} if name == "max_skip_share" else {}  # without a window it is not looked at
        yield name, lambda value, name=name, others=others: GradScaler(**{name: value}, **others)
    yield from numbers_to_set()


def test_what_is_no_number_is_named():
    for name, call in everything_that_takes_a_number():
        for bad in (*NO_NUMBERS, Unprintable()):
            with pytest.raises(TypeError, match=name):
                call(bad)
        for bad in (10**400, -(10**400), 10**5000, f32(1.0, 2.0), f32(), np.zeros((1, 2), int)):
            with pytest.raises(ValueError, match=name) as caught:
                call(bad)
            assert len(str(caught.value)) < 250
        for bad in (float("nan"), np.float32("nan"), np.array(np.nan)):
            with pytest.raises((TypeError, ValueError), match=f"{name} is .*nan"):
                call(bad)


def test_numbers_whose_conversion_fails():
    class Wrong:
        def __float__(self):
            return "1"

        def __index__(self):
            return "1"

    class Failing:
        def __float__(self):
            raise ZeroDivisionError

        __index__ = __float__

    for name, call in everything_that_takes_a_number():
        with pytest.raises(TypeError, match=name):
            call(Wrong())
        with pytest.raises(ZeroDivisionError):
            call(Failing())
    with pytest.raises(ValueError, match="init_scale"):
        GradScaler(init_scale=decimal.Decimal("sNaN"))


@pytest.mark.parametrize("four", [4, 4.0, np.float32(4), np.int8(4), np.array(4), np.array([4.0]), Fraction(4)])
def test_real_options_of_many_kinds(four):
    assert GradScaler(init_scale=four, min_scale=four, max_scale=four).get_scale() == 4.0
    scaler = GradScaler(growth_factor=four)
    scaler.set_growth_factor(four)
    scaler.load_state_dict({**scaler.state_dict(), "scale": four})
    assert (scaler.get_growth_factor(), scaler.get_scale()) == (4.0, 4.0)
    assert all(type(value) in (int, float) for value in scaler.state_dict().values())


@pytest.mark.parametrize("four", [4, np.int8(4), np.uint64(4), np.array(4), np.array([[4]])])
def test_integer_options_of_many_kinds(four):
    scaler = GradScaler(growth_interval=four, hysteresis=four, max_consecutive_skips=four)
    assert type(scaler.get_growth_interval()) is int
    assert scaler.state_dict()["hysteresis"] == scaler.get_growth_interval() == 4


def test_integral_floats_are_integers():
    scaler = GradScaler(growth_interval=1000.0, hysteresis=np.float32(2.0), max_consecutive_skips=3.0)
    assert scaler.get_growth_interval() == 1000
    scaler.set_growth_interval(500.0)
    assert scaler.get_growth_interval() == 500
    assert type(scaler.get_growth_interval()) is int
    for bad in (2.5, float("inf"), float("nan")):
        with pytest.raises(TypeError, match="growth_interval is .* must be an integer"):
            scaler.set_growth_interval(bad)
    for bad in (0.0, -1.0, 1e300):
        with pytest.raises(ValueError, match="growth_interval is"):
            scaler.set_growth_interval(bad)


def test_flags():
    for name in FLAGS:
        for value in (True, False, np.bool_(True), np.bool_(False), np.array(True), 1, 0):
            scaler = GradScaler(**{name: value})
            assert scaler.is_enabled() is (bool(value) if name == "enabled" else True)
        for bad in ("False", "", float("nan"), 1.0, 2, -1, 10**5000, [True], np.array([True, False]), b"1"):
            with pytest.raises((TypeError, ValueError), match=f"{name} is .*True or False"):
                GradScaler(**{name: bad})


def test_setters_check_and_change_nothing():
    scaler = GradScaler()
    for setter, bad in (
        (scaler.set_growth_factor, 1.0),
        (scaler.set_backoff_factor, 1.5),
        (scaler.set_growth_interval, 0),
    ):
        with pytest.raises(ValueError):
            setter(bad)
        with pytest.raises(TypeError):
            setter("2")
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (2.0, 0.5, 2000)
