"""Kernels of the user's own, as plain records: what calque.ffi registers and Programs carry.

Imports core.errors.  Start reading at `Kernel`; lowering/kernels/user.py compiles one.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calque.core.errors import explain

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function in C that a compiled program calls.

    It is `void entry(const T *argument, ..., T *result, ..., scalars ...)`, arrays dense and
    row-major; with a grid `int64_t group, int64_t groups` follow, and it is called once for each
    group, on all cores.  No libc is there (`__builtin_sqrtf` and the like that become instructions
    are); it must not write arguments, or outside of its arrays.

    Args:
      source: C source text (gnu11).
      entry: the function's name.
      scalars: scalars(inputs, outputs, **attributes) -> sequence of int, bool (int64_t in C) and
        float (double); inputs and outputs have shape and dtype.  None: no scalars.
      grid: grid(inputs, outputs, **attributes) -> number of groups.  None: one call.
      work: work(inputs, outputs, **attributes) -> sequence of (shape, dtype): memory that the
        kernel may use, passed behind the results; not set to anything.

    Raises:
      TypeError: source or entry is no text, or another one is no function.
      ValueError: entry is no name in C.

    Example:
      >>> from calque import ffi
      >>> ffi.Kernel("void copy(const float *x, float *y) { *y = *x; }", "copy").entry
      'copy'
    """

    source: str
    entry: str
    scalars: Callable[..., Sequence[Any]] | None = None
    grid: Callable[..., int] | None = None
    work: Callable[..., Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or not isinstance(self.entry, str):
            raise TypeError(explain("ffi.Kernel: source and entry must be text.",
                                    fix="pass the C source and the name of a function in it."))
        if not _IDENTIFIER.match(self.entry):
            raise ValueError(explain(f"ffi.Kernel: entry {self.entry!r} is no name in C.",
                                     fix="pass the name of a function of the source."))
        for name in ("scalars", "grid", "work"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(explain(
                    f"ffi.Kernel: {name} must be a function, got {getattr(self, name)!r}.",
                    fix=f"pass {name}=lambda inputs, outputs, **attributes: ..."))


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of one name as they were when a call was traced, and its form elsewhere."""

    name: str
    of: tuple[tuple[str, Kernel], ...] = ()
    plain: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return self.name

    def get(self, platform: str) -> Kernel | None:
        return dict(self.of).get(platform)

    def having(self, platform: str, fn: Any) -> Kernels:
        """These with one more, or with another in its place; 'default': the form elsewhere."""
        if platform == "default":
            return replace(self, plain=fn)
        return replace(self, of=(*[p for p in self.of if p[0] != platform], (platform, fn)))
