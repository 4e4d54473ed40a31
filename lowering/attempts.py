"""Compiling a program, and writing it another way where IREE rejects the first."""
from __future__ import annotations

import functools
from collections.abc import Callable

from calque.lowering.cache import compile_cached
from calque.lowering.compile import CompileError
from calque.lowering.module import Lowered
from calque.lowering.targets import Target


def compile_lowered(write: Callable[..., Lowered], target: Target,
                    options: Callable[[Lowered], tuple[str, ...]], reason: str, name: str = ""
                    ) -> tuple[Lowered, bytes | None]:
    """A program as `write` writes it and its .vmfb (None: it computes nothing); CompileError with
    the user's line.

    `write` takes views=True, for loops that carry buffer views (rules/views), which is tried where
    IREE rejects the program (it can fail on any loop from the host), transients=False, for memory
    that the program asks the queue for, and locations=True.
    """
    lowered = write()
    if lowered.module is None:
        return lowered, None
    try:
        return lowered, compile_cached(lowered.module, target, options(lowered), reason=reason,
                                       name=name)
    except CompileError:
        pass  # the last of these attempts has the error to report
    if lowered.call.transients:
        return compile_lowered(functools.partial(write, transients=False), target, options, reason,
                               name)
    other = write(views=True)
    if other.module is not None and other.module != lowered.module:
        try:
            return other, compile_cached(other.module, target, options(other), reason=reason,
                                         name=name)
        except CompileError:
            pass
    located = write(locations=True)
    assert located.module is not None
    return located, compile_cached(located.module, target, options(located), name=name)
