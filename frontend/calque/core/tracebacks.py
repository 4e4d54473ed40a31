"""Tracebacks show the user's frames: ours are left out unless CALQUE_TRACEBACK=full (or the option
jax_traceback_filtering is 'off').

`boundary(f)` wraps a public function; it costs nothing until something is raised.
Imports core.config and core.source.
"""
from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from calque.core.config import config
from calque.core.source import is_ours

F = TypeVar("F", bound=Callable[..., Any])


def shown_in_full() -> bool:
    return os.environ.get("CALQUE_TRACEBACK") == "full" or config.jax_traceback_filtering == "off"


def without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without frames of this package."""
    frames = []
    while traceback is not None:
        if not is_ours(traceback.tb_frame.f_code.co_filename):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for t in reversed(frames):
        kept = TracebackType(kept, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return kept


def filter_traceback(error: BaseException) -> BaseException:
    """The error with a traceback of the user's frames."""
    if shown_in_full():
        return error
    return error.with_traceback(without_ours(error.__traceback__))


def hide_ours(error: BaseException) -> None:
    """Take our frames out of what is raised again; its cause and context stay as they are."""
    if not shown_in_full():
        error.__traceback__ = without_ours(error.__traceback__)


def boundary(f: F) -> F:
    """f, whose exceptions carry the user's frames only."""
    @functools.wraps(f)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            raise filter_traceback(error) from error.__cause__
    return public  # type: ignore[return-value]
