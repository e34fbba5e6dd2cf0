# SPDX-License-Identifier: Apache-2.0
"""Which thread may be inside a scaler: threads, callbacks on other threads, forks, pools and asyncio; and whether the
interpreter runs on meanwhile."""

import asyncio
import concurrent.futures
import os
import threading
import time
import warnings

import numpy as np
import pytest
from core_rig import READY, STEPPED, UNSCALED, Torn, grads, make, raise_torn, step
from threads_rig import LARGE, PATIENCE, Thread, in_child

from gradscaler import _core

pytestmark = pytest.mark.usefixtures("no_hang")


class Stuck:
    """Another thread is inside a step until the block ends."""

    def __init__(self, scaler, handle, arrays):
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.thread = Thread(lambda: step(scaler, handle, arrays, self.wait))

    def wait(self):
        self.inside.set()
        assert self.go_on.wait(PATIENCE)
        return "stepped"

    def __enter__(self):
        assert self.inside.wait(PATIENCE)
        return self

    def __exit__(self, *error):
        self.go_on.set()
        self.value = self.thread.join()


class TestCallbacksElsewhere:
    @pytest.mark.parametrize("size", [1, LARGE])
    def test_calls_are_refused(self, size):
        scaler, handle = make(), _core.Handle()
        with Stuck(scaler, handle, grads(np.full(size, 8.0))) as stuck:
            for call in (
                lambda: scaler.update(),
                lambda: scaler.unscale(_core.Handle(), grads([1.0]), None),
                lambda: scaler.forget(handle),
                lambda: scaler.load_state(scaler.state()),
                lambda: scaler.set_growth_interval(3),
            ):
                with pytest.raises(RuntimeError, match="another thread is inside a callback"):
                    call()
        assert stuck.value == "stepped"
        scaler.update()
        assert scaler.state()["growth_tracker"] == 1

    def test_looking_is_allowed(self):
        scaler, handle = make(), _core.Handle()
        with Stuck(scaler, handle, grads([8.0])):
            assert (scaler.get_scale(), scaler.is_enabled(), scaler.get_growth_interval()) == (8.0, True, 2000)
            assert (scaler.get_stage(handle), scaler.found_inf(handle)) == (UNSCALED, False)
            assert scaler.overflows(handle) == []
            assert scaler.state()["scale"] == 8.0
            assert scaler.stats()[0] == 0
            source, target = grads([2.0], [0.0])
            scaler.scale(source, target)
            assert target == 16.0
            with pytest.raises(RuntimeError, match="not stepped"):
                scaler.result(handle)

    def test_another_scaler_is_free(self):
        scaler, handle = make(), _core.Handle()
        with Stuck(scaler, handle, grads([8.0])):
            assert step(make(), _core.Handle(), grads([8.0]), lambda: 5) == 5

    def test_one_optimizer_of_two_scalers(self):
        scaler, handle = make(), _core.Handle()
        with Stuck(scaler, handle, grads([8.0])):
            with pytest.raises(RuntimeError, match="another scaler"):
                make().unscale(handle, grads([8.0]), None)

    def test_a_thread_that_the_step_waits_for(self):
        """Waiting would never end."""
        scaler, handle = make(), _core.Handle()

        def ask_and_wait():
            with pytest.raises(RuntimeError, match="callback"):
                Thread(scaler.update).join()
            return "gone on"

        assert step(scaler, handle, grads([8.0]), ask_and_wait) == "gone on"

    def test_exceptions_cross_no_threads(self):
        scalers = [make() for _ in range(4)]

        def fail(number):
            def function():
                time.sleep(0.01)
                raise Torn(number)

            for arrays in [grads(np.full(LARGE, 8.0)) for _ in range(5)]:
                with pytest.raises(Torn, match=str(number)):
                    step(scalers[number], _core.Handle(), arrays, function)
            return number

        assert [t.join() for t in [Thread(lambda n=n: fail(n)) for n in range(4)]] == [0, 1, 2, 3]


class TestGil:
    def test_others_run_meanwhile(self):
        array = np.full(1 << 22, 8.0, np.float32)
        scaler, handle = make(), _core.Handle()
        inside = threading.Event()

        def work():
            inside.set()
            scaler.clip_grad_norm(handle, [array], None, 1.0, 3.0)  # takes a while

        thread, ticks, longest = Thread(work), 0, 0.0
        inside.wait(PATIENCE)
        last = time.perf_counter()
        start = last
        while thread.is_alive():
            ticks += 1
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        thread.join()
        took = time.perf_counter() - start
        assert ticks > 100
        assert longest < took / 2, f"the interpreter stood still for {longest:.3f} of {took:.3f} s"

    def test_calls_wait_while_the_core_works(self):
        """Each of two threads steps on one scaler. Calls are atomic: only their order can vary."""
        array = np.full(1 << 22, 8.0, np.float32)
        scaler = make(growth_interval=1 << 40)
        barrier, rounds = threading.Barrier(2), 20

        def work():
            handle, own = _core.Handle(), array.copy()
            barrier.wait(PATIENCE)
            for _ in range(rounds):
                scaler.unscale(handle, [own], None)
                assert scaler.get_stage(handle) == UNSCALED
                scaler.rearm(handle)
            scaler.skip(handle)
            return scaler.get_stage(handle), float(own[0]) > 0.0

        assert [thread.join() for thread in [Thread(work), Thread(work)]] == [(STEPPED, True)] * 2
        scaler.update()
        assert scaler.state()["growth_tracker"] == 1

    def test_looking_waits(self):
        """Getters about an optimizer wait for the core; those of plain numbers do not."""
        array = np.full(1 << 22, 8.0, np.float32)
        scaler, handle = make(), _core.Handle()
        inside = threading.Event()

        def timed(function):
            start = time.perf_counter()
            function()
            return time.perf_counter() - start

        def work():
            inside.set()
            return timed(lambda: scaler.clip_grad_norm(handle, [array], None, 1.0, 3.0))

        thread = Thread(work)
        inside.wait(PATIENCE)
        time.sleep(0.01)
        plain, looking = timed(scaler.get_scale), timed(lambda: scaler.get_stage(handle))
        took = thread.join()
        assert plain < took / 4 < looking

    def test_reports_are_whole(self):
        """overflows() reads memory that the core may be moving: it sees the old report or the new one, never a mix."""
        scaler, handle, stop = make(growth_interval=1 << 40), _core.Handle(), threading.Event()
        arrays = [np.full(1 << 20, np.inf, np.float32) for _ in range(4)]

        def work():
            for n in range(30):
                scaler.unscale(handle, arrays[: 1 + n % 4], lambda i: "x" * (1 + 40 * (n % 7)))
                scaler.rearm(handle)
            stop.set()

        thread = Thread(work)
        while not stop.is_set() and thread.is_alive():
            for _, name, infs, nans, first, _ in scaler.overflows(handle):
                assert set(name) == {"x"} and (infs, nans, first) == (1 << 20, 0, 0)
            scaler.get_stage(handle), scaler.found_inf(handle), scaler.state()
        thread.join()

    def test_callbacks_take_it_back(self):
        """Names, events, collectives and the step run on the calling thread, with many gradients as with few."""
        threads = []

        def note(*args):
            threads.append(threading.get_ident())

        def name(index):
            note()
            return str(index)

        for size in (1, LARGE):
            threads.clear()
            scaler = make(observer=note, allreduce_max=note)
            step(scaler, _core.Handle(), grads(np.full(size, np.inf)), note, name=name)
            scaler.update()
            step(scaler, _core.Handle(), grads(np.full(size, 1.0)), note, name=name)
            assert set(threads) == {threading.get_ident()}
            assert len(threads) >= 6


class TestPools:
    def test_one_scaler_each(self):
        def train(seed):
            scaler, handle = make(growth_interval=4), _core.Handle()
            rng = np.random.default_rng(seed)
            for _ in range(60):
                values = rng.standard_normal(LARGE if seed % 2 else 100).astype(np.float32)
                values[0] = np.inf if rng.random() < 0.2 else 1.0
                step(scaler, handle, [values], lambda: None)
                scaler.update()
            return scaler.state(), scaler.stats()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            parallel = list(pool.map(train, range(16), timeout=60))
        assert parallel == [train(seed) for seed in range(16)]

    def test_one_scaler_for_all(self):
        """In any order of their calls: each call returns or raises a clear error, and none hangs."""
        scaler = make(growth_interval=1 << 40)

        def work(seed):
            handle, done = _core.Handle(), 0
            for n in range(100):
                try:
                    step(scaler, handle, grads(np.full(LARGE if n % 10 == 0 else 8, 8.0)), lambda: time.sleep(0))
                    scaler.update()
                    done += 1
                except RuntimeError as error:
                    assert any(text in str(error) for text in ("callback", "already", "nothing was checked"))
            return done

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(work, range(8), timeout=60)) > 0
        scaler.update_to(8.0)

    def test_asyncio(self):
        async def main():
            loop, scaler, handle = asyncio.get_running_loop(), make(), _core.Handle()
            array, beats = np.full(1 << 22, 8.0, np.float32), []

            async def beat():
                while True:
                    beats.append(1)
                    await asyncio.sleep(0)

            task = asyncio.ensure_future(beat())
            for n in range(10):
                await loop.run_in_executor(None, scaler.unscale, handle, [array], None)
                assert await loop.run_in_executor(None, step, scaler, handle, [array], lambda: n) == n
                scaler.update()
            with pytest.raises(Torn):
                await loop.run_in_executor(None, step, scaler, handle, [array], raise_torn)
            task.cancel()
            return len(beats), scaler.state()["growth_tracker"]

        beats, tracker = asyncio.run(asyncio.wait_for(main(), 60))
        assert beats > 10 and tracker == 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
class TestFork:
    def test_between_iterations(self):
        scaler, handle, array = make(), _core.Handle(), np.full(1 << 20, 8.0, np.float32)
        step(scaler, handle, [array])
        scaler.update()

        def child():
            step(scaler, handle, [array], lambda: None)
            scaler.update()
            return scaler.state()["growth_tracker"] == 2 and float(array[-1]) == 0.125

        assert in_child(child) == 0
        assert scaler.state()["growth_tracker"] == 1

    @pytest.mark.parametrize("size", [1, LARGE])
    def test_while_another_thread_is_inside(self, size):
        scaler, handle, array = make(), _core.Handle(), np.full(size, 8.0, np.float32)

        def child():
            for call in (
                scaler.update,
                lambda: scaler.overflows(handle),
                lambda: scaler.unscale(handle, [array], None),
            ):
                with pytest.raises(RuntimeError, match="when the process was forked"):
                    Thread(call).join()  # a new thread may have the lost one's identifier
                with pytest.raises(RuntimeError, match="when the process was forked"):
                    call()
            fresh = make()
            step(fresh, _core.Handle(), [array], lambda: None)
            return scaler.get_scale() == 8.0 and fresh.stats()[1] == 1

        with Stuck(scaler, handle, [array]):
            assert in_child(child) == 0
        scaler.update()

    def test_while_another_thread_is_in_the_core(self):
        scaler, handle, array = make(), _core.Handle(), np.full(1 << 25, 8.0, np.float32)
        inside, stop = threading.Event(), threading.Event()

        def work():
            while not stop.is_set():
                inside.set()
                scaler.unscale(handle, [array], None)
                scaler.rearm(handle)

        def child():
            try:
                scaler.rearm(handle)
            except RuntimeError as error:
                return "forked" in str(error)
            return True  # it was between two calls

        thread = Thread(work)
        inside.wait(PATIENCE)
        assert [in_child(child) for _ in range(3)] == [0, 0, 0]
        stop.set()
        thread.join()

    @pytest.mark.parametrize("size", [1, LARGE])
    def test_by_the_owner_itself(self, size):
        """A step that forks: the child is inside the same step, and continues it."""
        scaler, handle, children = make(), _core.Handle(), []

        def forking_step():
            def child():
                with pytest.raises(RuntimeError, match="callback"):
                    scaler.update()
                with pytest.raises(RuntimeError, match="another thread is inside a callback"):
                    Thread(scaler.update).join()
                return scaler.get_stage(handle) == UNSCALED

            children.append(in_child(child))

        step(scaler, handle, grads(np.full(size, 8.0)), forking_step)
        assert children == [0]
        assert scaler.get_stage(handle) == STEPPED

    @pytest.mark.parametrize("size", [1, LARGE])
    def test_the_child_goes_on_after_the_step(self, size):
        scaler, handle = make(), _core.Handle()

        def whole_rest():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                return os.fork()

        pid = step(scaler, handle, grads(np.full(size, 8.0)), whole_rest)
        if pid == 0:
            status = 1
            try:
                scaler.update()
                status = int(scaler.get_stage(handle) != READY or Thread(scaler.get_scale).join() != 8.0)
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
