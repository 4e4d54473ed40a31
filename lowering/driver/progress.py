"""A line on the terminal, or in a notebook, when a compile takes more than a second."""
from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from calque.core.config import config

PATIENCE = 1.0  # seconds


@contextlib.contextmanager
def announced(what: str) -> Iterator[None]:
    """Say once that `what` is being compiled, if that takes long and somebody looks on."""
    if not (config.calque_progress and _is_seen()):
        yield
        return
    timer = threading.Timer(PATIENCE, _say, (what,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_seen() -> bool:
    """Whether stderr is a terminal or a notebook's; a pipe or a file gets nothing."""
    stream = sys.stderr
    try:
        return stream.isatty() or type(stream).__module__.startswith("ipykernel.")
    except (AttributeError, ValueError):  # none, or closed
        return False


def _say(what: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"calque: compiling {what or 'a program'}, {PATIENCE:.0f} s so far "
                         "(CALQUE_PROGRESS=0 hides this)\n")
        sys.stderr.flush()
