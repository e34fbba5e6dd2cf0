# SPDX-License-Identifier: Apache-2.0
"""The state dict, pickle and copies."""

import copy
import pickle

import numpy as np
import pytest
from conftest import f32, run, sgd

from gradscaler import GradScaler, Outcome

FIVE = ["scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"]


def state(scale=8.0, growth=4.0, backoff=0.25, interval=3, tracker=2, **more):
    return {**dict(zip(FIVE, (scale, growth, backoff, interval, tracker))), **more}


def test_five_entries_and_their_types():
    saved = GradScaler().state_dict()
    assert list(saved) == FIVE
    assert [type(v) for v in saved.values()] == [float, float, float, int, int]
    assert list(saved.values()) == [65536.0, 2.0, 0.5, 2000, 0]


def test_further_entries_where_not_at_their_default():
    scaler = GradScaler(init_scale=4.0, min_scale=0.5, max_scale=64.0, hysteresis=3, max_consecutive_skips=9)
    assert list(scaler.state_dict())[5:] == ["min_scale", "max_scale", "hysteresis"]
    run(scaler, 1)
    more = dict(list(scaler.state_dict().items())[5:])
    assert more == {
        "min_scale": 0.5,
        "max_scale": 64.0,
        "hysteresis": 3,
        "hysteresis_tracker": 2,
        "consecutive_skips": 1,
    }
    other = GradScaler(max_consecutive_skips=9)
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert run(other, 1, 1, 1, 0) == run(scaler, 1, 1, 1, 0)


def test_skips_in_a_row_are_part_of_the_state():
    scaler = GradScaler(init_scale=16.0, max_consecutive_skips=9)
    run(scaler, 1)
    assert scaler.state_dict()["consecutive_skips"] == 1
    resumed = GradScaler(max_consecutive_skips=2)
    resumed.load_state_dict(scaler.state_dict())
    assert resumed.state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="2 iterations in a row"):
        run(resumed, 1)
    run(scaler, 0)
    assert list(scaler.state_dict()) == FIVE


# trial T31
def test_the_entries_of_the_librarys_json():
    """The same states as in tests/train/io/test_state_json.c."""
    scaler = GradScaler(init_scale=16.0)
    run(scaler, 0, 1)
    further = {"hysteresis": 1, "hysteresis_tracker": 0, "consecutive_skips": 1}
    assert dict(list(scaler.state_dict().items())[5:]) == further
    for resumed in (GradScaler(), GradScaler(hysteresis=3)):
        resumed.load_state_dict(scaler.state_dict())
        assert resumed.state_dict() == scaler.state_dict()
    run(scaler, 0)
    assert list(scaler.state_dict()) == FIVE
    scaler = GradScaler(init_scale=16.0, hysteresis=3)
    assert dict(list(scaler.state_dict().items())[5:]) == {"hysteresis": 3}
    run(scaler, 1)
    further = {"hysteresis": 3, "hysteresis_tracker": 2, "consecutive_skips": 1}
    assert dict(list(scaler.state_dict().items())[5:]) == further


def test_pytorchs_and_lucids_entries():
    scaler = GradScaler("cpu", 6.0, 7.0, 0.8, 1)
    scaler.load_state_dict(state(3.0, 4.0, 0.5, 2, 0))
    assert scaler.state_dict() == state(3.0, 4.0, 0.5, 2, 0)
    lucid = state()
    lucid["growth_tracker"] = lucid.pop("_growth_tracker")
    scaler.load_state_dict(lucid)
    assert scaler.state_dict() == state()
    scaler.load_state_dict({**state(), "growth_tracker": 2, "unknown": "ignored"})
    assert scaler.state_dict() == state()


def test_numbers_of_other_kinds():
    scaler = GradScaler()
    scaler.load_state_dict(state(np.float32(8), 4, np.float64(0.25), 3.0, np.int64(2)))
    assert scaler.state_dict() == state()


def test_missing_further_entries_keep_the_scalers_own():
    scaler = GradScaler(init_scale=4.0, max_scale=64.0, hysteresis=2)
    scaler.load_state_dict(state())
    assert scaler.state_dict() == state(max_scale=64.0, hysteresis=2)
    scaler.load_state_dict(state(hysteresis=5))
    assert scaler.state_dict() == state(max_scale=64.0, hysteresis=5)


@pytest.mark.parametrize(
    ("bad", "error", "named"),
    [
        ({"scale": 8.0}, KeyError, "growth_factor"),
        ({k: v for k, v in state().items() if k != "_growth_tracker"}, KeyError, "_growth_tracker"),
        (state(scale=0.0), ValueError, "scale"),
        (state(scale=float("nan")), ValueError, "scale"),
        (state(scale="8"), TypeError, "scale"),
        (state(scale=True), TypeError, "scale"),
        (state(growth=1.0), ValueError, "growth_factor"),
        (state(backoff=1.0), ValueError, "backoff_factor"),
        (state(interval=0), ValueError, "growth_interval"),
        (state(interval=2.5), TypeError, "growth_interval"),
        (state(interval=2**63), ValueError, "growth_interval"),
        (state(tracker=-1), ValueError, "growth_tracker"),
        (state(growth_tracker=3), ValueError, "growth_tracker"),
        (state(min_scale=16.0), ValueError, "scale"),
        (state(hysteresis=-1), ValueError, "hysteresis"),
        (state(hysteresis=2, hysteresis_tracker=3), ValueError, "hysteresis_tracker"),
        (state(hysteresis_tracker=1), ValueError, "hysteresis_tracker is 1.*both or neither"),
        (state(hysteresis_tracker=0), ValueError, "hysteresis_tracker is 0.*both or neither"),
        (state(hysteresis=0, hysteresis_tracker=1), ValueError, "hysteresis"),
        (state(hysteresis=0), ValueError, "hysteresis is 0, allowed are integers >= 1; leave"),
        (state(min_scale=0), ValueError, r"min_scale is 0\.0, allowed are .*2\*\*-126.*; leave"),
        (state(max_scale=-0.0), ValueError, r"max_scale is -0\.0, allowed are"),
        (state(consecutive_skips=-1), ValueError, "consecutive_skips"),
        ([("scale", 8.0)], TypeError, "state_dict"),
        (None, TypeError, "state_dict"),
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_bad_states_change_nothing(bad, error, named, enabled):
    scaler = GradScaler(enabled=enabled)
    before = scaler.state_dict()
    with pytest.raises(error, match=named):
        scaler.load_state_dict(bad)
    assert scaler.state_dict() == before


def test_the_empty_state_of_a_disabled_scaler():
    disabled = GradScaler(enabled=False)
    assert disabled.state_dict() == {}
    disabled.load_state_dict({})
    disabled.load_state_dict(state())
    assert (disabled.get_scale(), disabled.get_growth_factor(), disabled.state_dict()) == (1.0, 2.0, {})
    with pytest.raises(RuntimeError, match="disabled"):
        GradScaler().load_state_dict({})


def test_loading_inside_an_iteration():
    scaler, optimizer = GradScaler(), sgd(f32(1.0))
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="iteration"):
        scaler.load_state_dict(state())
    scaler.update()
    scaler.load_state_dict(state())


def test_loading_where_only_a_result_is_pending():
    """As for copies: the results of this iteration would be lost, or would count for the loaded scale."""
    scaler, optimizer = GradScaler(), sgd(f32(np.inf))
    scaler.rearm(optimizer)
    scaler.load_state_dict(state())
    scaler.unscale_(optimizer)
    scaler.rearm(optimizer)
    with pytest.raises(RuntimeError, match="iteration"):
        scaler.load_state_dict(state())
    scaler.update()
    assert scaler.get_scale() == 2.0
    scaler.load_state_dict(state())
    optimizer.param_groups[0]["params"][0].grad = f32(np.inf)
    scaler.unscale_(optimizer)
    del optimizer
    with pytest.raises(RuntimeError, match="iteration"):
        scaler.load_state_dict(state())
    scaler.update()
    assert scaler.get_scale() == 2.0
    scaler.load_state_dict(state())


def test_a_resumed_run_is_the_same_run():
    kinds = np.random.default_rng(1).integers(0, 4, 60) == 0
    whole = GradScaler(init_scale=512.0, growth_interval=3, hysteresis=2)
    expected = run(whole, *kinds)
    first, resumed = GradScaler(init_scale=512.0, growth_interval=3, hysteresis=2), GradScaler()
    seen = run(first, *kinds[:31])
    resumed.load_state_dict(first.state_dict())
    assert seen + run(resumed, *kinds[31:]) == expected


def test_a_pickle_of_version_0_1_0():
    """It lacks the options that came later."""
    scaler = GradScaler("cpu", 8.0, growth_interval=1)
    saved = scaler.__getstate__()
    for later in ("hysteresis_until_growth", "skip_window", "max_skip_share", "strict"):
        del saved["_options"][later]
    resumed = GradScaler.__new__(GradScaler)
    resumed.__setstate__(saved)
    assert run(resumed, 0, 1) == [(16.0, 0), (8.0, 0)]
    assert pickled(resumed).state_dict() == resumed.state_dict()


def pickled(scaler):
    return pickle.loads(pickle.dumps(scaler))


copies = pytest.mark.parametrize("duplicate", [pickled, copy.copy, copy.deepcopy])


@copies
def test_copies_are_equal_and_independent(duplicate):
    scaler = GradScaler("cpu", 3.0, 4.0, 0.5, 2, hysteresis=2, max_consecutive_skips=5, allow_fp16_grads=True)
    run(scaler, 1, 0)
    scaler.set_growth_factor(8.0)
    twin = duplicate(scaler)
    assert twin.state_dict() == scaler.state_dict()
    assert twin.scale(f32(4.0)) == 12.0
    assert run(twin, 0) == [(24.0, 0)]
    assert scaler.get_scale() == 3.0
    grad = np.ones(1, np.float16)
    assert twin.step([grad]) is None
    twin.update()
    run(twin, 1, 1, 1, 1)
    with pytest.raises(RuntimeError, match="max_consecutive_skips"):
        run(twin, 1)


@copies
def test_disabled_copies(duplicate):
    scaler = GradScaler(init_scale=4.0, enabled=False)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(7)
    twin = duplicate(scaler)
    assert (twin.is_enabled(), twin.get_scale()) == (False, 1.0)
    assert (twin.get_growth_factor(), twin.get_backoff_factor(), twin.get_growth_interval()) == (3.0, 0.25, 7)


@copies
def test_no_copies_inside_an_iteration(duplicate):
    scaler, optimizer = GradScaler(), sgd(f32(1.0))
    for begin in (scaler.unscale_, scaler.step, scaler.skip, lambda o: scaler.record(o, True)):
        begin(optimizer)
        with pytest.raises(RuntimeError, match="between iterations"):
            duplicate(scaler)
        scaler.update()
        duplicate(scaler)


@copies
def test_no_copies_where_only_a_result_is_pending(duplicate):
    scaler, optimizer = GradScaler(), sgd(f32(np.inf))
    scaler.rearm(optimizer)
    duplicate(scaler)
    scaler.unscale_(optimizer)
    scaler.rearm(optimizer)
    with pytest.raises(RuntimeError, match="between iterations"):
        duplicate(scaler)
    scaler.update()
    duplicate(scaler)
    optimizer.param_groups[0]["params"][0].grad = f32(np.inf)
    scaler.unscale_(optimizer)
    del optimizer
    with pytest.raises(RuntimeError, match="between iterations"):
        duplicate(scaler)
    scaler.update()
    assert duplicate(scaler).get_scale() == 16384.0


def test_pickling_every_iteration_changes_nothing():
    scaler, other = GradScaler(growth_interval=2), GradScaler(growth_interval=2)
    for kind in (0, 0, 1, 0, 0, 0):
        scaler = pickled(scaler)
        assert run(scaler, kind) == run(other, kind)


def test_comm_and_on_event_are_shared_by_copies():
    class Ranks:
        def allreduce_max(self, values):
            self.calls = getattr(self, "calls", 0) + 1

        def __deepcopy__(self, memo):
            raise AssertionError

    events, comm = [], Ranks()
    scaler = GradScaler(comm=comm, on_event=events.append)
    for twin in (copy.copy(scaler), copy.deepcopy(scaler)):
        twin.step([f32(np.inf)])
        assert events[-1].scaler is twin
    assert comm.calls == 2


def test_deepcopy_of_methods_as_observers():
    """Bound methods of copied objects become methods of the copies, as with pickle; all others are shared."""

    class Noting(GradScaler):
        def __init__(self):
            super().__init__(on_event=self.note)
            self.noted = 0

        def note(self, event):
            self.noted += 1

    class Trainer:
        def __init__(self):
            self.scaler, self.noted = GradScaler(on_event=self.note), 0

        note = Noting.note

    scaler = Noting()
    twin = copy.deepcopy(scaler)
    twin.step([f32(np.inf)])
    assert (scaler.noted, twin.noted) == (0, 1)
    trainer = Trainer()
    twin = copy.deepcopy(trainer)
    twin.scaler.step([f32(np.inf)])
    assert (trainer.noted, twin.noted) == (0, 1)
    copy.deepcopy(trainer.scaler).step([f32(np.inf)])
    assert (trainer.noted, twin.noted) == (1, 1)


def test_deepcopy_of_what_holds_a_scaler():
    class Trainer:
        def __init__(self):
            self.scaler = GradScaler(init_scale=4.0)
            self.same = self.scaler

    twin = copy.deepcopy(Trainer())
    assert twin.scaler is twin.same
    assert twin.scaler.get_scale() == 4.0


def test_deepcopy_of_a_scaler_that_refers_to_itself():
    scaler = Mine()
    scaler.me = [scaler]
    twin = copy.deepcopy(scaler)
    assert twin.me[0] is twin


class Mine(GradScaler):
    pass


def test_subclasses_keep_their_attributes():
    scaler = Mine(init_scale=4.0)
    scaler.note = ["kept"]
    for twin in (pickled(scaler), copy.deepcopy(scaler)):
        assert type(twin) is Mine
        assert twin.note == ["kept"]
        assert twin.note is not scaler.note
        twin.step([f32(4.0)])
        assert twin.stats.steps == 1
    assert copy.copy(scaler).note is scaler.note


def test_outcomes_are_not_copied():
    scaler, optimizer = GradScaler(), sgd(f32(1.0))
    scaler.step(optimizer)
    scaler.update()
    assert scaler.outcome(optimizer) is Outcome.STEPPED
    with pytest.raises(RuntimeError):
        copy.copy(scaler).outcome(optimizer)
