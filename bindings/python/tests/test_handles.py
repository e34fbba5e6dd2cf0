# SPDX-License-Identifier: Apache-2.0
"""The optimizers that a GradScaler knows: any number, and while several threads use it: one handle each, and no call
lost between two iterations. Where threads have to meet, they are made to."""

import os
import sys
import threading
import time
import types
import weakref

import numpy as np
import pytest
from conftest import Arrays, f32
from threads_rig import PATIENCE, Thread, in_child

from gradscaler import GradScaler, Outcome, handles

pytestmark = pytest.mark.usefixtures("no_hang")

LOOPS = 0.6  # seconds that threads run against one another
MOMENT = 0.2  # seconds that are enough for a call that nobody holds up


@pytest.fixture
def restless():
    """Threads take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def at_a_new_handle(monkeypatch):
    """Calls a function once, in the middle of the next call that makes an optimizer known."""

    def call(function):
        def refer(optimizer, callback):
            monkeypatch.undo()
            function()
            return weakref.ref(optimizer, callback)

        monkeypatch.setattr(handles, "weakref", types.SimpleNamespace(ref=refer))

    return call


class Elsewhere:
    """A function that runs in another thread; the caller waits for it only for a while."""

    def __init__(self, function):
        self.function = function

    def __call__(self):
        self.thread = Thread(self.function)
        threading.Thread.join(self.thread, MOMENT)


def all_at_once(count, work):
    """Several threads call it again and again; returns the exceptions that it raised."""
    errors, barrier = [], threading.Barrier(count)

    def loop():
        barrier.wait(PATIENCE)
        end = time.monotonic() + LOOPS
        while time.monotonic() < end:
            try:
                work()
            except Exception as error:
                errors.append(error)

    for thread in [Thread(loop) for _ in range(count)]:
        thread.join()
    return errors


def lines_of_an_iteration(known):
    """How many lines of Python run in a step and its update, beside `known` other optimizers."""
    scaler, lines = GradScaler(init_scale=2.0, on_event=lambda event: event.optimizer), 0
    others = [Arrays(f32(1.0)) for _ in range(known)]
    for other in others:
        scaler.step(other)
    scaler.update()

    def trace(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        scaler.step(Arrays(f32(np.inf)))
        scaler.step([f32(1.0)])
        scaler.update()
    finally:
        sys.settrace(before)
    assert scaler.get_scale() == 1.0
    return lines


# trial T20
def test_an_iteration_costs_the_same_however_many_optimizers_are_known():
    assert lines_of_an_iteration(2000) == lines_of_an_iteration(2)


def test_forgotten_optimizers_leave_nothing():
    scaler, kept = GradScaler(init_scale=2.0), Arrays(f32(2.0))
    for _ in range(3):
        for _ in range(100):
            scaler.step(Arrays(f32(1.0)))  # dies at once, so that the next one may have its address
            scaler.unscale_([f32(1.0)])
        scaler.step(kept)
        scaler.update()
        assert list(scaler._handles._known) == [id(kept)]
        assert len(scaler._handles._optimizers) == 1
        assert not scaler._handles._present
        assert not scaler._handles._held
        assert not scaler._handles._died
    assert kept.steps == 3


def test_an_optimizer_that_two_threads_meet_first(at_a_new_handle):
    scaler, optimizer = GradScaler(init_scale=4.0), Arrays(f32(16.0))
    other = Elsewhere(lambda: scaler.step(optimizer))
    at_a_new_handle(other)
    with pytest.raises(RuntimeError, match="already stepped"):
        scaler.step(optimizer)
        other.thread.join()
    assert (optimizer.steps, optimizer.arrays[0].tolist()) == (1, [4.0])


def test_two_threads_meet_new_optimizers(restless):
    """Of the threads that step with the same optimizer, exactly one steps."""

    def work():
        scaler, optimizer = GradScaler(init_scale=4.0), Arrays(f32(16.0))
        barrier = threading.Barrier(2)

        def step():
            barrier.wait(PATIENCE)
            try:
                scaler.step(optimizer)
            except RuntimeError as error:
                assert "already stepped" in str(error) or "inside a callback" in str(error)

        for thread in [Thread(step), Thread(step)]:
            thread.join()
        assert (optimizer.steps, optimizer.arrays[0].tolist()) == (1, [4.0])

    assert all_at_once(1, work) == []


def test_a_step_after_the_update_belongs_to_the_next_iteration(monkeypatch):
    """A list is forgotten when its own iteration ends, not when another thread's does."""
    scaler, later = GradScaler(init_scale=4.0), [f32(np.inf)]
    other = Elsewhere(lambda: scaler.step(later))
    end_iteration = handles.Handles.end_iteration

    def end(self):
        monkeypatch.undo()
        other()
        end_iteration(self)

    monkeypatch.setattr(handles.Handles, "end_iteration", end)
    scaler.step([f32(1.0)])
    scaler.update()
    other.thread.join()
    assert scaler.outcome(later) is Outcome.SKIPPED_OVERFLOW
    scaler.update()
    assert scaler.get_scale() == 2.0


def test_an_update_while_a_list_becomes_known(at_a_new_handle):
    scaler, gradients = GradScaler(init_scale=4.0), [f32(16.0)]
    scaler.step([f32(1.0)])
    other = Elsewhere(scaler.update)
    at_a_new_handle(other)
    scaler.step(gradients)
    other.thread.join()
    assert scaler.stats.updates == 1  # of both
    with pytest.raises(RuntimeError, match="not stepped"):
        scaler.outcome(gradients)
    scaler.step(gradients)
    assert scaler.outcome(gradients) is Outcome.STEPPED


def test_iterations_end_in_several_threads(restless):
    scaler = GradScaler(init_scale=2.0)

    def work():
        try:
            scaler.step([f32(1.0)])
            scaler.update(2.0)
        except RuntimeError:
            pass

    assert all_at_once(4, work) == []
    assert scaler.get_scale() == 2.0


def test_optimizers_die_in_several_threads(restless):
    scaler = GradScaler(init_scale=2.0)

    def work():
        scaler.unscale_(Arrays(f32(1.0)))
        scaler.update(2.0)

    assert all_at_once(4, work) == []
    assert len(scaler._handles._known) == 0


def test_lists_of_several_threads_wait_for_one_another(restless):
    """A list has no step that other threads could wait for."""
    scaler = GradScaler(init_scale=2.0)
    assert all_at_once(4, lambda: scaler.step([f32(1.0)])) == []


def test_nothing_comes_between_in_the_same_thread(at_a_new_handle):
    """As from a finalizer: the inner call is refused, the outer one goes on."""
    scaler, optimizer, refused = GradScaler(init_scale=4.0), Arrays(f32(16.0)), []

    def interrupt():
        for call in (lambda: scaler.record(optimizer, True), scaler.update, lambda: scaler.update(2.0)):
            with pytest.raises(RuntimeError, match="inside a call"):
                call()
            refused.append(call)
        assert (scaler.get_scale(), scaler.found_inf(optimizer)) == (4.0, False)

    at_a_new_handle(interrupt)
    assert scaler.step(optimizer) == "stepped"
    assert len(refused) == 3
    scaler.update()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_another_thread_makes_an_optimizer_known(at_a_new_handle):
    scaler, optimizer = GradScaler(init_scale=4.0), Arrays(f32(16.0))
    inside, go_on = threading.Event(), threading.Event()
    at_a_new_handle(lambda: inside.set() or go_on.wait(PATIENCE))

    def child():
        for call in (scaler.update, lambda: scaler.step(optimizer), lambda: Thread(scaler.update).join()):
            with pytest.raises(RuntimeError, match="when the process was forked"):
                call()
        fresh = GradScaler(init_scale=4.0)
        return fresh.step(Arrays(f32(1.0))) == "stepped" and scaler.get_scale() == 4.0

    thread = Thread(lambda: scaler.step(optimizer))
    try:
        assert inside.wait(PATIENCE)
        assert in_child(child) == 0
    finally:
        go_on.set()
    assert thread.join() == "stepped"
    scaler.update()
