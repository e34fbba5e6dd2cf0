# SPDX-License-Identifier: Apache-2.0
"""What a scaler calls: its observer, and the collectives of its ranks."""

import copy
import gc
import weakref

import numpy as np
import pytest
from conftest import Arrays, f32, run, sgd

from gradscaler import CommError, EventKind, GradScaler, Outcome


def test_events():
    events = []
    scaler = GradScaler(init_scale=4.0, growth_interval=1, on_event=events.append)
    optimizer = sgd(f32(np.inf))
    scaler.step(optimizer)
    scaler.update()
    run(scaler, 0)
    assert [(e.kind, e.scale, e.update) for e in events] == [
        (EventKind.OVERFLOW, 4.0, 0),
        (EventKind.BACKOFF, 2.0, 0),
        (EventKind.GROWTH, 4.0, 1),
    ]
    assert [e.optimizer for e in events] == [optimizer, None, None]
    assert [e.scale_before for e in events] == [4.0, 4.0, 2.0]
    assert all(e.scaler is scaler for e in events)


def test_an_observer_may_read_only():
    seen = []

    def observe(event):
        seen.append((event.scaler.get_scale(), event.scaler.stats.updates))
        if event.optimizer is not None:
            seen.append(event.scaler.overflows(event.optimizer)[0].index)
        event.scaler.update(2.0)

    scaler = GradScaler(on_event=observe)
    with pytest.raises(RuntimeError, match="callback"):
        scaler.step(sgd(f32(np.inf)))
    assert seen == [(65536.0, 0), 0]


def read_all(scaler, optimizer):
    """Every call that only reads."""
    getters = (scaler.get_scale, scaler.get_growth_factor, scaler.get_backoff_factor, scaler.get_growth_interval)
    return (
        scaler.outcome(optimizer),
        scaler.found_inf(optimizer),
        [overflow.index for overflow in scaler.overflows(optimizer)],
        scaler.stats.updates,
        scaler.scale(f32(2.0)).tolist(),
        [get() for get in getters],
        scaler.is_enabled(),
        scaler.state_dict()["scale"],
        repr(scaler) != "",
    )


def refuse_all(scaler, optimizer):
    """Every call that changes the scaler is refused; the calls that the message allows are possible."""
    for call in (
        lambda: scaler.unscale_([f32(1.0)]),
        lambda: scaler.step([f32(1.0)]),
        lambda: scaler.update(),
        lambda: scaler.update(2.0),
        lambda: scaler.clip_grad_norm_([f32(1.0)], 1.0),
        lambda: scaler.record([], True),
        lambda: scaler.skip([]),
        lambda: scaler.rearm(optimizer),
        lambda: scaler.set_growth_factor(3.0),
        lambda: scaler.set_backoff_factor(0.25),
        lambda: scaler.set_growth_interval(3),
    ):
        with pytest.raises(RuntimeError, match=r"callback of the same scaler.*such as get_scale and outcome"):
            call()
    for call in (lambda: scaler.load_state_dict(GradScaler().state_dict()), lambda: copy.copy(scaler)):
        with pytest.raises(RuntimeError, match="iteration"):
            call()


def test_what_a_step_may_call():
    class Curious(Arrays):
        def step(self):
            refuse_all(scaler, self)
            return read_all(scaler, self)

    scaler, optimizer = GradScaler(init_scale=4.0), Curious(f32(4.0))
    with pytest.raises(RuntimeError, match="not stepped"):
        scaler.step(optimizer)  # the first step has none before it
    scaler.update(8.0)
    optimizer.step = lambda: "stepped"
    scaler.step(optimizer)
    scaler.update(16.0)
    del optimizer.step
    expected = (Outcome.STEPPED, False, [], 2, [32.0], [16.0, 2.0, 0.5, 2000], True, 16.0, True)
    assert scaler.step(optimizer) == expected
    scaler.update()
    assert scaler.stats.updates == 3


def test_what_an_observer_may_call():
    seen = []

    def observe(event):
        seen.append(read_all(scaler, optimizer))
        refuse_all(scaler, optimizer)

    scaler, optimizer = GradScaler(init_scale=4.0, on_event=observe), Arrays(f32(1.0))
    scaler.step(optimizer)
    scaler.update()
    optimizer.arrays[0].fill(np.inf)
    scaler.step(optimizer)
    assert seen == [(Outcome.STEPPED, True, [0], 1, [8.0], [4.0, 2.0, 0.5, 2000], True, 4.0, True)]
    scaler.update()
    assert seen[1][0] is Outcome.SKIPPED_OVERFLOW
    assert (seen[1][4], seen[1][7]) == ([4.0], 2.0)


def test_an_observers_exception_comes_after_the_call():
    def observe(event):
        raise LookupError(event.kind.name)

    scaler, optimizer = GradScaler(on_event=observe), sgd(f32(np.inf))
    with pytest.raises(LookupError, match="OVERFLOW"):
        scaler.step(optimizer)
    assert scaler.outcome(optimizer) is Outcome.SKIPPED_OVERFLOW
    with pytest.raises(LookupError, match="BACKOFF"):
        scaler.update()
    assert (scaler.get_scale(), scaler.stats.updates) == (32768.0, 1)


def test_an_observer_does_not_keep_the_scaler_alive():
    scaler = GradScaler(on_event=print)
    watch = weakref.ref(scaler)
    gc.disable()
    try:
        del scaler
        assert watch() is None
    finally:
        gc.enable()


class OtherRank:
    """The values that a second rank adds to each maximum and sum."""

    def __init__(self, change=None):
        self.change = change or (lambda values: None)
        self.formats = []

    def allreduce_max(self, values):
        self.formats.append((values.format, values.readonly))
        self.change(values)


def test_ranks_skip_together():
    comm = OtherRank(lambda values: values.__setitem__(0, 1.0))
    scaler = GradScaler(comm=comm)
    optimizer = sgd(f32(1.0))
    assert scaler.step(optimizer) is None
    assert scaler.outcome(optimizer) is Outcome.SKIPPED_OVERFLOW
    assert scaler.overflows(optimizer) == []
    assert comm.formats == [("f", False)]
    scaler.update()
    assert scaler.get_scale() == 32768.0


def test_norms_are_summed_over_shards():
    class Shards(OtherRank):
        def allreduce_sum(self, values):
            self.formats.append((values.format, values.readonly))
            for i in range(len(values)):
                values[i] *= 2

    comm = Shards()
    scaler = GradScaler(init_scale=1.0, comm=comm)
    assert scaler.clip_grad_norm_([f32(3.0, 4.0)], 100.0) == pytest.approx(50**0.5)
    assert ("d", False) in comm.formats


def test_the_largest_of_float64_shards_is_not_rounded():
    class Shards(OtherRank):
        def allreduce_sum(self, values):
            raise AssertionError

        def allreduce_max64(self, values):
            self.formats.append((values.format, values.readonly))

    comm, largest = Shards(), 1.0 + 2.0**-40
    scaler = GradScaler(init_scale=1.0, comm=comm)
    assert scaler.clip_grad_norm_([np.array([largest])], 100.0, float("inf")) == largest
    assert ("d", False) in comm.formats


def test_a_failing_collective_keeps_its_exception():
    def fail(values):
        raise ConnectionError("rank 1 is gone")

    scaler, optimizer = GradScaler(comm=OtherRank(fail)), sgd(f32(1.0))
    with pytest.raises(ConnectionError, match="rank 1"):
        scaler.step(optimizer)
    assert issubclass(CommError, RuntimeError)
