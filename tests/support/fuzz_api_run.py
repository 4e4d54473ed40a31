"""Runs a group of drawn programs in this process and says what differs (see fuzz_api.py).

Every line is compared by itself: eagerly on its operands, and in JAX.  The whole program, in its
mode, is compiled (all programs of the group as one module), interpreted, and run in JAX.  What JAX
does runs beside the compile, in a child process.  Start reading at `findings`.
"""
from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import pickle
import struct
import subprocess
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import calque
from calque.core.avals import ShapedArray
from calque.core.dtypes import is_key
from calque.core.program import eliminate_dead_code
from calque.dispatch import shape_polymorphic
from calque.dispatch.array import Array, from_numpy
from calque.lowering.driver import attempts
from calque.transforms.stage import replay, stage
from support.fuzz_api_check import classes_of, differences, error_class, one_line
from support.fuzz_api_draw import ENV, Drawn, Line, cleaned, draw, function, timed
from support.fuzz_api_known import known
from support.fuzz_api_modes import CHUNK, arguments, transformed
from support.guard import Guarded
from support.harness import Case, Failure, outputs
from support.oracle import interpret

Finding = dict[str, Any]
PATIENCE = 40.0  # seconds for a few programs in JAX
LINES = os.environ.get("CALQUE_FUZZ") == "lines"  # set by --lines: nothing is compiled


class Compiles(BaseException):
    """An eager line wants the compiler."""


@contextlib.contextmanager
def no_compiler() -> Iterator[None]:
    """Eager lines that would compile a program of their shapes stop instead."""
    def refuse(*_: Any, **__: Any) -> Any:
        raise Compiles
    before = attempts.compile_cached, shape_polymorphic.compile_cached
    attempts.compile_cached = shape_polymorphic.compile_cached = refuse
    try:
        yield
    finally:
        attempts.compile_cached, shape_polymorphic.compile_cached = before


class Jax:
    """The worker in the other environment; absent without CALQUE_FUZZ_JAX."""

    def __init__(self, script: str = "fuzz_api_jax.py") -> None:
        self.script, self.python = script, os.environ.get("CALQUE_FUZZ_JAX", "")
        self.process: Any = None
        self.asked: list[Any] = []

    def ask(self, request: list[Any]) -> None:
        """Send programs; `answer` has what came of them."""
        self.asked = request
        if not self.python:
            return
        if self.process is None:
            environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
            self.process = subprocess.Popen(
                [self.python, str(pathlib.Path(__file__).parent / self.script)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        blob = pickle.dumps(request, protocol=4)
        try:
            self.process.stdin.write(struct.pack("<Q", len(blob)) + blob)
            self.process.stdin.flush()
        except BrokenPipeError:  # it died before; answer() sees it
            pass

    def answer(self) -> list[Any]:
        """What JAX said of each program asked; None of those that it does not survive."""
        asked, made = self.asked, []
        if not self.python:
            return [None] * len(asked)
        while len(made) < len(asked):
            some = self._frame()
            if some is not None:
                made += some
                continue
            # it died or hung in these: each alone, then go on behind them
            for one in asked[len(made):len(made) + CHUNK]:
                self.ask([one])
                made += self._frame() or [None]
            self.ask(asked[len(made):])
        return made

    def _frame(self) -> list[Any] | None:
        """The answer to the next programs, at most CHUNK."""
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            head = self.process.stdout.read(8)
            data = self.process.stdout.read(struct.unpack("<Q", head)[0]) if len(head) == 8 else b""
        finally:
            timer.cancel()
        if data:
            return list(pickle.loads(data))
        self.process.kill()
        self.process.wait()
        self.process = None
        return None


def finding(p: Drawn, kind: str, text: str, detail: str) -> Finding:
    return {"seed": p.seed, "x64": p.x64, "kind": kind, "line": text, "detail": detail}


# ---- one program
def in_mode(p: Drawn, source: str | None = None) -> tuple[Any, list[Any]]:
    """The Program of a drawn program in its mode, and its arguments."""
    arrays = [v.x for v in p.args]
    f = transformed(calque, function(source or p.source(), ENV), p.mode, arrays)
    args = arguments(p.mode, arrays)
    made = stage(lambda *xs: _plain(ENV["leaves"](f(*xs))),
                 [ShapedArray(a.shape, a.dtype) for a in args], f"seed_{p.seed}")
    return made, args


def _plain(leaves: Sequence[Any]) -> list[Any]:
    return [x for x in leaves if not (isinstance(x, np.ndarray) and x.dtype.kind == "V"
                                      and x.dtype.name == "float0") and not is_key(
                                          getattr(x, "dtype", np.dtype("f4")))]


def eager_line(p: Drawn, line: Line, compiles: bool) -> Finding | None:
    """The line on concrete arrays, operation by operation."""
    xs = []
    for v in line.operands:
        made = from_numpy(np.array(v.x))
        xs.append(Array(made._buffer, v.aval) if v.weak else made)
    repro = one_line(line.text, line.operands)
    try:
        with contextlib.nullcontext() if compiles else no_compiler():
            scope = ENV | dict(zip([v.name for v in line.operands], xs))
            outs = ENV["leaves"](eval(line.text, scope))[:len(line.results)]
            gots = [np.asarray(o) for o in outs]
    except Compiles:
        return None
    except Exception as e:
        return finding(p, "eager-error", repro, f"{type(e).__name__}: {e}")
    for o, v in zip(outs, line.results):
        weak = bool(getattr(o, "weak_type", isinstance(o, (bool, int, float, complex))))
        if (np.shape(o), np.asarray(o).dtype) == (v.shape, v.dtype) and weak != v.weak:
            return finding(p, "eager-weak", repro, f"weak {weak} eagerly, {v.weak} staged")
    wrong = differences(gots, [v.x for v in line.results], cleaned(line.staged),
                        [v.x for v in line.operands])
    if wrong:
        return finding(p, "eager-value", repro, wrong)
    for x, v in zip(xs, line.operands):
        if np.asarray(x).tobytes() != v.x.tobytes():
            return finding(p, "eager-overwrites", repro, f"{v.name} changed")
    return None


def request(p: Drawn) -> dict[str, Any]:
    """What JAX is asked about a program."""
    return {
        "x64": p.x64, "mode": p.mode, "source": p.source() if p.outs else "",
        "args": [v.x for v in p.args],
        "lines": [(k.text, [v.name for v in k.operands], [v.x for v in k.operands],
                   [v.weak for v in k.operands], len(k.results)) for k in p.lines],
        "probes": [(text, [v.name for v in ops], [v.x for v in ops], [v.weak for v in ops])
                   for text, ops, _ in p.probes]}


def against_jax(p: Drawn, said: Any) -> Iterator[Finding]:
    """Lines and refused lines, each by itself."""
    for line, answer in zip(p.lines, said["lines"]):
        repro = one_line(line.text, line.operands)
        if answer[0] == "error":
            yield finding(p, "jax-refuses", repro, f"{answer[1][0]}: {answer[2]}")
            continue
        gots = [np.asarray(o) for o, _ in answer[1]]
        got = [f"{o.dtype}{list(o.shape)}{'w' * w}" for o, (_, w) in zip(gots, answer[1])]
        want = [f"{v.dtype}{list(v.shape)}{'w' * v.weak}" for v in line.results]
        if got != want:
            yield finding(p, "jax-aval", repro, f"JAX {got}, calque {want}")
            continue
        wrong = differences(gots, [v.x for v in line.results], cleaned(line.staged),
                            [v.x for v in line.operands], jax=True)
        if wrong:
            yield finding(p, "jax-value", repro, f"JAX against the interpreter: {wrong}")
    for (text, ops, e), answer in zip(p.probes, said["probes"]):
        if answer[0] == "fine":
            yield finding(p, "jax-accepts", one_line(text, ops),
                          f"calque: {type(e).__name__}: {e}; JAX: {answer[1]}")
        elif error_class(classes_of(e)) != error_class(answer[1]):
            yield finding(p, "error-class", one_line(text, ops),
                          f"calque: {type(e).__name__}: {e}; JAX: {answer[1][0]}: {answer[2]}")


def mode_against_jax(p: Drawn, program: Any, args: Any, wants: Any, failed: Any, said: Any
                     ) -> Finding | None:
    text = f"{p.mode}\n{p.source()}"
    if not said["mode"]:
        return None
    answer = said["mode"][0]
    if failed is not None or answer[0] == "error":
        ours = "" if failed is None else error_class(classes_of(failed))
        theirs = error_class(answer[1]) if answer[0] == "error" else ""
        if ours == theirs:
            return None
        told = f"{answer[1][0]}: {answer[2]}" if theirs else "fine"
        return finding(p, "mode-error", text,
                       f"calque: {type(failed).__name__}: {failed}; JAX: {told}")
    gots = [np.asarray(o) for o, _ in answer[1] if np.asarray(o).dtype.name != "void"]
    got = [f"{o.dtype}{list(o.shape)}" for o in gots]
    want = [f"{o.dtype}{list(o.shape)}" for o in wants]
    if got != want:
        return finding(p, "mode-aval", text, f"JAX {got}, calque {want}")
    wrong = differences(gots, wants, cleaned(program), args, jax=True)
    if not wrong:
        return None
    return finding(p, "mode-value", text, f"JAX against the interpreter: {wrong}")


# ---- a group
def findings(seeds: Sequence[int], jax: Jax, compile_only: bool = False) -> list[Finding]:
    """What differs in the programs of these seeds."""
    warnings.simplefilter("ignore")
    found: list[Finding] = []
    programs = [draw(s) for s in seeds]
    jax.ask([request(p) for p in programs])
    cases, staged = [], []
    with calque.enable_x64(programs[0].x64):
        for p in programs:
            for line in p.lines:
                one = eager_line(p, line, compiles=p.seed % 40 == 0)
                if one is not None:
                    found.append(one)
            failed = wants = program = None
            args: list[Any] = []
            try:
                program, args = in_mode(p)
                program = eliminate_dead_code(program)
            except Exception as e:
                failed = e
            try:
                if failed is None:
                    wants = timed(6.0, functools.partial(interpret, cleaned(program), args))
            except Exception as e:  # the oracle has no such form, or none in time
                print(f"seed {p.seed}: no oracle: {type(e).__name__} {e}", flush=True)
                continue
            staged.append((p, program, args, wants, failed))
            if failed is None and program.outputs:
                cases.append((p, case(p, program, args, wants)))
        if not LINES:
            found.extend(_compiled(cases))
    answers = dict(zip([p.seed for p in programs], jax.answer()))
    for p, program, args, wants, failed in staged:
        said = answers[p.seed]
        with calque.enable_x64(p.x64):
            if said is not None:
                found.extend(against_jax(p, said))
                one = mode_against_jax(p, program, args, wants, failed, said)
                refused = any(a[0] == "error" for a in said["lines"])  # then the whole is as well
                if one is not None and not (refused and one["kind"] == "mode-error"):
                    found.append(one)
            if failed is not None and said is None and error_class(classes_of(failed)) in (
                    "AssertionError", "AttributeError", "KeyError", "NameError"):  # faults of ours
                found.append(finding(p, "mode-error", f"{p.mode}\n{p.source()}",
                                     f"{type(failed).__name__}: {failed}"))
    for one in found:
        one["known"] = known(one)
        if one["kind"] in ("compile", "compiled-value") and not one["known"]:
            from support import fuzz_api_shrink  # (it imports this module)
            p = next(p for p in programs if p.seed == one["seed"])
            with calque.enable_x64(p.x64):
                least, said = fuzz_api_shrink.shrunk(p)
            one["least"] = f"{fuzz_api_shrink.told(least)}\n{said}"
    return found


def case(p: Drawn, program: Any, args: Any, wants: Any) -> Case:
    def check(outs: Sequence[Any]) -> str:
        return differences(outs, wants, cleaned(program), args)
    return Case(f"seed {p.seed}", lambda *xs: replay(program, *xs), args, check)


def _compiled(cases: Sequence[tuple[Drawn, Case]]) -> Iterator[Finding]:
    """All programs as one module, on arguments between pages that must not be touched."""
    if not cases:
        return
    guards: list[Guarded] = []

    def put(x: Any) -> Any:
        guards.append(Guarded(x, at_end=len(guards) % 2 == 0))
        return from_numpy(guards[-1].array, alias=True)

    for (p, c), out in zip(cases, outputs([c for _, c in cases], put)):
        text = str(out) if isinstance(out, Failure) else c.check(out)
        if text:
            kind = "compile" if isinstance(out, Failure) else "compiled-value"
            yield finding(p, kind, f"{p.mode}\n{p.source()}", text)
    if any(g.changed() for g in guards):
        yield finding(cases[0][0], "overwrites", "", "bytes of or beside an argument changed, in "
                      f"one of seeds {[p.seed for p, _ in cases]}")
