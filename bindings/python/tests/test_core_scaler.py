# SPDX-License-Identifier: Apache-2.0
"""The extension's Scaler and Handle, directly: arguments, values, stages, state."""

import copy
import math
import pickle

import numpy as np
import pytest
from core_rig import FLT_MAX, FLT_MIN, READY, STEPPED, UNSCALED, grads, make, step

from gradscaler import _core


class TestArguments:
    def test_all_are_needed(self):
        with pytest.raises(TypeError):
            _core.Scaler(init_scale=8.0)
        with pytest.raises(TypeError):
            _core.Scaler(8.0)

    def test_handles_take_none(self):
        with pytest.raises(TypeError):
            _core.Handle(1)

    def test_none_limits_are_the_defaults(self):
        state = make().state()
        assert (state["min_scale"], state["max_scale"]) == (FLT_MIN, FLT_MAX)
        state = make(min_scale=1, max_scale=16).state()
        assert (state["min_scale"], state["max_scale"]) == (1.0, 16.0)

    @pytest.mark.parametrize("number", [8, 8.0, np.float32(8), np.float64(8), np.int16(8), np.array(8.0)])
    def test_numbers_of_any_kind(self, number):
        scaler = make(init_scale=number, growth_factor=number, growth_interval=number)
        assert scaler.get_scale() == 8.0
        assert scaler.get_growth_factor() == 8.0
        assert scaler.get_growth_interval() == 8

    def test_numbers_by_protocol(self):
        class Number:
            def __float__(self):
                return 4.0

            def __index__(self):
                return 3

        scaler = make(init_scale=Number(), growth_interval=Number())
        assert (scaler.get_scale(), scaler.get_growth_interval()) == (4.0, 3)
        assert make(init_scale=True).get_scale() == 1.0

    @pytest.mark.parametrize("value", ["8", None, [8.0], 1j])
    def test_no_numbers(self, value):
        with pytest.raises(TypeError, match="init_scale must be a number"):
            make(init_scale=value)
        with pytest.raises(TypeError, match="growth_interval must be an integer"):
            make(growth_interval=value)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400), 0, -1.0])
    def test_ranges_are_the_cores(self, value):
        with pytest.raises(ValueError, match="init_scale"):
            make(init_scale=value)
        with pytest.raises(ValueError, match="growth_factor"):
            make(growth_factor=value)

    @pytest.mark.parametrize("value", [0, -3, 2.5, math.nan, 2**63, -(2**70)])
    def test_intervals(self, value):
        with pytest.raises(ValueError, match="growth_interval"):
            make(growth_interval=value)

    def test_counts(self):
        assert make(growth_interval=2**63 - 1).get_growth_interval() == 2**63 - 1
        for value in (0, 2**31, -(2**40)):
            with pytest.raises(ValueError, match="hysteresis"):
                make(hysteresis=value)
        with pytest.raises(ValueError, match="max_consecutive_skips"):
            make(max_consecutive_skips=-1)

    def test_an_exception_of_a_number_is_kept(self):
        class Bad:
            def __float__(self):
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            make(init_scale=Bad())
        with pytest.raises(KeyError, match="mine"):
            make(enabled=type("Torn", (), {"__bool__": lambda self: Bad().__float__()})())

    def test_callables(self):
        for name in ("allreduce_max", "allreduce_max64", "observer"):
            with pytest.raises(TypeError, match=f"{name} must be callable"):
                make(**{name: 3})
        with pytest.raises(ValueError, match="allreduce_max"):
            make(allreduce_sum=print)
        with pytest.raises(ValueError, match="allreduce_max64 is given without"):
            make(allreduce_max64=print)

    def test_handles_are_checked(self):
        scaler = make()
        with pytest.raises(TypeError, match="Handle"):
            scaler.unscale(object(), [], None)
        with pytest.raises(TypeError, match="Handle"):
            scaler.get_stage(None)

    def test_setters(self):
        scaler = make()
        scaler.set_growth_factor(4)
        scaler.set_backoff_factor(0.25)
        scaler.set_growth_interval(7)
        assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (4, 0.25, 7)
        with pytest.raises(ValueError, match="growth_factor is nan"):
            scaler.set_growth_factor(math.nan)
        with pytest.raises(ValueError, match="backoff_factor is 1"):
            scaler.set_backoff_factor(1)
        with pytest.raises(ValueError, match="growth_interval is 0"):
            scaler.set_growth_interval(0)
        assert scaler.get_growth_factor() == 4.0


class TestIteration:
    def test_scale(self):
        source, target = grads([1.0, -2.0])[0], np.zeros(2, np.float32)
        assert make().scale(source, target) is None
        assert target.tolist() == [8.0, -16.0]
        source.flags.writeable = False
        make().scale(source, target)
        with pytest.raises(ValueError):
            make().scale(target, source)

    def test_stages(self):
        scaler, handle = make(), _core.Handle()
        arrays = grads([8.0, 16.0]) + [None]
        assert scaler.get_stage(handle) == READY
        assert scaler.unscale(handle, arrays, None) is None
        assert arrays[0].tolist() == [1.0, 2.0]
        assert scaler.get_stage(handle) == UNSCALED
        assert scaler.found_inf(handle) is False
        assert step(scaler, handle, arrays) is None
        assert scaler.get_stage(handle) == STEPPED
        scaler.update()
        assert scaler.get_stage(handle) == READY
        assert scaler.state()["growth_tracker"] == 1
        assert scaler.stats() == (1, 1, 0, 0, 0, 0)

    def test_state_errors_are_runtime_errors(self):
        scaler, handle = make(), _core.Handle()
        with pytest.raises(RuntimeError, match="nothing was checked|No inf checks"):
            scaler.update()
        with pytest.raises(RuntimeError, match="not stepped"):
            scaler.result(handle)
        scaler.unscale(handle, grads([1.0]), None)
        with pytest.raises(RuntimeError, match="already unscaled"):
            scaler.unscale(handle, grads([1.0]), None)
        step(scaler, handle, grads([1.0]))
        with pytest.raises(RuntimeError, match="already stepped"):
            step(scaler, handle, grads([1.0]))

    @pytest.mark.parametrize("value", [object(), 3, None, 2.5, np.float32(1)])
    def test_step_returns_the_very_object(self, value):
        assert step(make(), _core.Handle(), grads([8.0]), lambda: value) is value

    def test_overflow(self):
        scaler, handle, calls = make(), _core.Handle(), []
        arrays = grads([8.0], [math.inf, math.nan, 1.0], [1.0, -math.inf])
        assert step(scaler, handle, arrays, lambda: calls.append(1), name=lambda i: f"w{i}") is None
        assert calls == []
        assert scaler.found_inf(handle) is True
        assert scaler.overflows(handle) == [(1, "w1", 1, 1, 0, 1), (2, "w2", 1, 0, 1, 1)]
        outcome, norm, largest, _ = scaler.result(handle)
        assert outcome == 1 and math.isnan(norm) and math.isnan(largest)
        scaler.update()
        assert scaler.get_scale() == 4.0
        assert scaler.stats() == (1, 0, 1, 1, 0, 1)
        assert scaler.overflows(handle) == [(1, "w1", 1, 1, 0, 1), (2, "w2", 1, 0, 1, 1)]

    def test_result(self):
        scaler, handle = make(), _core.Handle()
        step(scaler, handle, grads([24.0, -32.0]), clip=1.0)
        assert scaler.result(handle) == (0, 5.0, 4.0, 8.0)
        scaler.update()
        step(scaler, handle, [None])
        assert scaler.result(handle)[0] == 2

    def test_clip(self):
        scaler, handle, arrays = make(), _core.Handle(), grads([24.0, 32.0])
        assert scaler.clip_grad_norm(handle, arrays, None, 1.0, 2.0) == 5.0
        assert np.allclose(arrays[0], [0.6, 0.8])
        assert scaler.clip_grad_norm(handle, arrays, None, math.inf, math.inf) == pytest.approx(0.8)
        with pytest.raises(ValueError, match="max_norm"):
            scaler.clip_grad_norm(handle, arrays, None, -1.0, 2.0)

    def test_record_skip_rearm(self):
        scaler, first, second = make(), _core.Handle(), _core.Handle()
        scaler.record(first, np.bool_(True))
        assert scaler.found_inf(first) is True
        scaler.skip(second)
        assert scaler.get_stage(second) == STEPPED
        scaler.rearm(first)
        assert scaler.get_stage(first) == READY
        scaler.update()
        assert scaler.get_scale() == 4.0

    def test_update_to(self):
        scaler = make(max_scale=64)
        scaler.update_to(np.float32(32))
        assert scaler.get_scale() == 32.0
        for value in (65.0, math.nan, 10**400):
            with pytest.raises(ValueError, match="new_scale"):
                scaler.update_to(value)
        with pytest.raises(TypeError, match="new_scale must be a number"):
            scaler.update_to("32")
        assert scaler.get_scale() == 32.0

    def test_step_scaled(self):
        scaler, handle, seen = make(), _core.Handle(), []
        arrays = grads([24.0, 32.0])
        value = step(scaler, handle, arrays, lambda: pytest.fail("the plain step"), lambda m: seen.append(m) or "done")
        assert value == "done" and seen == [0.125]
        assert arrays[0].tolist() == [24.0, 32.0]
        scaler.update()
        scaler.unscale(handle, arrays, None)
        assert step(scaler, handle, arrays, lambda: "plain", lambda m: pytest.fail("scaled")) == "plain"
        scaler.update()
        step(scaler, handle, arrays, lambda: None, None)
        scaler.update()
        assert step(scaler, handle, [None], lambda: "no gradient", lambda m: pytest.fail("scaled")) == "no gradient"

    def test_gradients_are_not_looked_at_again(self):
        scaler, handle = make(), _core.Handle()
        scaler.unscale(handle, grads([1.0]), None)
        assert step(scaler, handle, [], lambda: 1) == 1

    def test_disabled(self):
        scaler, handle, arrays = make(enabled=False), _core.Handle(), grads([3.0, 4.0])
        scaler.unscale(handle, arrays, None)
        assert (scaler.get_scale(), scaler.is_enabled()) == (1.0, False)
        assert step(scaler, handle, arrays, lambda: "value", clip=1.0) == "value"
        assert np.allclose(arrays[0], [0.6, 0.8])
        scaler.update()
        assert scaler.state()["scale"] == 0.0

    def test_a_disabled_scaler_is_open_to_its_step(self):
        """A closure calls the scaler and its own optimizer again, as training loops with a closure do."""
        scaler, handle, other, arrays = make(enabled=False), _core.Handle(), _core.Handle(), grads([3.0, 4.0])

        def inner():
            scaler.unscale(handle, arrays, None)
            return scaler.clip_grad_norm(handle, arrays, None, 100.0, 2.0)

        def closure():
            return step(scaler, other, arrays, inner), scaler.clip_grad_norm(handle, arrays, None, 100.0, 2.0)

        assert step(scaler, handle, arrays, closure, clip=100.0) == (5.0, 5.0)
        assert step(scaler, handle, arrays, lambda: scaler.forget(handle)) is None


class TestState:
    def test_round_trip(self):
        source = make(init_scale=32, hysteresis=3, min_scale=2, max_scale=64, growth_interval=5)
        handle = _core.Handle()
        source.unscale(handle, grads([math.inf]), None)
        source.update()
        state = source.state()
        assert state["hysteresis_tracker"] == 2 and isinstance(state["growth_interval"], int)
        target = make()
        target.load_state(state)
        assert target.state() == state

    def test_absent_fields_are_zero(self):
        scaler = make(hysteresis=2, min_scale=4)
        five = {"scale": 16, "growth_factor": 2, "backoff_factor": 0.5, "growth_interval": 10.0, "growth_tracker": 3}
        scaler.load_state(five)
        state = scaler.state()
        assert (state["scale"], state["growth_tracker"], state["hysteresis"], state["min_scale"]) == (16, 3, 2, 4)

    def test_refusals(self):
        scaler = make()
        before = scaler.state()
        with pytest.raises(RuntimeError, match="disabled"):
            scaler.load_state({})
        with pytest.raises(TypeError, match="dict"):
            scaler.load_state([1])
        with pytest.raises(TypeError, match="scale must be a number"):
            scaler.load_state({**before, "scale": "8"})
        with pytest.raises(ValueError, match="growth_tracker is 0.5"):
            scaler.load_state({**before, "growth_tracker": 0.5})
        with pytest.raises(ValueError, match="does not know"):
            scaler.load_state({**before, "_growth_tracker": 1})
        with pytest.raises(ValueError, match="hysteresis"):
            scaler.load_state({**before, "hysteresis": 2**40})
        with pytest.raises(ValueError, match="scale"):
            scaler.load_state({**before, "scale": math.nan})
        assert scaler.state() == before
        scaler.unscale(_core.Handle(), grads([1.0]), None)
        with pytest.raises(RuntimeError, match="under way"):
            scaler.load_state(before)


@pytest.mark.parametrize("thing", [make(), _core.Handle()])
def test_no_copies(thing):
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copied(thing)


class TestTwoScalers:
    def test_one_handle_in_turn(self):
        first, second, handle = make(), make(init_scale=4), _core.Handle()
        arrays = grads([32.0])
        first.unscale(handle, arrays, None)
        second.unscale(handle, arrays, None)
        assert arrays[0].tolist() == [1.0]
        assert first.get_stage(handle) == second.get_stage(handle) == UNSCALED

    def test_not_at_once(self):
        first, second, handle, arrays = make(), make(), _core.Handle(), grads([8.0])
        with pytest.raises(RuntimeError, match="another scaler"):
            step(first, handle, arrays, lambda: second.unscale(handle, arrays, None))
        assert second.get_stage(handle) == READY
        second.unscale(handle, arrays, None)

    def test_one_scaler_inside_the_other(self):
        outer, inner, arrays = make(), make(), grads([64.0])
        handles = _core.Handle(), _core.Handle()
        assert step(outer, handles[0], arrays, lambda: step(inner, handles[1], arrays, lambda: "both")) == "both"
        assert arrays[0].tolist() == [1.0]
