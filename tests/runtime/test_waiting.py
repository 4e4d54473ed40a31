"""How a thread waits: how it is scheduled meanwhile and afterwards, ends, failures, interrupts."""
from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from calque import runtime
from calque.runtime import buffer, waiting
from calque.runtime.errors import DeviceError
from calque.runtime.pending import wait_for
from calque.runtime.waiting import LOOKING_S, wait_until

linux = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="how Linux schedules threads")


class Slow:
    """What is there once it was waited for so often, or after `seconds`; notes how."""

    def __init__(self, times: float = math.inf, seconds: float = math.inf) -> None:
        self.times, self.end = times, time.perf_counter() + seconds
        self.seen: list[tuple[int, int]] = []

    def reached(self) -> bool:
        return len(self.seen) >= self.times or time.perf_counter() >= self.end

    def block(self, nanoseconds: int) -> None:
        self.seen.append((nanoseconds, os.sched_getscheduler(0)))


def semaphore() -> Any:
    return runtime.default_device().task.create_semaphore(0)


def in_thread(work: Callable[[], None]) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    if failed:
        raise failed[0]


def test_what_is_there_is_not_waited_for() -> None:
    slow = Slow(0)
    assert wait_until(slow.reached, slow.block, -math.inf) and not slow.seen


@linux
def test_a_waiting_thread_is_ahead_of_nobody() -> None:
    slow = Slow(4)
    assert wait_until(slow.reached, slow.block, math.inf)
    assert {policy for _, policy in slow.seen} == {os.SCHED_BATCH}
    assert all(0 < ns <= 50_000_000 for ns, _ in slow.seen) and len(slow.seen) == 4
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


@linux
@pytest.mark.parametrize("policy", [os.SCHED_BATCH, os.SCHED_IDLE])
def test_a_thread_stays_what_its_owner_made_it(policy: int) -> None:
    def work() -> None:
        os.sched_setscheduler(0, policy, os.sched_param(0))
        slow = Slow(2)
        assert wait_until(slow.reached, slow.block, math.inf)
        assert {p for _, p in slow.seen} == {policy} and os.sched_getscheduler(0) == policy
    in_thread(work)


@pytest.mark.parametrize("refused", [
    "sched_setscheduler", "sched_getscheduler", pytest.param(None, id="no such function")])
def test_where_a_thread_may_not_change_it_rests(refused: str | None, monkeypatch: Any) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError("sandbox")
    slow = Slow(seconds=0.02)
    if refused is None:
        monkeypatch.delattr(os, "sched_getscheduler")
    else:
        monkeypatch.setattr(os, refused, refuse)
    assert wait_until(slow.reached, slow.block, math.inf) and not slow.seen
    assert not wait_until(lambda: False, slow.block, time.perf_counter() + 0.01)


@linux
def test_ends_and_failures() -> None:
    start = time.perf_counter()
    assert not wait_until(lambda: False, lambda ns: time.sleep(ns * 1e-9), start + 0.12)
    assert 0.12 <= time.perf_counter() - start < 5

    def fail(ns: int) -> None:
        raise LookupError(ns)
    with pytest.raises(LookupError):
        wait_until(lambda: False, fail, math.inf)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_an_end_of_a_semaphore() -> None:
    with pytest.raises(TimeoutError, match=r"no value after 0.1 s\.\n  In a test\."):
        wait_for(semaphore(), 0.1, "a test")
    with pytest.raises(TimeoutError):
        wait_for(semaphore(), 0, "a test")


@pytest.mark.parametrize("fails", [False, True])
def test_many_threads_wait_while_others_work(fails: bool) -> None:
    """Waiting holds no lock of Python's: the thread that signals is one of Python's, too."""
    one, ends = semaphore(), []

    def wait() -> None:
        try:
            wait_for(one, 20, "a test")
        except DeviceError as error:
            ends.append(str(error))
        else:
            ends.append("reached")
    threads = [threading.Thread(target=wait) for _ in range(16)]
    for t in threads:
        t.start()
    time.sleep(0.12)
    assert not ends
    if fails:
        one.fail("the power is off")
    else:
        one.signal(1)
    for t in threads:
        t.join(20)
    assert len(ends) == 16
    assert all("the power is off" in e if fails else e == "reached" for e in ends)


def test_ctrl_c_comes_through() -> None:
    never = semaphore()
    with pytest.raises(KeyboardInterrupt):  # (from here on: a busy machine may be late)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        wait_for(never, 20, "a test")
    if hasattr(os, "SCHED_OTHER"):
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_gpu_is_looked_at_for_longer_before_a_thread_blocks(
        monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]  # each look takes 10 us of a clock of the test's
    monkeypatch.setattr(waiting, "time", SimpleNamespace(
        perf_counter=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s)))
    monkeypatch.setattr(waiting, "_policy", lambda: waiting._BATCH)
    blocked: list[float] = []

    def wait(after: float, deadline: float = math.inf, **how: float) -> bool:
        def reached() -> bool:
            now[0] += 1e-5
            return now[0] >= after or len(blocked) > 1
        now[0] = 0.0
        blocked.clear()
        return wait_until(reached, lambda ns: blocked.append(now[0]), deadline, **how)

    assert wait(0.9 * LOOKING_S, looking_s=LOOKING_S) and not blocked
    assert wait(0.9 * LOOKING_S) and 0 < blocked[0] < 1e-4  # of a CPU: soon
    assert wait(math.inf, looking_s=LOOKING_S) and blocked[0] >= LOOKING_S
    assert not wait(math.inf, 1e-4, looking_s=LOOKING_S) and now[0] < 2e-4 and not blocked


def test_buffers_of_a_gpu_are_waited_for_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(buffer, "wait_for", lambda *args: asked.append(args[3]))
    for is_fast in (False, True):
        made = runtime.Buffer.from_numpy(np.ones(2), runtime.default_device())
        made.fence, made.device = semaphore(), SimpleNamespace(is_fast=is_fast)
        made.wait()
    assert asked == [False, True]
    kinds = [("cpu", "x86"), ("cuda", "NVIDIA H200"), ("vulkan", "llvmpipe (LLVM 15)"),
             ("vulkan", "NVIDIA H200")]
    assert [runtime.Device(*kind).is_fast for kind in [(p, 0, k) for p, k in kinds]] == [
        False, True, False, True]
