"""Compiling a program, and writing it another way where IREE rejects the first."""
from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any

from calque.lowering.compiler.compile import CompileError
from calque.lowering.driver.cache import compile_cached, expect
from calque.lowering.driver.module import Lowered
from calque.lowering.emit.fusion import BINDINGS, CUDA_BINDINGS
from calque.lowering.target.targets import Target


def compile_lowered(write: Callable[..., Lowered], target: Target,
                    options: Callable[[Lowered], tuple[str, ...]], reason: str, name: str = ""
                    ) -> tuple[Lowered, bytes | None]:
    """A program as `write` writes it and its .vmfb (None: it computes nothing); CompileError with
    the user's line.

    `write` takes views=True, for loops that carry buffer views (rules/views), which is tried where
    IREE rejects the program (it can fail on any loop from the host), apart=True, for a dispatch for
    each operation, transients=False, for memory that the program asks the queue for, beside=False
    and bindings= (`_fitting`), and locations=.
    """
    expect(target)
    lowered = write()
    if lowered.module is None:
        return lowered, None
    try:
        return _fitting(write, lowered, target, options, reason, name)
    except CompileError as error:  # the last of these attempts has the error to report
        hoisted = "util.initializer" in str(error)
    if hoisted:  # what is constant and was moved into the start is nothing that can be moved there
        with contextlib.suppress(CompileError):
            return _fitting(write, lowered, target, lambda made: _where_used(options(made)),
                            f"{reason}, constants where they are used", name)
    if lowered.call.transients:
        return compile_lowered(functools.partial(write, transients=False), target, options, reason,
                               name)
    other = write(views=True)
    if other.module is not None and other.module != lowered.module:
        try:
            return _fitting(functools.partial(write, views=True), other, target, options, reason,
                            name)
        except CompileError:
            pass
    apart = write(apart=True)
    if apart.module is not None and apart.module != lowered.module:
        try:
            return _fitting(functools.partial(write, apart=True), apart, target, options,
                            f"{reason}, operations apart", name)
        except CompileError:
            pass
    located = write(locations=True)
    assert located.module is not None
    return located, compile_cached(located.module, target, options(located), name=name)


def _where_used(options: tuple[str, ...]) -> tuple[str, ...]:
    """With what is constant computed where it is used."""
    return tuple(dict.fromkeys((*options, "--iree-opt-const-expr-hoisting=false")))


def _fitting(write: Callable[..., Lowered], lowered: Lowered, target: Target,
             options: Callable[[Lowered], tuple[str, ...]], reason: str, name: str
             ) -> tuple[Lowered, bytes]:
    """A program and its .vmfb, written again while IREE makes a dispatch of it that takes more
    arrays than the target's loader allows: with what is constant computed where it is used, as IREE
    makes one dispatch of all that it moves into the start; without the cuts between numbers that
    are computed side by side, which fits where branches end in many, then with ever more of them;
    the one that takes fewest, if none fits (tests/lowering/test_many_arrays.py)."""
    assert lowered.module is not None
    vmfb = compile_cached(lowered.module, target, options(lowered), reason=reason, name=name)
    most = CUDA_BINDINGS if target.platform == "cuda" else BINDINGS
    ways: list[dict[str, Any]] = [{}, {"beside": False},
                                  *[{"bindings": most >> k} for k in (1, 2, 3)]]
    fewest = most_bindings(vmfb)
    modules: set[bytes] = set()
    for how in ways:
        if fewest <= most:
            break
        other = write(**how)
        assert other.module is not None
        if other.module not in modules:
            modules.add(other.module)
            made = compile_cached(other.module, target, _where_used(options(other)),
                                  reason=f"{reason}, of smaller dispatches", name=name)
            if most_bindings(made) < fewest:
                lowered, vmfb, fewest = other, made, most_bindings(made)
    return lowered, vmfb


# A call of hal.command_buffer.dispatch in the code of IREE's VM: how many values each of its 9
# parameters gets, the last two of which take any number (constants, bindings).
_DISPATCH = re.compile(rb"\x09\x00(?:\xff\xff){7}..(..)", re.DOTALL)


def most_bindings(vmfb: bytes) -> int:
    """Bindings of the dispatch of a program that has most."""
    return max((int.from_bytes(m[1], "little") for m in _DISPATCH.finditer(vmfb)), default=0)
