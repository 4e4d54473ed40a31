"""Where in the user's program an operation was asked for.

`here()` walks out of calque's own frames; the answer travels on equations, into MLIR locations and
into messages.  Imports nothing of calque.
"""
from __future__ import annotations

import contextvars
import os
import sys
from dataclasses import dataclass

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SIBLINGS = tuple(
    os.path.join(os.path.dirname(_PACKAGE.rstrip(os.sep)), d) + os.sep
    for d in ("lowering", "runtime")
) if os.path.basename(_PACKAGE.rstrip(os.sep)) == "frontend" else ()
OURS = (_PACKAGE, *_SIBLINGS)


@dataclass(frozen=True, slots=True)
class Source:
    """A file, a line and the function they are in."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.function} ({os.path.basename(self.file)}:{self.line})"


UNKNOWN = Source("<unknown>", 0, "<unknown>")
_ours_cache: dict[str, bool] = {}


def is_ours(filename: str) -> bool:
    """Whether a file belongs to the package (or to the import machinery and functools)."""
    known = _ours_cache.get(filename)
    if known is None:
        known = filename.startswith(OURS) or filename.startswith("<frozen")
        _ours_cache[filename] = known
    return known


# While a Program is replayed, the source of the equation at hand.
replaying: contextvars.ContextVar[Source | None] = contextvars.ContextVar(
    "calque_source", default=None)


def here() -> Source:
    """The innermost frame outside calque, or the source of the equation being replayed."""
    known = replaying.get()
    if known is not None:
        return known
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_ours(code.co_filename):
            return Source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return UNKNOWN
