"""Lines on the terminal, or in a notebook, when a compile takes more than a second: that it
goes on, ever more rarely, and in the end what it took."""
from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from calque.core.config import config

PATIENCE = 1.0  # seconds
RARER = 4.0  # the next line comes when so many times as much has passed


@contextlib.contextmanager
def announced(what: str) -> Iterator[None]:
    """Say that `what` is being compiled, if that takes long and somebody looks on."""
    if not (config.calque_progress and _is_seen()):
        yield
        return
    over, start = threading.Event(), time.perf_counter()
    said: list[float] = []

    def tell() -> None:
        wait = PATIENCE
        while not over.wait(start + wait - time.perf_counter()):
            _say(f"compiling {what or 'a program'}, {wait:.0f} s so far"
                 + ("" if said else " (CALQUE_PROGRESS=0 hides this)"))
            said.append(wait)
            wait *= RARER
    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if said:
            _say(f"compiled {what or 'a program'}, {time.perf_counter() - start:.1f} s in all")


def _is_seen() -> bool:
    """Whether stderr is a terminal or a notebook's; a pipe or a file gets nothing."""
    stream = sys.stderr
    try:
        return stream.isatty() or type(stream).__module__.startswith("ipykernel.")
    except (AttributeError, ValueError):  # none, or closed
        return False


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"calque: {text}\n")
        sys.stderr.flush()
