"""Where in the user's program an operation was asked for.

`here()` walks out of calque's own frames; the answer travels on equations, into MLIR locations and
into messages.  Imports of calque naming.py alone.
"""
from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
from dataclasses import dataclass
from types import CodeType
from typing import Any

from calque.core.naming import attribute, innermost

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# frames of the command: folders, and its script
_COMMAND = (*(os.sep + name + os.sep for name in ("calque_cli", "typer", "click")),
            os.sep + "calque")


@dataclass(frozen=True, slots=True)
class Source:
    """A file, a line and the function they are in.

    Example:
      >>> from calque.extend.source_info_util import SourceInfo
      >>> str(SourceInfo("train.py", 14, "loss"))
      'loss (train.py:14)'
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        cell = _cell_of(self.file)
        if cell is not None:
            return f"{self.function} (Cell In[{cell}], line {self.line})"
        return f"{self.function} ({os.path.basename(self.file)}:{self.line})"


def _cell_of(file: str) -> Any:
    """The number of the notebook cell whose code was compiled under a file's name."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return cells.get(file)


@dataclass(frozen=True, slots=True)
class NameStack:
    """The names of the scopes around an operation, the outermost first.

    Attributes:
      stack: a tuple of names.

    Example:
      >>> from calque.extend import source_info_util as util
      >>> with util.extend_name_stack("layer"):
      ...     print(util.current_name_stack())
      layer
    """

    stack: tuple[str, ...] = ()

    def extend(self, name: str) -> NameStack:
        """With one more name inside."""
        return NameStack((*self.stack, name))

    def __add__(self, other: NameStack) -> NameStack:
        return NameStack(self.stack + other.stack)

    def __str__(self) -> str:
        return "/".join(self.stack)


@dataclass(frozen=True, slots=True)
class EquationSource(Source):
    """A place with the names of the scopes around it, as an equation's source_info."""

    name_stack: NameStack = NameStack()

    __str__ = Source.__str__


UNKNOWN = Source("<unknown>", 0, "<unknown>")
_ours_cache: dict[str, bool] = {}


def is_ours(filename: str) -> bool:
    """Whether a file belongs to the package, to its command or to Python's machinery."""
    known = _ours_cache.get(filename)
    if known is None:
        known = filename.startswith((PACKAGE, "<frozen")) or filename == contextlib.__file__ or (
            any(part in filename for part in _COMMAND[:-1]) or filename.endswith(_COMMAND[-1])
            or filename.startswith(tuple(_excluded)))
        _ours_cache[filename] = known
    return known


_excluded: list[str] = []  # files of libraries that are no user's code, either


def register_exclusion(path: str) -> None:
    """Leave a file, or the files of a folder, out of tracebacks and out of places of equations.

    Args:
      path: of the file, as in `__file__`, or of a folder.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import source_info_util
      >>> source_info_util.register_exclusion("/nowhere/library")
    """
    _excluded.append(path)
    _ours_cache.clear()


# While a Program is replayed, the source of the equation at hand.
replaying: contextvars.ContextVar[Source | None] = contextvars.ContextVar(
    "calque_source", default=None)


def here() -> Source:
    """The innermost frame outside calque, or the source of the equation being replayed."""
    known = replaying.get()
    if known is not None:
        return known
    frame, ours = sys._getframe(1), _ours_cache
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if not (ours[file] if file in ours else is_ours(file)):  # (some 30 frames an equation)
            return Source(file, frame.f_lineno, code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return UNKNOWN


def users_line() -> str:
    """here() as text; "" where no user's code is on the stack (a thread of ours)."""
    found = here()
    return "" if found is UNKNOWN or found.file == threading.__file__ else str(found)


_BELOW = ("core", "dispatch", "primitives", "transforms", "trees")


def asked_by_ours(*doors: str) -> bool:
    """Whether a function of the package's own asks for an operation, and not the user; doors:
    modules (or folders) whose functions do what the user asks them for, as operators do."""
    paths = tuple(PACKAGE + p.replace("/", os.sep) for p in (*_BELOW, *doors))
    frame = sys._getframe(1)
    while frame is not None and is_ours(name := frame.f_code.co_filename):
        if name.startswith(PACKAGE) and not name.startswith(paths):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def called(fun: Any) -> Source:
    """Where fun is called: here(), or fun itself when a command of ours calls it."""
    found = here()
    code = attribute(innermost(fun), "__code__")
    if found is not UNKNOWN or not isinstance(code, CodeType):
        return found
    return Source(code.co_filename, code.co_firstlineno, code.co_name)
