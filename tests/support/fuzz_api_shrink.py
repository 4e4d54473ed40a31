"""The least part of a drawn program whose compiled form differs (see fuzz_api.py).

A line alone, in the mode or without, is tried first; then lines are turned into arguments (with the
values that the interpreter gives) as long as the rest still fails.  Start reading at `shrunk`.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import calque
from calque.core.program import eliminate_dead_code
from support import fuzz_api_run as run
from support.fuzz_api_check import literal, one_line
from support.fuzz_api_draw import Drawn, Line, draw
from support.fuzz_api_modes import Mode
from support.harness import Failure, outputs
from support.oracle import interpret

TRIES = 24  # compiles


def wrong(p: Drawn) -> str:
    """What is wrong with a program compiled by itself, '' when nothing."""
    try:
        program, args = run.in_mode(p)
        program = eliminate_dead_code(program)
        if not program.outputs:
            return ""
        wants = interpret(run.cleaned(program), args)
    except Exception:  # this part cannot be made: it is no smaller failure
        return ""
    out = outputs([run.case(p, program, args, wants)])[0]
    return str(out) if isinstance(out, Failure) else run.case(p, program, args, wants).check(out)


def part(p: Drawn, lines: list[Line], outs: list[str], mode: Mode | None = None) -> Drawn:
    """Some lines as a program; what they read and do not make is an argument."""
    made = {v.name for line in lines for v in line.results}
    args = {v.name: v for line in lines for v in line.operands if v.name not in made}
    old = {v.name: k for k, v in enumerate(p.args)}
    mode = mode or p.mode
    assert mode is not None
    names = list(args)
    axes = tuple(mode.axes[old[n]] if n in old and mode.axes else 0 for n in names)
    floats = tuple(k for k, n in enumerate(names) if args[n].kind == "f")
    if names and all(a is None for a in axes):
        axes = (0, *axes[1:])
    if not names or (mode.argnums and not floats):
        mode = Mode("jit")
    return dataclasses.replace(p, lines=lines, args=list(args.values()), outs=outs,
                               mode=Mode(mode.name, axes, floats))


def _kept(p: Drawn, outs: list[str]) -> list[Line]:
    """The lines that lead to some results."""
    need, kept = set(outs), []
    for line in reversed(p.lines):
        if need & {v.name for v in line.results}:
            kept.append(line)
            need |= {v.name for v in line.operands}
    return kept[::-1]


def _candidates(p: Drawn) -> Iterator[Drawn]:
    """Smaller programs, the smallest first."""
    lines = _kept(p, p.outs)
    for line in lines:
        if line.name:
            outs = [v.name for v in line.results]
            for mode in dict.fromkeys((p.mode.name, "jit", "constants")):  # type: ignore[union-attr]
                yield part(p, [line], outs, dataclasses.replace(p.mode, name=mode))
    for out in p.outs if len(p.outs) > 1 else []:
        yield part(p, _kept(p, [out]), [out])


def shrunk(p: Drawn) -> tuple[Drawn, str]:
    """The least program found that fails, and how."""
    tries = 0
    for smaller in _candidates(p):
        tries += 1
        said = wrong(smaller) if tries < TRIES else ""
        if said:
            p = smaller
            break
    else:
        said = wrong(p)
    again = True
    while again and tries < TRIES and len(p.lines) > 1:
        again = False
        for k in range(len(p.lines) - 1):
            smaller = part(p, [*p.lines[:k], *p.lines[k + 1:]], p.outs)
            smaller.lines = _kept(smaller, smaller.outs)
            smaller = part(smaller, smaller.lines, p.outs)
            tries += 1
            one = wrong(smaller) if tries < TRIES else ""
            if one:
                p, said, again = smaller, one, True
                break
    return p, said


def told(p: Drawn) -> str:
    """A program as text that runs: one line where it has one."""
    if len(p.lines) == 1 and p.mode is not None and p.mode.name == "jit":
        line = p.lines[0]
        return f"jit: {one_line(line.text, line.operands)}"
    values = [f"{v.name} = {literal(v.x, v.weak)}" for v in p.args]
    return "\n".join([str(p.mode), *values, p.source()])


def explain(seed: int) -> str:
    """A program, and the least of it that fails."""
    p = draw(seed)
    with calque.enable_x64(p.x64):
        least, said = shrunk(p)
        text = f"{p.mode}\n{p.source()}\n\n"
        return text + (f"{told(least)}\n{said}" if said else "compiled alone, it is right")
