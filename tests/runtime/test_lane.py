"""Work in one order on one thread, between fences; what it raises comes out behind them."""
from __future__ import annotations

import threading
import traceback
from typing import Any

import iree.runtime as rt
import pytest

from calque import runtime
from calque.runtime.errors import DeviceError
from calque.runtime.lane import MOST, Lane
from calque.runtime.pending import wait_for


def fence() -> tuple[Any, Any]:
    """A semaphore, and the fence at its 1."""
    semaphore = runtime.default_device().task.create_semaphore(0)
    return semaphore, rt.HalFence.create_at(semaphore, 1)


def test_order() -> None:
    """More than may wait, behind a fence that is reached last."""
    lane, seen = Lane(), []
    start, first = fence()
    ends = [fence() for _ in range(MOST + 50)]

    def ask() -> None:
        for i, (_, done) in enumerate(ends):
            lane.add(first if i == 0 else None, lambda i=i: seen.append((i, lane.is_mine())), done)

    asking = threading.Thread(target=ask)
    asking.start()
    assert not lane.drain(0.05) and not seen and not lane.is_idle()
    asking.join(0.05)
    assert asking.is_alive()  # there is no room for the rest yet
    start.signal(1)
    asking.join(30)
    assert lane.drain(30) and lane.is_idle() and not lane.is_mine()
    assert seen == [(i, True) for i in range(len(ends))]
    for semaphore, _ in ends:
        wait_for(semaphore, 5, "")


def test_failures() -> None:
    """The exception itself, with its traceback, also behind what waits for it; others go on."""
    lane = Lane()

    class Mine(LookupError):
        pass

    def raises() -> None:
        raise Mine("no such thing")

    (one, done), (two, behind), (three, beside) = fence(), fence(), fence()
    lane.add(None, raises, done)
    lane.add(done, lambda: None, behind)
    lane.add(None, lambda: None, beside)
    for semaphore in (one, two):
        with pytest.raises(Mine, match="no such thing") as raised:
            wait_for(semaphore, 5, "a test")
        assert "raises" in [f.name for f in traceback.extract_tb(raised.value.__traceback__)]
    wait_for(three, 5, "")
    assert lane.drain(5)
    lane.add(None, raises, None)  # nobody reads it
    assert lane.drain(5)


def test_a_fence_that_somebody_else_fails() -> None:
    lane, ((_, bad), (semaphore, done)) = Lane(), (fence(), fence())
    bad.fail("the power is off")
    told: list[BaseException] = []
    lane.add(bad, lambda: None, done, told.append)
    with pytest.raises((DeviceError, RuntimeError), match="the power is off"):
        wait_for(semaphore, 5, "a test")
    assert "the power is off" in str(told[0])  # what was to be done, and is not
