# SPDX-License-Identifier: Apache-2.0
"""How long the extension's objects live, and whether references or memory drift."""

import contextlib
import gc
import math
import sys
import weakref

import numpy as np
import pytest
from core_rig import READY, Torn, grads, make, step
from drift import assert_no_drift

from gradscaler import _core


class TestDrift:
    """Over 100,000 iterations, however they end, neither references nor memory grow."""

    @pytest.mark.parametrize("kind", ["success", "overflow", "refusal", "raise"])
    def test_no_drift(self, kind):
        def observer(*event):
            pass

        def allreduce_max(view):
            pass

        def name(index):
            return "a name that is made anew %d" % index

        def fine():
            return fine

        def raising():
            raise Torn

        scaler, handle = make(observer=observer, allreduce_max=allreduce_max), _core.Handle()
        good, bad = grads([1.0, 2.0]), grads([math.inf, 2.0])
        refused = good + [np.ones(2, np.float16)]

        def iterate():
            if kind == "success":
                assert step(scaler, handle, good, fine, name=name) is fine
            elif kind == "overflow":
                scaler.unscale(handle, bad, name)
                assert step(scaler, handle, bad, raising, name=name) is None
            elif kind == "refusal":
                with contextlib.suppress(ValueError):
                    scaler.unscale(handle, refused, name)
                return scaler.update_to(8.0)
            else:
                with contextlib.suppress(Torn):
                    step(scaler, handle, good, raising, name=name)
            scaler.update()

        watched = [scaler, handle, observer, allreduce_max, name, fine, raising, None, Torn, _core.Handle]
        watched += [good, bad, refused, *good, *bad, *refused]
        assert_no_drift(iterate, watched)


class TestLifetimes:
    def test_a_known_handle_lives_until_it_is_forgotten(self):
        scaler, handle = make(), _core.Handle()
        before = sys.getrefcount(handle)
        first, second = grads([math.inf]), grads([math.inf])  # each in memory of its own
        scaler.unscale(handle, first, None)
        scaler.unscale(_core.Handle(), second, None)
        assert sys.getrefcount(handle) == before + 1
        scaler.forget(handle)
        scaler.forget(handle)
        assert sys.getrefcount(handle) == before
        assert scaler.get_stage(handle) == READY
        scaler.update()
        assert scaler.get_scale() == 4.0

    def test_handles_die_with_their_scaler(self):
        scaler, handle = make(), _core.Handle()
        before = sys.getrefcount(handle)
        scaler.skip(handle)
        del scaler
        assert sys.getrefcount(handle) == before

    def test_a_cycle_is_collected(self):
        class Owner:
            def observe(self, *event):
                pass

        owner = Owner()
        owner.scaler = make(observer=owner.observe, allreduce_max=owner.observe)
        owner.scaler.skip(_core.Handle())
        gone = weakref.ref(owner)
        del owner
        gc.collect()
        assert gone() is None

    def test_a_failed_construction_leaks_nothing(self):
        def observer(*event):
            pass

        before = sys.getrefcount(observer)
        for _ in range(100):
            with pytest.raises(ValueError):
                make(init_scale=0, observer=observer)
            with pytest.raises(TypeError):
                make(allreduce_max=observer, observer=3)
        assert sys.getrefcount(observer) == before
