# SPDX-License-Identifier: Apache-2.0
"""The callbacks of the extension's Scaler: names, steps, observers and collectives, and their exceptions."""

import math
import sys
import traceback

import numpy as np
import pytest
from core_rig import (
    AT_MIN_SCALE,
    BACKOFF,
    GROWTH,
    OVERFLOW,
    READY,
    STEPPED,
    UNSCALED,
    Torn,
    frames,
    grads,
    make,
    raise_torn,
    step,
)

from gradscaler import _core


class TestNames:
    def test_refusals_name_the_gradient(self):
        scaler, handle = make(), _core.Handle()
        arrays = grads([8.0]) + [np.ones(2, np.float16)]
        with pytest.raises(ValueError, match="layer1.weight"):
            scaler.unscale(handle, arrays, lambda i: f"layer{i}.weight")
        assert arrays[0].tolist() == [8.0]
        assert scaler.get_stage(handle) == READY

    @pytest.mark.parametrize("name", ["über α", "", "a" * 5000])
    def test_any_text(self, name):
        scaler, handle = make(), _core.Handle()
        scaler.unscale(handle, grads([math.inf]), lambda i: name)
        assert scaler.overflows(handle)[0][1] == name

    def test_no_text(self):
        scaler, handle = make(), _core.Handle()
        scaler.unscale(handle, grads([math.inf], [math.nan]), lambda i: "\ud800" if i else None)
        assert [entry[1] for entry in scaler.overflows(handle)] == [None, "\\ud800"]

    def test_an_exception_does_not_undo_the_call(self):
        scaler, handle, asked = make(), _core.Handle(), []

        def name(index):
            asked.append(index)
            raise KeyError("no such name")

        arrays = grads([8.0], [8.0], [8.0])
        with pytest.raises(KeyError, match="no such name"):
            scaler.unscale(handle, arrays, name)
        assert asked == [0]
        assert scaler.get_stage(handle) == UNSCALED
        assert arrays[2].tolist() == [1.0]

    def test_something_else(self):
        scaler, handle = make(), _core.Handle()
        with pytest.raises(TypeError):
            scaler.unscale(handle, grads([1.0]), lambda i: 3)
        scaler.update()
        with pytest.raises(TypeError):
            scaler.unscale(_core.Handle(), grads([1.0]), "no callable")


class TestExceptions:
    def test_step(self):
        scaler, handle, arrays = make(), _core.Handle(), grads([8.0])
        with pytest.raises(Torn, match="mine") as info:
            step(scaler, handle, arrays, raise_torn)
        assert frames(info)[-1] == "raise_torn"
        assert info.value.__context__ is None
        assert scaler.get_stage(handle) == UNSCALED
        assert step(scaler, handle, arrays, lambda: 7) == 7
        scaler.update()

    def test_step_scaled(self):
        scaler, handle = make(), _core.Handle()
        with pytest.raises(Torn) as info:
            step(scaler, handle, grads([8.0]), lambda: None, raise_torn)
        assert frames(info)[-1] == "raise_torn"
        assert scaler.get_stage(handle) == READY

    def test_keyboard_interrupt(self):
        def interrupt():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            step(make(), _core.Handle(), grads([8.0]), interrupt)

    def test_observer_is_raised_after_the_call(self):
        scaler, handle = make(observer=raise_torn), _core.Handle()
        with pytest.raises(Torn) as info:
            step(scaler, handle, grads([math.inf]))
        assert frames(info)[-1] == "raise_torn"
        assert scaler.get_stage(handle) == STEPPED
        with pytest.raises(Torn):
            scaler.update()
        assert scaler.get_scale() == 4.0
        assert scaler.get_stage(handle) == READY

    def test_only_the_first_is_raised(self, monkeypatch):
        shown = []
        monkeypatch.setattr(sys, "unraisablehook", lambda args: shown.append(str(args.exc_value)))

        def observer(kind, *rest):
            raise Torn(kind)

        scaler = make(init_scale=2, min_scale=1, observer=observer)
        scaler.record(_core.Handle(), False)
        scaler.update()
        with pytest.raises(Torn, match="0"):
            scaler.record(_core.Handle(), True)
        with pytest.raises(Torn, match="1"):
            scaler.update()
        assert shown == ["3"]

    def test_diverged_and_observer(self):
        scaler = make(max_consecutive_skips=1, observer=lambda kind, *rest: raise_torn() if kind == BACKOFF else None)
        scaler.record(_core.Handle(), True)
        with pytest.raises(_core.DivergedError) as info:
            scaler.update()
        assert isinstance(info.value.__context__, Torn)
        assert traceback.extract_tb(info.value.__context__.__traceback__)[-1].name == "raise_torn"

    def test_comm(self):
        scaler, handle = make(allreduce_max=raise_torn), _core.Handle()
        with pytest.raises(Torn) as info:
            scaler.unscale(handle, grads([8.0]), None)
        assert frames(info)[-1] == "raise_torn"
        assert step(scaler, handle, grads([8.0]), lambda: pytest.fail("stepped")) is None
        scaler.update_to(8.0)

    @pytest.mark.parametrize("bad", ["text", np.broadcast_to(np.float32(1), 3)], ids=["no array", "read-only"])
    def test_other_ranks_learn_of_a_gradient_that_is_no_gradient(self, bad):
        calls = []
        scaler, handle = make(allreduce_max=lambda values: calls.append(values.tolist())), _core.Handle()
        array = np.ones(3, np.float32)
        for call in (
            lambda: scaler.unscale(handle, [array, bad], None),
            lambda: step(scaler, handle, [array, bad], lambda: pytest.fail("stepped")),
            lambda: scaler.clip_grad_norm(handle, [array, bad], None, 1.0, 2.0),
        ):
            calls.clear()
            with pytest.raises((TypeError, ValueError), match="gradient 1"):
                call()
            assert [values[2] for values in calls] == [1.0]  # failed
            scaler.update_to(8.0)
        assert (array == 1).all()

    def test_calls_from_inside_an_array(self):
        scaler, handle = make(), _core.Handle()

        class Evil:
            def __dlpack__(self, **_):
                scaler.unscale(_core.Handle(), grads([1.0]), None)

        with pytest.raises(TypeError) as info:
            scaler.unscale(handle, [Evil()], None)
        assert isinstance(info.value.__cause__, RuntimeError) and "__dlpack__" in str(info.value.__cause__)
        assert scaler.get_stage(handle) == READY
        scaler.unscale(handle, grads([1.0]), None)
        assert scaler.get_stage(handle) == UNSCALED

    def test_other_ranks_learn_of_an_optimizer_that_failed(self):
        calls = []
        scaler = make(allreduce_max=lambda values: calls.append(values.tolist()))
        with pytest.raises(Torn):
            scaler.unscale(_core.Handle(), Torn("no gradients"), None)
        assert [values[2] for values in calls] == [1.0]
        with pytest.raises(Torn):
            make().unscale(_core.Handle(), Torn("no gradients"), None)

    def test_refused_gradients_do_not_stay_borrowed(self):
        scaler, handle = make(), _core.Handle()
        array = np.ones(3, np.float16)
        before = sys.getrefcount(array)
        with pytest.raises(ValueError):
            scaler.unscale(handle, [array], None)
        with pytest.raises(TypeError):
            scaler.unscale(handle, [array, "text"], None)
        assert sys.getrefcount(array) == before


class TestObserver:
    def test_events(self):
        events = []
        scaler = make(init_scale=4, min_scale=2, growth_interval=1, observer=lambda *event: events.append(event))
        handle = _core.Handle()
        scaler.unscale(handle, grads([math.nan]), None)
        scaler.update()
        scaler.unscale(handle, grads([1.0]), None)
        scaler.update()
        assert events == [
            (OVERFLOW, 4.0, 0, handle, 4.0),
            (BACKOFF, 2.0, 0, None, 4.0),
            (AT_MIN_SCALE, 2.0, 0, None, 4.0),
            (GROWTH, 4.0, 1, None, 2.0),
        ]
        assert events[0][3] is handle

    def test_const_functions_work_and_others_are_refused(self):
        seen = []

        def observer(kind, scale, update, handle, scale_before):
            if kind != OVERFLOW:
                return
            seen.append((scaler.get_scale(), scaler.get_stage(handle), scaler.found_inf(handle), scaler.stats()))
            seen.append(scaler.overflows(handle))
            for call in (
                lambda: scaler.unscale(handle, grads([1.0]), None),
                lambda: scaler.forget(handle),
                lambda: scaler.update(),
                lambda: scaler.update_to(1.0),
                lambda: scaler.set_growth_factor(3.0),
            ):
                with pytest.raises(RuntimeError, match="callback"):
                    call()

        scaler, handle = make(observer=observer), _core.Handle()
        scaler.unscale(handle, grads([math.inf]), None)
        assert seen == [(8.0, UNSCALED, True, (0, 0, 0, 0, 0, 0)), [(0, None, 1, 0, 0, 1)]]
        scaler.update()
        assert (scaler.get_scale(), scaler.get_growth_factor()) == (4.0, 2.0)


class TestComm:
    def test_views(self):
        kept = []

        def allreduce_max(view):
            assert (view.format, view.itemsize, view.readonly) == ("f", 4, False)
            kept.append(view)
            view[0] = 1.0  # another rank's overflow

        def allreduce_sum(view):
            assert (view.format, view.itemsize) == ("d", 8)
            array = np.frombuffer(view, np.float64)
            array *= 4.0
            kept.append(array)

        scaler, handle = make(allreduce_max=allreduce_max, allreduce_sum=allreduce_sum), _core.Handle()
        scaler.unscale(handle, grads([8.0]), None)
        assert scaler.found_inf(handle) is True
        assert kept[0].tolist() == [1.0, 1.0, 0.0, 8.0, -8.0]
        assert scaler.overflows(handle) == []
        assert scaler.clip_grad_norm(handle, grads([3.0, 4.0]), None, 100.0, 2.0) == 10.0
        kept[0][0], kept[1][0] = 2.0, 2.0  # a view that was kept is the keeper's

    def test_scales_differ(self):
        def allreduce_max(view):
            view[3] = 16.0

        with pytest.raises(_core.CommError, match="differ"):
            make(allreduce_max=allreduce_max).unscale(_core.Handle(), grads([8.0]), None)
