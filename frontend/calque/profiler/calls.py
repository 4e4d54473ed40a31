"""Calls of Python functions as slices, by Python's own profiling hook (`sys.setprofile`).

Only while a trace with python_tracer_level=1 is on: in the thread that started it, and in threads
that start afterwards.  Functions of calque and of Python's import machinery are left out.
"""
from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from calque.core.errors import explain
from calque.core.source import is_ours
from calque.profiler.recorder import Recorder

_own = threading.local()
_hook: Any = None  # what is installed


def start(recorder: Recorder) -> None:
    """Record calls from now."""
    global _hook
    if sys.getprofile() is not None:
        raise RuntimeError(explain(
            f"Python calls cannot be traced: another profiler is at work, {sys.getprofile()!r}.",
            fix="end it, or leave python_tracer_level at 0."))

    def hook(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            code, token = frame.f_code, None
            if not is_ours(code.co_filename):
                token = recorder.begin(code.co_qualname, "python", {
                    "file": code.co_filename, "line": frame.f_lineno})
            _stack(recorder).append(token)
        elif event == "return":
            stack = _stack(recorder)
            if stack:  # not of a function that was called before the trace
                recorder.end(stack.pop())

    _hook = hook
    threading.setprofile(hook)
    sys.setprofile(hook)


def stop() -> None:
    """No more; other threads' hooks find the recorder stopped."""
    global _hook
    if _hook is None:
        return
    if sys.getprofile() is _hook:
        sys.setprofile(None)
    threading.setprofile(None)
    _hook = None


def _stack(recorder: Recorder) -> list[Any]:
    """The calls of this thread that are open."""
    known = getattr(_own, "stack", None)
    if known is None or known[0] is not recorder:
        known = _own.stack = (recorder, [])
    stack: list[Any] = known[1]
    return stack
