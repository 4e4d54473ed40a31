"""Derivatives of every differentiable primitive, in f64 and c128.

J u against central differences of the oracle; <v, J u> = <J^T v, u> (bilinear, the transpose is
not conjugated; real parts are compared, since complex and real spaces mix); the derivative of the
gradient against central differences of the gradient; linear primitives transposed alone.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import Case, drawn, expected, function, outputs, run
from support.samples import BINARY, C128, F64, FUNCTIONS, ROWS, UNARY, Row, Sample

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
# These take seconds each to compile: every third shape in the default suite, and real.
FACTORS = ("qr", "svd", "lu", "eig", "eigh", "pinv", "tridiagonal_solve", "triangular_solve")
SPECIAL = ("polygamma", "zeta", "igamma", "igammac", "igamma_grad_a", "random_gamma_grad",
           "regularized_incomplete_beta")
# and of these every fourth
LONG = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "reduce_window_sum",
        "reduce_window_max", "reduce_window_min", "select_and_gather_add", "scatter-mul",
        "select_and_scatter_add", "scatter-min", "scatter-max", "conv_general_dilated", "fft",
        "gather", "sort", "scan")
SLOW = [g for g in GRID if g[2] == C128 and g[0].name in (*FUNCTIONS, *FACTORS, "cholesky")
        and g[0].name not in ("exp", "sin", "tanh")]
SLOW += [g for name in (*FACTORS, *SPECIAL, *LONG) for i, g in enumerate(
    [g for g in GRID if g[0].name == name and g[2] == F64]) if i % (4 if name in LONG else 3)]
SLOW += [g for g in GRID if not any(g is s for s in SLOW)  # what has no elements has no derivative
         and not any(x.size for x in g[0].arrays(g[1], g[2]) if x.dtype.kind in "fc")]
# and of all others a few, at least one of each primitive; of factorizations the first
LEFT = [[g for g in GRID if g[0] is r and not any(g is s for s in SLOW)]
        for r in ROWS_WITH_DERIVATIVES]
PARTS = [(left[:1], left[1:]) if left and left[0][0].name in FACTORS else
         drawn(left, 0.03, len(r.name)) for r, left in zip(ROWS_WITH_DERIVATIVES, LEFT)]
GRID = [g for first, _ in PARTS for g in first]
SLOW += [g for _, rest in PARTS for g in rest]


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


@pytest.mark.parametrize("start", range(0, len(GRID), 28))
def test_jvp_and_vjp(start: int) -> None:
    grid = GRID[start:start + 28]
    run([derivative_case(Setting(*g)) for g in grid], 28)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(SLOW), 40))
def test_complex_functions_and_more_shapes(start: int) -> None:
    run([derivative_case(Setting(*g)) for g in SLOW[start:start + 40]])


SECOND = [(r, r.samples[0], F64) for r in ROWS_WITH_DERIVATIVES if F64 in r.dtypes]
SECOND_FACTORS = [g for g in SECOND if g[0].name in FACTORS]
SECOND, SECOND_MORE = drawn([g for g in SECOND if g[0].name not in FACTORS], 0.05)


@pytest.mark.parametrize("part", [
    *[SECOND[i:i + 40] for i in range(0, len(SECOND), 40)],
    *[pytest.param(g, marks=pytest.mark.slow) for g in (SECOND_MORE, SECOND_FACTORS)]],
    ids=lambda part: part[0][0].name)
def test_second_order(part: list[Any]) -> None:
    """d/du of the gradient of <v, f>, against central differences of that gradient."""
    settings = [Setting(*g) for g in part]

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
        return outputs([Case(s.name, f, (moved(s.x, s.u, step), s.u), lambda outs: "")
                        for s, f in zip(settings, functions)])

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


@pytest.mark.parametrize("dtypes, part", [
    ((F64,), 0), pytest.param((F64,), 1, marks=pytest.mark.slow),
    pytest.param((C128,), 0, marks=pytest.mark.slow)], ids=["f64", "f64, more", "c128"])
def test_linear_transpose(dtypes: tuple[Any, ...], part: int) -> None:
    """Every linear primitive transposed with respect to each of its linear operands."""
    cases = []
    for row in ROWS.values():
        shapes = [s for s in row.samples if s is row.samples[0] or s not in ELEMENTWISE]
        for place in row.linear:
            for sample in shapes[::8] if not part else [  # every eighth shape by default
                    s for i, s in enumerate(shapes) if i % 8]:
                for dtype in [d for d in dtypes if d in row.dtypes]:
                    if place < len(sample.operands) and (dtype == F64 or sample is row.samples[0]):
                        setting = Setting(row, sample, dtype)
                        if setting.kept:
                            cases.append(_transpose_case(setting, place))
    run(cases, 80)


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
