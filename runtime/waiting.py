"""How a thread waits for IREE: giving way at first, then blocked, never ahead of IREE's workers.

A thread that looks again and again takes a worker's core each time: of a product of 1024 x 1024,
8 ms, that is a sixth. One that blocks in IREE 3.13 is woken before the worker has marked it as
served, and spins on that mark; the workers are pinned, and where both share a core a thread that
was put ahead of the worker spins until the scheduler's next tick, some 4 ms. Linux never puts a
thread of SCHED_BATCH ahead of a running one as it wakes (sched(7)), so a waiting thread is one of
these.
Work on a GPU takes no core of the waiting thread's and is often over in less than a blocked thread
takes to wake: there a thread looks for a millisecond before it blocks.
Start reading at `wait_until`.
"""
from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

_YIELDING_S = 5e-5  # so long a waiting thread only gives way: to block and wake takes some 10 us
LOOKING_S = 1e-3  # the same for a GPU
_BLOCKED_S = 0.05  # at a time: Ctrl-C comes through in between
_USUAL, _BATCH, _IDLE = (getattr(os, f"SCHED_{name}", -1)  # -1: not Linux
                         for name in ("OTHER", "BATCH", "IDLE"))
_give_way: Callable[[], Any] = getattr(os, "sched_yield", functools.partial(time.sleep, 0))
_RESTS_S = 1e-4, 1e-3  # where threads can't be SCHED_BATCH: between two looks, at first and at most


def wait_until(reached: Callable[[], bool], block: Callable[[int], Any], deadline: float,
               looking_s: float = _YIELDING_S) -> bool:
    """Wait until `reached()`; False where `deadline` (time.perf_counter) passes before.

    block: waits until then itself, for as many nanoseconds at most.
    looking_s: how long a thread gives way and looks again before it blocks.

    Example:
      >>> import time
      >>> from calque.runtime.waiting import wait_until
      >>> start = time.perf_counter()
      >>> wait_until(lambda: time.perf_counter() > start + 0.01,
      ...            lambda ns: time.sleep(ns * 1e-9), start + 1)
      True
    """
    start = now = time.perf_counter()
    while now < start + looking_s:
        if reached():
            return True
        if now >= deadline:
            return False
        _give_way()
        now = time.perf_counter()
    policy = _policy()
    try:
        behind = policy in (_BATCH, _IDLE) or policy == _USUAL and _take(_BATCH)
        while not reached():
            now = time.perf_counter()
            if now >= deadline:
                return False
            if behind:
                block(round(min(_BLOCKED_S, deadline - now) * 1e9))
            else:
                time.sleep(min(max(_RESTS_S[0], (now - start) / 64), _RESTS_S[1], deadline - now))
        return True
    finally:
        if policy == _USUAL:
            _take(_USUAL)


def _policy() -> int | None:
    """How Linux schedules this thread."""
    try:
        return os.sched_getscheduler(0)
    except (AttributeError, OSError):  # another system, a sandbox
        return None


def _take(policy: int) -> bool:
    """Have this thread scheduled so; False where it may not be."""
    try:
        os.sched_setscheduler(0, policy, os.sched_param(0))
    except OSError:
        return False
    return True


__all__ = ["LOOKING_S", "wait_until"]
