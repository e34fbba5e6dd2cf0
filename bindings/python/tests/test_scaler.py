# SPDX-License-Identifier: Apache-2.0
"""The schedule, call order, reports, the disabled scaler, lifetimes."""

import copy
import gc
import inspect
import pickle
import warnings
import weakref

import numpy as np
import pytest
from conftest import Arrays, Sgd, f32, run, sgd

import gradscaler
from gradscaler import DivergedError, EventKind, GradScaler, Outcome, Overflow

FLT_MAX = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("options", "kinds", "seen"),
    [
        ((4.0, 2.0, 0.25, 2), (0, 0, 1), [(4, 1), (8, 0), (2, 0)]),
        ((4.0, 2.0, 0.5, 3), (0, 0, 0, 1), [(4, 1), (4, 2), (8, 0), (4, 0)]),
        ((8.0, 2.0, 0.5, 2), (1, 0, 0), [(4, 0), (4, 1), (8, 0)]),
        ((100.0, 3.0, 0.5, 1), (0, 0), [(300, 0), (900, 0)]),
        ((256.0, 2.0, 0.5, 2), (0, 0, 0, 0), [(256, 1), (512, 0), (512, 1), (1024, 0)]),
    ],
)
def test_schedules_of_other_scalers(options, kinds, seen):
    assert run(GradScaler("cpu", *options), *kinds) == seen


def test_seven_clean_steps_and_one_overflow():
    assert run(GradScaler(growth_interval=3), *[0] * 7)[-1] == (262144.0, 1)
    assert run(GradScaler(), 1)[-1] == (32768.0, 0)
    scales = [scale for scale, _ in run(GradScaler(growth_interval=3), 0, 0, 0, 0, 1, 0, 0, 0, 0)]
    assert scales == [65536, 65536, 131072, 131072, 65536, 65536, 65536, 131072, 131072]


def test_factors_multiply_in_double_and_round_once():
    scaler = GradScaler(init_scale=3.0, backoff_factor=0.1)
    assert run(scaler, 1)[-1][0] == 0.30000001192092896


def test_growth_never_reaches_infinity():
    assert run(GradScaler(init_scale=1e38, growth_factor=16.0, growth_interval=1), 0, 0)[-1] == (
        float(np.float32(1e38)),
        0,
    )
    assert run(GradScaler(growth_factor=1e30, growth_interval=1), 0, 0)[-1][0] <= FLT_MAX
    assert run(GradScaler(init_scale=4.0, max_scale=8.0, growth_interval=1), 0, 0)[-1] == (8.0, 0)


def test_the_scale_never_falls_to_zero():
    scaler = GradScaler(init_scale=4.0)
    run(scaler, *[1] * 200)
    assert scaler.get_scale() == 2.0**-126
    assert 1.0 / scaler.get_scale() < FLT_MAX


def test_min_scale_holds_and_is_told():
    events = []
    scaler = GradScaler(init_scale=2.0, min_scale=1.0, on_event=events.append)
    assert [scale for scale, _ in run(scaler, 1, 1, 1)] == [1.0, 1.0, 1.0]
    assert [e.kind for e in events if e.kind is not EventKind.OVERFLOW] == [
        EventKind.BACKOFF,
        EventKind.AT_MIN_SCALE,
        EventKind.AT_MIN_SCALE,
        EventKind.AT_MIN_SCALE,
    ]
    assert scaler.stats.backoffs == 1


def test_hysteresis():
    scaler = GradScaler(hysteresis=2)
    assert run(scaler, 1, 1, 1) == [(65536, 0), (32768, 0), (16384, 0)]
    assert run(scaler, 0, 1, 1) == [(16384, 1), (16384, 0), (8192, 0)]


# trial T26
def test_hysteresis_until_growth():
    scaler = GradScaler(init_scale=64.0, hysteresis=2, growth_interval=2, hysteresis_until_growth=True)
    assert run(scaler, 1, 0, 1) == [(64, 0), (64, 1), (32, 0)]
    assert run(scaler, 0, 0, 1, 0, 1) == [(32, 1), (64, 0), (64, 0), (64, 1), (32, 0)]


def test_static_scale():
    scaler = GradScaler(init_scale=128.0, min_scale=128.0, max_scale=128.0, growth_interval=1)
    optimizer = sgd(f32(np.inf))
    scaler.step(optimizer)
    assert scaler.outcome(optimizer) is Outcome.SKIPPED_OVERFLOW
    scaler.update()
    assert run(scaler, 0, 1, 0) == [(128, 0)] * 3


def test_other_ranks_learn_of_what_is_no_optimizer():
    class Ranks:
        def __init__(self):
            self.failed = []

        def allreduce_max(self, values):
            self.failed.append(values[2])

    class Torn:
        def grads(self):
            raise ZeroDivisionError

    ranks = Ranks()
    scaler = GradScaler(comm=ranks)
    for optimizer, error in ((object(), TypeError), (Torn(), ZeroDivisionError)):
        with pytest.raises(error):
            scaler.unscale_(optimizer)
        scaler.update(1.0)
    assert ranks.failed == [1.0, 1.0]


def test_consecutive_skips_raise_after_the_update():
    scaler = GradScaler(init_scale=8.0, max_consecutive_skips=2)
    optimizer = Arrays(f32(1.0, np.nan), names=["encoder.weight"])
    scaler.step(optimizer)
    scaler.update()
    scaler.step(optimizer)
    with pytest.raises(DivergedError, match="encoder.weight"):
        scaler.update()
    assert scaler.get_scale() == 2.0
    assert issubclass(DivergedError, RuntimeError)
    assert run(scaler, 0)[-1] == (2.0, 1)


# trial T24
def test_the_scale_that_a_step_used():
    scaler = GradScaler(init_scale=8.0, growth_interval=1)
    optimizer, gradients = Arrays(f32(16.0, -24.0)), [f32(np.inf)]
    scaler.step(optimizer)
    scaler.update()
    assert (scaler.get_scale(), scaler.result(optimizer)) == (16.0, (Outcome.STEPPED, 8.0, 3.0))
    scaler.step(gradients)
    assert scaler.result(gradients) == (Outcome.SKIPPED_OVERFLOW, 16.0, np.inf)
    scaler.update()
    with pytest.raises(RuntimeError, match="not stepped"):
        scaler.result(gradients)
    disabled = GradScaler(enabled=False)
    disabled.step(optimizer)
    assert disabled.result(optimizer)[:2] == (Outcome.STEPPED, 1.0)


# trial T25
def test_a_share_of_skips_raises_after_the_update():
    scaler = GradScaler(init_scale=64.0, growth_interval=1, skip_window=4, max_skip_share=0.25)
    assert run(scaler, 0, 1, 0) == [(128, 0), (64, 0), (128, 0)]
    with pytest.raises(DivergedError, match="^update: 2 of the last 4 iterations .*max_skip_share is 0.25"):
        run(scaler, 1)
    assert scaler.get_scale() == 64.0
    scaler.update(32.0)  # begins anew
    run(scaler, 1, 1, 1)


def test_manual_scale_keeps_the_tracker_and_forgets_an_overflow():
    scaler = GradScaler(init_scale=4.0, growth_interval=3)
    run(scaler, 0, 0)
    scaler.step([f32(np.inf)])
    scaler.update(8.0)
    assert scaler.state_dict()["_growth_tracker"] == 2
    assert run(scaler, 0) == [(16.0, 0)]


@pytest.mark.parametrize("new_scale", [10.0, 10, np.float32(10), np.array([10.0]), np.array([[10]]), np.array(10)])
def test_manual_scale_of_many_kinds(new_scale):
    scaler = GradScaler()
    scaler.update(new_scale)
    assert scaler.get_scale() == 10.0


@pytest.mark.parametrize("enabled", [True, False])
def test_bad_manual_scales(enabled):
    scaler = GradScaler(init_scale=4.0, max_scale=16.0, enabled=enabled)
    scale = scaler.get_scale()
    for bad in (0.0, -1.0, float("nan"), float("inf"), 32.0, f32(1, 2), np.zeros(0), np.array([0.0])):
        with pytest.raises(ValueError, match="new_scale"):
            scaler.update(bad)
    for bad in ("8", [8.0], True, np.array(1j)):
        with pytest.raises(TypeError):
            scaler.update(bad)
    assert scaler.get_scale() == scale


def test_a_refused_manual_scale_leaves_the_iteration_open():
    scaler, gradients = GradScaler(), [f32(1.0)]
    scaler.unscale_(gradients)
    with pytest.raises(ValueError):
        scaler.update(-1.0)
    with pytest.raises(RuntimeError):
        scaler.unscale_(gradients)


def test_update_with_nothing_recorded():
    scaler = GradScaler(growth_interval=1)
    with pytest.raises(RuntimeError, match="nothing was checked"):
        scaler.update()
    assert scaler.get_scale() == 65536.0


def test_unscale_then_update_is_an_iteration():
    scaler, optimizer = GradScaler(), sgd(f32(1.0))
    scaler.unscale_(optimizer)
    scaler.update()
    assert scaler.state_dict()["_growth_tracker"] == 1
    scaler.unscale_(optimizer)


def test_messages_speak_python():
    scaler, optimizer = GradScaler(), sgd(f32(1.0))
    scaler.step(optimizer)
    for call in (scaler.unscale_, scaler.step, lambda o: scaler.clip_grad_norm_(o, 1.0)):
        with pytest.raises(RuntimeError) as caught:
            call(optimizer)
        assert "gsc_" not in str(caught.value)
        assert "update" in str(caught.value)


def test_an_overflow_skips_one_of_two_optimizers():
    for order in (0, 1), (1, 0):
        scaler = GradScaler()
        optimizers = [sgd(f32(np.inf)), sgd(f32(65536.0))]
        for index in order:
            scaler.step(optimizers[index])
        assert [scaler.outcome(o) for o in optimizers] == [Outcome.SKIPPED_OVERFLOW, Outcome.STEPPED]
        assert [scaler.found_inf(o) for o in optimizers] == [True, False]
        assert optimizers[0].param_groups[0]["params"][0].data == 1.0
        assert optimizers[1].param_groups[0]["params"][0].data == 0.0
        scaler.update()
        assert scaler.get_scale() == 32768.0


def test_one_update_for_two_optimizers_counts_once():
    scaler = GradScaler(growth_interval=2)
    scaler.step(sgd(f32(1.0)))
    scaler.step(sgd(f32(1.0)))
    scaler.update()
    assert scaler.state_dict()["_growth_tracker"] == 1


def test_outcomes():
    scaler = GradScaler(init_scale=4.0)
    clean, overflowed, empty = sgd(f32(4.0)), sgd(f32(np.nan)), sgd(None)
    with pytest.raises(RuntimeError):
        scaler.outcome(clean)
    assert [scaler.step(o) for o in (clean, overflowed, empty)] == [1, None, 1]
    expected = [Outcome.STEPPED, Outcome.SKIPPED_OVERFLOW, Outcome.NO_GRADS]
    assert [scaler.outcome(o) for o in (clean, overflowed, empty)] == expected
    scaler.update()
    assert [scaler.outcome(o) for o in (clean, overflowed, empty)] == expected
    assert scaler.stats == (1, 1, 1, 1, 0, 1)
    assert scaler.stats.skipped_steps == 1


def test_outcomes_that_update_lets_go_of():
    class Slotted:
        __slots__ = ("arrays",)

        def grads(self):
            return [f32(1.0)]

        def step(self):
            pass

    scaler = GradScaler()
    for optimizer in ([f32(1.0)], Slotted()):
        scaler.step(optimizer)
        assert scaler.outcome(optimizer) is Outcome.STEPPED
        scaler.update()
        with pytest.raises(RuntimeError, match=r"list.*same list object, before update\(\)"):
            scaler.outcome(optimizer)
    assert "__slots__" in GradScaler.outcome.__doc__


def test_results_can_be_copied_and_pickled():
    scaler, gradients, events = GradScaler(), [f32(np.inf)], []
    scaler.step(gradients)
    told = GradScaler(on_event=events.append)
    told.step([f32(np.inf)])
    results = [scaler.outcome(gradients), *scaler.overflows(gradients), scaler.stats, events[0].kind]
    results.append(gradscaler.grad_statistics(f32(1.0)))
    for result in results:
        for copied in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
            assert copied == result
            assert type(copied) is type(result)


def test_gradientless_iterations_change_nothing():
    scaler = GradScaler(growth_interval=1)
    scaler.step(sgd(None, None))
    scaler.update()
    assert (scaler.get_scale(), scaler.state_dict()["_growth_tracker"]) == (65536.0, 0)


def test_the_skipped_step_is_known_at_the_minimum_too():
    scaler = GradScaler(init_scale=1.0, min_scale=1.0)
    optimizer = sgd(f32(np.inf))
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1.0
    assert scaler.outcome(optimizer) is Outcome.SKIPPED_OVERFLOW


def test_a_learning_rate_schedule_counts_real_steps():
    scaler, optimizer, rate = GradScaler(), sgd(f32(0.0)), 0.0
    for kind in (1, 1, 0):
        optimizer.param_groups[0]["params"][0].grad = f32(np.inf if kind else 1.0)
        scaler.step(optimizer)
        if scaler.outcome(optimizer) == Outcome.STEPPED:
            rate += 0.1
        scaler.update()
    assert rate == 0.1


def test_which_gradient_overflowed():
    second = np.ones(9, np.float32)
    second[5], second[7] = np.inf, np.nan
    scaler = GradScaler()
    optimizer = Arrays(f32(1.0), second, f32(2.0), names=["a", "b", "c"])
    scaler.step(optimizer)
    assert scaler.overflows(optimizer) == [Overflow(1, "b", 1, 1, 5)]
    plain = [None, f32(-np.inf, np.inf)]
    scaler.step(plain)
    assert scaler.overflows(plain) == [Overflow(index=1, name=None, inf_count=2, nan_count=0, first_index=0)]
    assert scaler.overflows(sgd(f32(1.0))) == []


def test_how_often_in_a_row_a_gradient_overflowed():
    scaler, optimizer = GradScaler(), Arrays(f32(1.0), f32(1.0))
    seen = []
    for values in ([np.inf, np.nan], [np.inf, np.nan], [np.inf, np.inf], [1.0, np.inf], [np.inf, np.inf]):
        optimizer.arrays = [f32(value) for value in values]
        scaler.step(optimizer)
        seen.append([overflow.repeats for overflow in scaler.overflows(optimizer)])
        scaler.update()
    assert seen == [[1, 1], [2, 2], [3, 1], [2], [1, 3]]


def test_an_overflow_is_a_tuple_of_five():
    index, name, infs, nans, first = overflow = Overflow(1, "b", 2, 3, 5, repeats=4)
    assert (index, name, infs, nans, first) == overflow == Overflow(1, "b", 2, 3, 5)
    assert (overflow.repeats, Overflow(1, "b", 2, 3, 5).repeats) == (4, 1)
    for copied in (copy.copy(overflow), pickle.loads(pickle.dumps(overflow))):
        assert (copied, copied.repeats) == (overflow, 4)
    assert repr(overflow) == "Overflow(index=1, name='b', inf_count=2, nan_count=3, first_index=5)"


def test_record_trusts_the_caller():
    scaler, kernel = GradScaler(init_scale=4.0, growth_interval=1), object()
    scaler.record(kernel, found_inf=False)
    with pytest.raises(RuntimeError):
        scaler.record(kernel, found_inf=False)
    scaler.update()
    assert scaler.get_scale() == 8.0
    scaler.record(kernel, found_inf=True)
    assert scaler.found_inf(kernel)
    scaler.update()
    assert scaler.get_scale() == 4.0


def test_skip():
    scaler, optimizer = GradScaler(growth_interval=1), sgd(f32(1.0))
    scaler.skip(optimizer)
    with pytest.raises(RuntimeError):
        scaler.step(optimizer)
    scaler.update()
    assert (scaler.get_scale(), optimizer.steps) == (65536.0, 0)


def test_rearm_for_a_second_pass():
    """SAM: the first pass moves the weight, the second one overflows, and the weight goes back."""
    scaler, optimizer = GradScaler(), sgd(f32(65536.0))
    (weight,) = optimizer.param_groups[0]["params"]
    scaler.unscale_(optimizer)
    weight.data += weight.grad
    scaler.rearm(optimizer)
    weight.grad = f32(np.inf)
    weight.data -= 1.0
    assert scaler.step(optimizer) is None
    assert weight.data == 1.0
    scaler.update()
    assert scaler.get_scale() == 32768.0


def test_rearm_keeps_the_first_overflow():
    scaler, optimizer = GradScaler(), sgd(f32(np.inf))
    scaler.unscale_(optimizer)
    scaler.rearm(optimizer)
    optimizer.param_groups[0]["params"][0].grad = f32(1.0)
    assert scaler.step(optimizer) == 1
    scaler.update()
    assert scaler.get_scale() == 32768.0


def test_clip_unscales_first():
    scaler, optimizer = GradScaler(), sgd(f32(3 * 65536.0), f32(4 * 65536.0), data=0.0)
    assert scaler.clip_grad_norm_(optimizer, 1.0) == 5.0
    assert scaler.clip_grad_norm_(optimizer, 10.0) == pytest.approx(1.0)
    scaler.step(optimizer)
    moved = [-float(p.data[0]) for p in optimizer.param_groups[0]["params"]]
    assert moved == pytest.approx([0.6, 0.8], rel=1e-6)
    with pytest.raises(RuntimeError):
        scaler.clip_grad_norm_(optimizer, 1.0)


def test_clip_with_other_norms_and_bad_numbers():
    scaler, gradients = GradScaler(init_scale=2.0), [f32(6.0, -8.0)]
    for bad in ({"max_norm": -1.0}, {"max_norm": float("nan")}, {"max_norm": 1.0, "norm_type": 0.0}):
        with pytest.raises(ValueError):
            scaler.clip_grad_norm_(gradients, **bad)
    assert gradients[0].tolist() == [6.0, -8.0]
    assert scaler.clip_grad_norm_(gradients, max_norm=100.0, norm_type=float("inf")) == 4.0
    assert scaler.clip_grad_norm_(gradients, 100.0, norm_type=1) == 7.0


def test_clip_after_an_overflow_leaves_the_gradients():
    scaler, gradients = GradScaler(init_scale=2.0), [f32(6.0, np.inf)]
    assert scaler.clip_grad_norm_(gradients, 1.0) == np.inf
    assert gradients[0].tolist() == [3.0, np.inf]
    scaler.step(gradients)
    assert scaler.outcome(gradients) is Outcome.SKIPPED_OVERFLOW


def test_a_raising_optimizer_keeps_its_traceback():
    class Failing(Sgd):
        fails = True

        def step(self):
            if self.fails:
                raise KeyError("out of luck")
            return super().step()

    scaler = GradScaler()
    optimizer = Failing(sgd(f32(65536.0)).param_groups[0]["params"])
    with pytest.raises(KeyError, match="out of luck") as caught:
        scaler.step(optimizer)
    assert caught.traceback[-1].name == "step"
    assert caught.traceback[-1].path.name == "test_scaler.py"
    optimizer.fails = False
    assert scaler.step(optimizer) == 1  # unscaled once
    assert optimizer.param_groups[0]["params"][0].data == 0.0
    scaler.update()


def test_disabled_passes_through():
    scaler = GradScaler(enabled=False)
    optimizer, outputs = sgd(f32(np.inf)), [object()]
    assert scaler.scale(outputs) is outputs
    assert scaler.scale(3.0) == 3.0
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == 1
    assert scaler.step(optimizer, closure=7) == 2
    assert optimizer.received == ((), {"closure": 7})
    assert optimizer.param_groups[0]["params"][0].data == -np.inf
    scaler.update()
    scaler.record(optimizer, True)
    scaler.skip(optimizer)
    scaler.rearm(optimizer)
    assert (scaler.get_scale(), scaler.is_enabled(), scaler.state_dict()) == (1.0, False, {})
    assert scaler.found_inf(optimizer) is False
    assert scaler.outcome(optimizer) is Outcome.STEPPED


def test_disabled_closures_may_use_the_scaler():
    scaler = GradScaler(enabled=False)

    class Reevaluating(Sgd):
        def step(self, closure):
            return closure()

    optimizer = Reevaluating([])

    def closure():
        scaler.unscale_(optimizer)
        scaler.update()
        return scaler.scale(5.0)

    assert scaler.step(optimizer, closure) == 5.0


def test_disabled_clips_and_its_setters_store():
    scaler = GradScaler(enabled=False)
    grad = f32(3.0, 4.0)
    assert scaler.clip_grad_norm_([grad], 1.0) == 5.0
    assert grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-6)
    scaler.set_growth_factor(3.0)
    assert scaler.get_growth_factor() == 3.0
    with pytest.raises(ValueError):
        scaler.set_backoff_factor(2.0)


def test_a_dead_optimizer_is_forgotten_but_its_overflow_counts():
    scaler = GradScaler()
    optimizer = sgd(f32(np.inf))
    watch = weakref.ref(optimizer)
    scaler.unscale_(optimizer)
    del optimizer
    gc.collect()
    assert watch() is None
    for _ in range(100):  # one of them is likely to get the dead one's address
        scaler.unscale_(sgd(f32(1.0)))
    scaler.update()
    assert scaler.get_scale() == 32768.0


def test_lists_are_held_until_the_update():
    class Gradients(list):  # unlike list, it can be watched
        __slots__ = ("__weakref__",)

    class Opaque:
        __slots__ = ("param_groups",)

    scaler = GradScaler()
    grad, other = np.ones(1, np.float32), np.ones(1, np.float32)
    opaque = Opaque()
    opaque.param_groups = [{"params": [type("P", (), {"grad": grad})()]}]
    scaler.unscale_(opaque)
    scaler.unscale_([other])
    assert len(scaler._handles._known) == 2
    scaler.update()
    assert len(scaler._handles._known) == 0
    watched = Gradients([grad])
    scaler.unscale_(watched)
    assert len(scaler._handles._known) == 1
    watch = weakref.ref(watched)
    del watched
    gc.collect()
    assert watch() is None
    scaler.update()
    assert len(scaler._handles._known) == 0


def test_fresh_lists_every_iteration_do_not_pile_up():
    for scaler in (GradScaler(), GradScaler(enabled=False)):
        for _ in range(50):
            scaler.step([f32(1.0)])
            scaler.update()
        assert len(scaler._handles._known) == 0


def test_subclasses_and_repr():
    class Mine(GradScaler):
        pass

    assert repr(Mine(init_scale=4.0)) == "Mine(scale=4.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)"
    assert repr(GradScaler(enabled=False)).endswith("enabled=False)")


def test_subclasses_with_slots_are_copied_whole():
    scaler = Slotted(init_scale=4.0)
    scaler.note, scaler.free = "mine", [1]
    for duplicate in (copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))):
        copied = duplicate(scaler)
        assert (copied.note, copied.secret(), copied.free) == ("mine", "hidden", [1])
        assert not hasattr(copied, "unset")
        assert copied.get_scale() == 4.0


class Slotted(GradScaler):
    __slots__ = ("__secret", "note", "unset")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__secret = "hidden"

    def secret(self):
        return self.__secret


def test_the_older_protocol_passes_the_scaler():
    class Aware(Sgd):
        _step_supports_amp_scaling = True
        unscales = True

        def step(self, grad_scaler=None):
            if self.unscales:
                grad_scaler.unscale_(self)
            assert not hasattr(self, "grad_scale")
            assert not hasattr(self, "found_inf")
            return grad_scaler.get_scale()

    scaler = GradScaler(init_scale=4.0, growth_interval=1)
    for grad, outcome in ((8.0, Outcome.STEPPED), (np.inf, Outcome.SKIPPED_OVERFLOW)):
        optimizer = Aware(sgd(f32(grad)).param_groups[0]["params"])
        with pytest.warns(FutureWarning, match="grad_scaler"):
            scaler.step(optimizer)
        assert scaler.outcome(optimizer) is outcome
        with pytest.raises(RuntimeError), warnings.catch_warnings():
            warnings.simplefilter("error")
            scaler.step(optimizer)
    optimizer.unscales = False
    scaler.update()
    with pytest.warns(FutureWarning):
        assert scaler.step(optimizer) == 2.0
    assert scaler.outcome(optimizer) is Outcome.NO_GRADS


def test_the_package_tells_of_itself():
    assert gradscaler.__version__.count(".") == 2
    assert gradscaler.isa() in ("avx512", "avx2", "neon", "baseline")
    gradscaler.set_num_threads(0)
    for bad in (-1, 2**31, 10**400, 10**5000):
        with pytest.raises(ValueError, match="threads|n "):
            gradscaler.set_num_threads(bad)
    for bad in ("4", None, 4j):
        with pytest.raises(TypeError, match="n must be an integer"):
            gradscaler.set_num_threads(bad)
    for name in gradscaler.__all__:
        assert getattr(gradscaler, name).__doc__
    for name, member in vars(GradScaler).items():
        assert name.startswith("_") or member.__doc__
    assert str(inspect.signature(gradscaler.set_num_threads)) == "(n)"
    assert str(inspect.signature(gradscaler.isa)) == "()"


def test_names_are_listed_once_a_step():
    class Named:
        asked = 0

        def grads(self):
            return [f32(float("inf")) for _ in range(100)]

        def step(self):
            pytest.fail("stepped")

        def names(self):
            self.asked += 1
            return [f"w{i}" for i in range(100)]

    scaler, optimizer = GradScaler(), Named()
    scaler.step(optimizer)
    assert [overflow.name for overflow in scaler.overflows(optimizer)] == [f"w{i}" for i in range(100)]
    assert optimizer.asked == 1
