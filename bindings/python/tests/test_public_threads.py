# SPDX-License-Identifier: Apache-2.0
"""GradScaler among threads, forks and coroutines, and over many iterations. The extension alone: test_threads.py."""

import asyncio
import concurrent.futures
import itertools
import os
import threading

import numpy as np
import pytest
from conftest import Arrays, Param, Sgd, f32, sgd
from drift import assert_no_drift
from threads_rig import LARGE, PATIENCE, Thread, in_child

from gradscaler import GradScaler, Outcome

pytestmark = pytest.mark.usefixtures("no_hang")


class Torn(Exception):
    pass


def raise_torn():
    raise Torn


class Meanwhile(Sgd):
    """Its step calls a function."""

    def __init__(self, size, function):
        super().__init__([Param(np.zeros(size), np.full(size, 8.0, np.float32))])
        self.function = function

    def step(self):
        self.function()
        return super().step()


def iterate(scaler, optimizer):
    value = scaler.step(optimizer)
    scaler.update()
    return value


def train(seed):
    """Iterations with an overflow now and then; returns the state that they leave behind."""
    rng = np.random.default_rng(seed)
    scaler, optimizer = GradScaler(init_scale=8.0, growth_interval=3), sgd(None)
    (parameter,) = optimizer.param_groups[0]["params"]
    parameter.data = np.zeros(LARGE if seed % 2 else 100, np.float32)
    for _ in range(40):
        parameter.grad = rng.standard_normal(parameter.data.size).astype(np.float32)
        parameter.grad[0] = np.inf if rng.random() < 0.2 else 1.0
        iterate(scaler, optimizer)
    return scaler.state_dict(), scaler.stats, parameter.data.tobytes()


class TestThreadPool:
    def test_one_scaler_each(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            parallel = list(pool.map(train, range(8), timeout=60))
        assert parallel == [train(seed) for seed in range(8)]

    def test_one_scaler_for_all(self):
        """Optimizers are unscaled by any thread, and stepped by the one that ends the iteration."""
        scaler, size = GradScaler(init_scale=8.0, growth_interval=1000), LARGE
        optimizers = [Meanwhile(size, lambda: None) for _ in range(8)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for n in range(10):
                for optimizer in optimizers:
                    optimizer.param_groups[0]["params"][0].grad.fill(8.0)
                optimizers[n % 8].param_groups[0]["params"][0].grad[n] = np.nan
                scale = scaler.get_scale()
                list(pool.map(scaler.unscale_, optimizers, timeout=PATIENCE))
                for i, optimizer in enumerate(optimizers):
                    scaler.step(optimizer)
                    assert (scaler.outcome(optimizer) is Outcome.STEPPED) == (i != n % 8)
                    assert scaler.found_inf(optimizer) == (i == n % 8)
                    assert optimizer.param_groups[0]["params"][0].grad[-1] == 8.0 / scale
                scaler.update()
                assert scaler.get_scale() == scale / 2

    def test_whole_iterations_on_one_scaler(self):
        """In any order of their calls: each call returns or raises a clear error, and none hangs."""
        scaler = GradScaler(init_scale=8.0, growth_interval=1 << 40)

        def work(seed):
            optimizer, done = sgd(f32(8.0)), 0
            for n in range(100):
                try:
                    done += iterate(scaler, optimizer if n % 2 else Arrays(f32(8.0))) is not None
                except RuntimeError as error:
                    assert any(text in str(error) for text in ("callback", "already", "nothing was checked")), error
            return done

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(work, range(8), timeout=60)) > 0
        scaler.update(8.0)
        assert iterate(scaler, Arrays(f32(8.0))) == "stepped"

    def test_another_thread_is_inside_a_step(self):
        inside, go_on = threading.Event(), threading.Event()
        scaler = GradScaler(init_scale=8.0)
        optimizer = Meanwhile(LARGE, lambda: inside.set() or go_on.wait(PATIENCE))
        thread = Thread(lambda: scaler.step(optimizer))
        try:
            assert inside.wait(PATIENCE)
            for call in (scaler.update, lambda: scaler.unscale_([f32(1.0)]), lambda: scaler.step(sgd(f32(1.0)))):
                with pytest.raises(RuntimeError, match="another thread is inside a callback"):
                    call()
            assert scaler.get_scale() == 8.0
            assert iterate(GradScaler(), Arrays(f32(1.0))) == "stepped"
        finally:
            go_on.set()
        assert thread.join() == 1
        scaler.update()
        assert scaler.stats.steps == 1


class TestAsyncio:
    def test_the_loop_goes_on(self):
        async def main():
            scaler, optimizer, beats = GradScaler(init_scale=8.0), Meanwhile(1 << 20, lambda: None), []

            async def beat():
                while True:
                    beats.append(1)
                    await asyncio.sleep(0)

            task = asyncio.ensure_future(beat())
            for n in range(10):
                await asyncio.to_thread(scaler.unscale_, optimizer)
                assert await asyncio.to_thread(scaler.step, optimizer) == n + 1
                await asyncio.to_thread(scaler.update)
            task.cancel()
            return len(beats), scaler.stats.steps

        beats, steps = asyncio.run(asyncio.wait_for(main(), 60))
        assert beats > 10 and steps == 10

    def test_an_exception_comes_back(self):
        async def main():
            scaler, optimizer = GradScaler(init_scale=8.0), Meanwhile(LARGE, raise_torn)
            with pytest.raises(Torn) as info:
                await asyncio.to_thread(scaler.step, optimizer)
            assert info.traceback[-1].name == "raise_torn"
            optimizer.function = lambda: None
            assert await asyncio.to_thread(iterate, scaler, optimizer) == 1
            return optimizer.param_groups[0]["params"][0].data[0]

        assert asyncio.run(asyncio.wait_for(main(), 60)) == -1.0

    def test_several_at_once(self):
        async def main():
            return await asyncio.gather(*(asyncio.to_thread(train, seed) for seed in range(4)))

        assert asyncio.run(asyncio.wait_for(main(), 60)) == [train(seed) for seed in range(4)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("size", [1, LARGE])
class TestFork:
    def test_between_iterations(self, size):
        scaler, optimizer = GradScaler(init_scale=2.0), Meanwhile(size, lambda: None)
        iterate(scaler, optimizer)

        def child():
            value = iterate(scaler, optimizer)
            return value == 2 and scaler.stats.steps == 2 and optimizer.param_groups[0]["params"][0].grad[-1] == 2.0

        assert in_child(child) == 0
        assert scaler.stats.steps == 1
        assert iterate(scaler, optimizer) == 2

    def test_within_an_iteration(self, size):
        """Parent and child finish the step, each its own."""
        scaler, optimizer = GradScaler(init_scale=2.0), Meanwhile(size, lambda: None)
        scaler.unscale_(optimizer)

        def rest():
            return iterate(scaler, optimizer) == 1 and scaler.outcome(optimizer) is Outcome.STEPPED

        assert in_child(rest) == 0
        assert rest()

    def test_inside_a_step(self, size):
        children = []

        def child():
            with pytest.raises(RuntimeError, match="callback"):
                scaler.update()
            return scaler.get_scale() == 2.0

        scaler = GradScaler(init_scale=2.0)
        iterate(scaler, Meanwhile(size, lambda: children.append(in_child(child))))
        assert children == [0]

    def test_while_another_thread_is_inside(self, size):
        inside, go_on = threading.Event(), threading.Event()
        scaler = GradScaler(init_scale=2.0)
        optimizer = Meanwhile(size, lambda: inside.set() or go_on.wait(PATIENCE))

        def child():
            for call in (
                scaler.update,
                lambda: scaler.unscale_([f32(1.0)]),
                lambda: scaler.step(optimizer),
                lambda: scaler.overflows(optimizer),
            ):
                with pytest.raises(RuntimeError, match="when the process was forked"):
                    call()
            return scaler.get_scale() == 2.0 and iterate(GradScaler(), Meanwhile(size, lambda: None)) == 1

        thread = Thread(lambda: scaler.step(optimizer))
        try:
            assert inside.wait(PATIENCE)
            assert in_child(child) == 0
        finally:
            go_on.set()
        assert thread.join() == 1
        scaler.update()


def test_no_drift():
    """Neither references nor memory grow, whatever kind of optimizer and however an iteration ends."""
    scaler = GradScaler(init_scale=1.0, growth_interval=1 << 40, on_event=lambda event: None)
    optimizer, torn, gradient, bad = sgd(f32(1.0, 2.0)), Meanwhile(2, raise_torn), f32(1.0), f32(np.inf)
    half = np.ones(1, np.float16)

    def step_list():
        gradients = [gradient]
        scaler.step(gradients)
        assert scaler.outcome(gradients) is Outcome.STEPPED

    def refuse(what, expected):
        try:
            scaler.step(what)
        except expected:
            return
        raise AssertionError

    ends = itertools.cycle(
        (
            lambda: scaler.step(optimizer),
            lambda: scaler.step(Arrays(gradient)),
            step_list,
            lambda: scaler.step([bad]),
            lambda: refuse(torn, Torn),
            lambda: refuse([gradient, half], ValueError),
        )
    )

    def end_one():
        next(ends)()
        scaler.update(1.0)

    watched = [scaler, optimizer, torn, gradient, bad, half, Torn, Outcome.STEPPED, GradScaler, Arrays]
    assert_no_drift(end_one, watched)
