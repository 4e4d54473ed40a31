"""Derivatives of every differentiable primitive, in f64 and c128.

J u against central differences of the oracle; <v, J u> = <J^T v, u> (bilinear, the transpose is
not conjugated; real parts are compared, since complex and real spaces mix); the derivative of the
gradient against central differences of the gradient; linear primitives transposed alone.  All
by NumPy from what was traced, a few compiled; in the slow suite all compiled.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import Case, expected, function, outputs, run, run_traced, traced
from support.samples import BINARY, C128, F64, ROWS, UNARY, Row, Sample

import calque
from calque.core.primitive import registry

pytestmark = pytest.mark.usefixtures("x64")

STEP = 1e-5  # central differences: error of order STEP^2, rounding 1e-16 / STEP
CLOSE = 2e-8
ROWS_WITH_DERIVATIVES = [r for n, r in ROWS.items() if registry[n].differentiable
                         and n != "bitcast_convert_type"
                         and n != "while"]  # forward only: tests/api/test_loops.py
ELEMENTWISE = (*UNARY, *BINARY)  # their shapes differ in nothing that derivatives see
GRID = [(r, s, d) for r in ROWS_WITH_DERIVATIVES for d in (F64, C128) if d in r.dtypes
        for s in (r.samples if d == F64 else r.samples[:1])
        if not (s in ELEMENTWISE and s.label in ("one", "scalar", "empty, scalar"))
        and not (r.name in ("reduce_max", "reduce_min") and s.label == "empty")]  # infinite
# These take seconds each to compile: compiled in the slow suite only.
FACTORS = ("qr", "svd", "lu", "eig", "eigh", "pinv", "tridiagonal_solve", "triangular_solve")
SPECIAL = ("polygamma", "zeta", "igamma", "igammac", "igamma_grad_a", "random_gamma_grad",
           "regularized_incomplete_beta")
# and of the others the first sample of each fifth primitive is compiled by default
COMPILED = [(r, r.samples[0], F64) for r in ROWS_WITH_DERIVATIVES
            if F64 in r.dtypes and r.name not in (*FACTORS, *SPECIAL)][::5]


class Setting:
    """A sample's function of its inexact operands, with a direction u and a covector v."""

    def __init__(self, row: Row, sample: Sample, dtype: Any) -> None:
        self.row, self.params = row, sample.parameters(dtype)
        self.name = f"{row.name} [{sample.label}] {dtype}"
        self.arrays = row.arrays(sample, dtype)
        self.places = [i for i, x in enumerate(self.arrays)
                       if x.dtype.kind in "fc" and i not in row.fixed]
        self.prim = function(row, sample, self.params)
        rng = np.random.default_rng(7)
        self.x = [self.arrays[i] for i in self.places]
        self.u = [random_like(rng, x) for x in self.x]
        if row.hermitian:
            self.u = [(u + np.swapaxes(u.conj(), -1, -2)) / 2 for u in self.u]
        self.wants = [o for o in expected(row, self.params, self.arrays)]
        self.kept = [i for i, o in enumerate(self.wants) if o.dtype.kind in "fc"]
        self.v = [random_like(rng, self.wants[i]) for i in self.kept]

    def f(self, *xs: Any) -> list[Any]:
        every = list(self.arrays)
        for i, x in zip(self.places, xs):
            every[i] = x
        outs = self.prim(*every)
        return [outs[i] for i in self.kept]

    def oracle(self, xs: list[Any]) -> list[Any]:
        every = list(self.arrays)
        for i, x in zip(self.places, xs):
            every[i] = x
        outs = expected(self.row, self.params, every)
        return [outs[i] for i in self.kept]


def random_like(rng: Any, x: Any) -> Any:
    r = rng.standard_normal(x.shape)
    return np.asarray(r + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else r,
                      x.dtype)


def moved(xs: list[Any], us: list[Any], step: float) -> list[Any]:
    return [np.asarray(x + step * u) for x, u in zip(xs, us)]


def slope(f: Callable[[list[Any]], list[Any]], xs: list[Any], us: list[Any]) -> list[Any]:
    """The central difference of f along u."""
    up, down = f(moved(xs, us, STEP)), f(moved(xs, us, -STEP))
    return [(a - b) / (2 * STEP) for a, b in zip(up, down)]


def far(got: list[Any], want: list[Any], close: float = CLOSE) -> str:
    for g, w in zip(got, want):
        if g.shape != w.shape:
            return f"shape {g.shape} instead of {w.shape}"
        bound = close * max(1.0, np.abs(w).max(initial=0))
        if not np.all(np.abs(g - w) <= bound):
            at = np.unravel_index(np.nanargmax(np.abs(g - w)), w.shape)
            return f"{g[at]!r} instead of {w[at]!r} at {tuple(int(i) for i in at)}"
    return ""


def inner(a: list[Any], b: list[Any]) -> float:
    return float(sum(np.real(np.sum(x * y)) for x, y in zip(a, b)))


def derivative_case(s: Setting) -> Case:
    """(J u, J^T v) in one function."""
    n = len(s.kept)

    def f(xs: Any, us: Any, vs: Any) -> list[Any]:
        _, tangents = calque.jvp(s.f, tuple(xs), tuple(us))
        _, back = calque.vjp(s.f, *xs)
        return [*tangents, *back(list(vs))]

    def check(outs: list[Any]) -> str:
        tangents, cotangents = outs[:n], outs[n:]
        # results narrower than f64 (conversions) have differences of fewer digits
        narrow = any(t.dtype in (np.float32, np.complex64) for t in tangents)
        wrong = far(tangents, slope(s.oracle, s.x, s.u), 2e-2 if narrow else CLOSE)
        if wrong:
            return f"jvp {wrong} by central differences"
        forward, backward = inner(s.v, tangents), inner(cotangents, s.u)
        if not abs(forward - backward) <= (1e-5 if narrow else 1e-10) * (1 + abs(forward)):
            return f"<v, J u> = {forward!r} but <J^T v, u> = {backward!r}"
        return ""

    return Case(s.name, f, (s.x, s.u, s.v), check)


@pytest.mark.parametrize("start", range(0, len(GRID), 120))
def test_jvp_and_vjp(start: int) -> None:
    run_traced([derivative_case(Setting(*g)) for g in GRID[start:start + 120]])


def test_compiled_jvp_and_vjp() -> None:
    run([derivative_case(Setting(*g)) for g in COMPILED])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(GRID), 40))
def test_every_compiled_jvp_and_vjp(start: int) -> None:
    run([derivative_case(Setting(*g)) for g in GRID[start:start + 40]])


SECOND = [(r, r.samples[0], F64) for r in ROWS_WITH_DERIVATIVES if F64 in r.dtypes]


@pytest.mark.parametrize("results", [
    traced, pytest.param(outputs, marks=pytest.mark.slow)], ids=["traced", "compiled"])
def test_second_order(results: Callable[[list[Case]], list[Any]]) -> None:
    """d/du of the gradient of <v, f>, against central differences of that gradient."""
    settings = [Setting(*g) for g in SECOND]

    def with_slope(s: Setting) -> Callable[..., list[Any]]:
        def gradient(*xs: Any) -> list[Any]:
            _, back = calque.vjp(s.f, *xs)
            return list(back(s.v))

        def f(xs: Any, us: Any) -> list[Any]:
            g, h = calque.jvp(gradient, tuple(xs), tuple(us))
            return [*g, *h]
        return f

    functions = [with_slope(s) for s in settings]

    def at(step: float) -> list[Any]:
        cases = [Case(s.name, f, (moved(s.x, s.u, step), s.u), lambda outs: "")
                 for s, f in zip(settings, functions)]
        return [out for i in range(0, len(cases), 40) for out in results(cases[i:i + 40])]

    wrong = []
    for s, middle, up, down in zip(settings, at(0.0), at(STEP), at(-STEP)):
        if isinstance(middle, str):
            wrong.append(f"{s.name}: {middle}")
            continue
        n = len(s.x)
        want = [(a - b) / (2 * STEP) for a, b in zip(up[:n], down[:n])]
        text = far(middle[n:], want, 1e-7)
        if text:
            wrong.append(f"{s.name}: {text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("check", [
    run_traced, pytest.param(lambda cases: run(cases, 80), marks=pytest.mark.slow)],
    ids=["traced", "compiled"])
def test_linear_transpose(check: Callable[[list[Case]], None]) -> None:
    """Every linear primitive transposed with respect to each of its linear operands."""
    cases = []
    for row in ROWS.values():
        shapes = [s for s in row.samples if s is row.samples[0] or s not in ELEMENTWISE]
        for place in row.linear:
            for sample in shapes:
                for dtype in [d for d in (F64, C128) if d in row.dtypes]:
                    if place < len(sample.operands) and (dtype == F64 or sample is row.samples[0]):
                        setting = Setting(row, sample, dtype)
                        if setting.kept:
                            cases.append(_transpose_case(setting, place))
    check(cases)


def _transpose_case(s: Setting, place: int) -> Case:
    def f(xs: Any, v: Any) -> list[Any]:
        def linear(x: Any) -> Any:
            every = list(xs)
            every[place] = x
            return s.prim(*every)[0]

        return [*calque.linear_transpose(linear, xs[place])(v)]

    u = s.u[s.places.index(place)]

    def check(outs: list[Any]) -> str:
        every = list(s.arrays)
        every[place] = u
        zero = list(every)
        zero[place] = np.zeros_like(u)
        image = [expected(s.row, s.params, a)[0] for a in (every, zero)]
        forward, backward = inner(s.v, [image[0] - image[1]]), inner(outs, [u])
        if outs[0].dtype != u.dtype:
            return f"{outs[0].dtype} instead of {u.dtype}"
        narrow = s.v[0].dtype in (np.float32, np.complex64)
        if not abs(forward - backward) <= (1e-5 if narrow else 1e-10) * (1 + abs(forward)):
            return f"<v, A u> = {forward!r} but <A^T v, u> = {backward!r}"
        return ""

    return Case(f"{s.name}, operand {place}", f, (s.arrays, s.v[0]), check)
