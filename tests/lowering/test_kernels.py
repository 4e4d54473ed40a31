"""Loops as kernels of ours: every primitive they know in every dtype against its oracle, in
registers (each element its own loop; others in test_registers) and over memory; nests, carries that
swap, tails of vectors; and the same loops in their portable form.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support.harness import Case, check_loop, compare, drawn, expected, function, run
from support.samples import KEY, ROWS, Row, Sample

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.primitive import registry
from calque.lowering.emit.dtypes import HALVES
from calque.lowering.passes import cost, loops
from calque.lowering.passes.hoist import hoist
from calque.lowering.passes.legalize import legalize

pytestmark = pytest.mark.usefixtures("x64")

STEPS = 201  # a body of one equation is unrolled up to 200
# (iota has no operands; keys are tested in test_legalize)
KNOWN = [n for n in ROWS if registry[n].kernel and n != "iota" and not n.startswith("random_")]


def scans(f: Any, *args: Any) -> list[Any]:
    return [e for e in legalize(hoist(calque.make_jaxpr(f)(*args).jaxpr)).equations
            if e.primitive.kernel == "loop"]


def in_scan(row: Row, sample: Sample, dtype: Any, memory: bool) -> Case | None:
    """The primitive as the body of a scan, which repeats its operands STEPS times."""
    params = sample.parameters(dtype)
    arrays = row.arrays(sample, dtype)
    if any(o.dtype == KEY for o in sample.operands) or not all(a.size for a in arrays) or any(
            np.dtype(a.dtype) not in loops.DTYPES for a in arrays):
        return None
    wants = expected(row, params, arrays)
    if any(w.dtype not in loops.DTYPES or not w.size for w in wants):
        return None
    prim = function(row, sample, params)

    def f(*stacked: Any) -> list[Any]:
        def body(carry: Any, xs: Any) -> Any:
            return (carry + 1 if memory else carry), prim(*xs)
        start = jnp.zeros(5) if memory else ()
        count, ys = lax.scan(body, start, list(stacked))
        last = [y[STEPS - 1] for y in ys]
        return [*[y[0] for y in ys], *last, *([count] if memory else [])]

    stacked = [np.repeat(a[None], STEPS, 0) for a in arrays]
    (loop,) = scans(f, *stacked)
    if not cost.is_kernel(loop):
        return None
    if (loops.lanes(loop) is None) != memory and registry[row.name].kernel == "map":
        return None
    check = compare(wants, row)

    def both(outs: list[Any]) -> str:
        n = len(wants)
        text = check(outs[:n]) or check(outs[n:2 * n])
        if memory and not text and not np.all(outs[-1] == STEPS):
            text = f"the other carry is {outs[-1]}"
        return text

    return Case(f"{row.name} [{sample.label}] {dtype}", f, stacked, both)


def grid_of(name: str, narrow: bool = False, few: bool = False) -> list[tuple[Sample, Any]]:
    """narrow: float16 and bfloat16 instead of the other dtypes; few: the main one only."""
    row = ROWS[name]
    return [(s, d) for s in (*row.samples, *row.specials) for d in row.dtypes
            if (any(s is t for t in (row.samples[0], *row.specials)) or d == row.main)
            and (d in HALVES) == narrow and (d == row.main or not few)]


def each_case(name: str, memory: bool, narrow: bool = False) -> Iterator[Case]:
    yield from filter(None, (in_scan(ROWS[name], s, d, memory) for s, d in grid_of(name, narrow)))


def cases(name: str, memory: bool, narrow: bool = False) -> list[Case]:
    return list(each_case(name, memory, narrow))


ELEMENTWISE = [n for n in KNOWN if registry[n].kernel == "map"]


OVER_MEMORY = drawn(ELEMENTWISE, 0.2)[0]  # by default: all of them run in registers


def parts(names: Sequence[str], memory: bool) -> tuple[list[Case], Iterator[Case]]:
    """What is run by default, a case each, and the rest.  Over memory, elementwise ones in their
    main dtype, and only some of them by default."""
    first, left = [], []
    for n in names:
        grid = grid_of(n, few=memory and n in ELEMENTWISE)
        wanted = n not in ELEMENTWISE or not memory or n in OVER_MEMORY
        for i in np.random.default_rng(len(n)).permutation(len(grid)).tolist():
            made = in_scan(ROWS[n], *grid[i], memory) if wanted else None
            if made is not None:
                wanted = False
                first.append(made)
            else:
                left.append((ROWS[n], *grid[i], memory))
    return first, filter(None, (in_scan(*args) for args in left))


@pytest.mark.parametrize("start", range(0, len(KNOWN), 30))
def test_primitives_over_memory(start: int, loops_over_memory: None) -> None:
    run(parts(KNOWN[start:start + 30], True)[0])


@pytest.mark.parametrize("start", range(0, len(ELEMENTWISE), 32))
def test_primitives_in_registers(start: int) -> None:
    run(parts(ELEMENTWISE[start:start + 32], False)[0])


@pytest.mark.slow
@pytest.mark.parametrize("memory", [True, False], ids=["memory", "registers"])
@pytest.mark.parametrize("start", range(0, len(KNOWN), 8))
def test_more_over_memory_and_in_registers(start: int, memory: bool, loops_over_memory: None
                                           ) -> None:
    names = [n for n in KNOWN[start:start + 8] if memory or n in ELEMENTWISE]
    found = list(parts(names, memory)[1])
    if found:
        run(found)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(ELEMENTWISE), 8))
def test_every_dtype_over_memory(start: int, loops_over_memory: None) -> None:
    run([c for n in ELEMENTWISE[start:start + 8] for c in cases(n, True)])


@pytest.mark.parametrize("names", [
    ["add", "max", "exp", "dot_general"],
    *[pytest.param(KNOWN[i:i + 12], marks=pytest.mark.slow) for i in range(0, len(KNOWN), 12)]],
    ids=lambda names: names[0])
@pytest.mark.parametrize("memory", [True, False])
def test_narrow_floats(names: list[str], memory: bool, loops_over_memory: None) -> None:
    found = [c for n in names for c in cases(n, memory, narrow=True)]
    if names[:2] == ["add", "max"]:  # (the others: all of them)
        found = drawn(found, 0.4)[0]
    if found:
        run(found)


def test_most_of_what_is_known_was_tested() -> None:
    tested = {n for n in KNOWN if any(each_case(n, True))}
    assert set(KNOWN) - tested <= {"scan", "while"}, set(KNOWN) - tested


# ---- whole loops
def rnn(w: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x)
        return h, h
    return lax.scan(step, h, xs)


def swapping(a: Any, b: Any) -> Any:
    """Carries that are each other, and a part of another."""
    def step(c: Any, _: Any) -> Any:
        x, y, z = c
        return (y, x + 1, jnp.concatenate([z[1:], z[:1]])), z[0]
    return lax.scan(step, (a, b, jnp.arange(7.0)), None, length=150)


def written_at(x: Any, n: Any) -> Any:
    def step(c: Any) -> Any:
        i, x = c
        return i + 1, lax.dynamic_update_slice(x, (x[i % 3] + i)[None], (i * 2,))
    return lax.while_loop(lambda c: c[0] < n, step, (0, x))


def nested(x: Any) -> Any:
    def inner(c: Any, i: Any) -> Any:
        return c * 0.9 + x[i % 4], c.sum()

    def outer(c: Any, k: Any) -> Any:
        c, s = lax.scan(inner, c, jnp.arange(9))
        c = lax.cond(s[-1] > k, lambda c: c * 0.5, lambda c: c + 1, c)
        return lax.while_loop(lambda v: jnp.max(jnp.abs(v)) > 1, lambda v: v / 2, c), s
    return lax.scan(outer, x[0], jnp.arange(40, dtype=x.dtype))


def reductions(x: Any) -> Any:
    def step(c: Any, i: Any) -> Any:
        m = c / (1 + jnp.abs(c)) + i
        return m, (m.sum(0), m.sum(1), m.max(), m.min(1), m.T.prod(0), m[::-1, ::2], m @ m.T)
    return lax.scan(step, x, jnp.arange(60, dtype=x.dtype))


def ode(y: Any) -> Any:
    """vmapped: one loop per element in registers."""
    def one(y: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            y, k = c
            y = y + 0.01 * (jnp.sin(t) - y * y)
            return (y, k + 1), y
        return lax.scan(step, (y, 0), jnp.arange(250.0))
    return calque.vmap(one)(y)


F = np.float32
RNG = np.random.default_rng(5)
WHOLE = {
    "rnn": (rnn, [RNG.standard_normal((19, 19)).astype(F) * 0.2, np.zeros((3, 19), F),
                  RNG.standard_normal((300, 3, 19)).astype(F)]),
    "rnn of a vector": (rnn, [RNG.standard_normal((5, 5)) * 0.2, np.zeros(5),
                              RNG.standard_normal((300, 5))]),
    "swapping": (swapping, [np.arange(3.0), np.ones(3)]),
    "written at": (written_at, [np.arange(9.0), np.int32(12)]),
    "nested": (nested, [RNG.standard_normal((4, 37)).astype(F)]),
    "reductions": (reductions, [RNG.standard_normal((5, 21)).astype(F)]),
    "reductions of one row": (reductions, [RNG.standard_normal((1, 3))]),
    **{f"ode of {n}": (ode, [np.linspace(0.1, 1, n)]) for n in (1, 2, 31, 33, 1000)},
    "reverse": (lambda x: lax.scan(lambda c, v: (c * 0.5 + v, (c, v > c)), 0.0, x, reverse=True),
                [RNG.standard_normal(500)]),
    "no carry": (lambda x: lax.scan(lambda c, v: (c, v * 2),
                                    (), x)[1], [RNG.standard_normal((300, 3))]),
    "unsigned": (lambda x: lax.fori_loop(0, 300, lambda i, v: (v * np.uint32(1664525) + 1013904223)
                                         ^ (v >> np.uint32(3)), x), [np.arange(5, dtype="u4")]),
    "integers divided": (lambda x: lax.fori_loop(
        0, 300, lambda i, v: v // (i % 3 - 1) + (v % (i % 2)) + (1 << v), x),
        [np.array([5, -7, 2**31 - 1, -2**31], "i4")]),
}


# (each of these is beside another of its kind)
SLOW = ("rnn of a vector", "reductions of one row", "ode of 1", "ode of 2", "ode of 31",
        "ode of 1000", "no carry")


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in WHOLE])
def test_whole_loops(name: str, loops_over_memory: None) -> None:
    f, args = WHOLE[name]
    text = calque.jit(f).lower(*args)._text(whole=True)
    assert "stream.executable" in text and "stablehlo.while" not in text
    check_loop(f, args, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_whole_loops_in_the_portable_form(name: str, host_loops: None) -> None:
    text = calque.jit(WHOLE[name][0]).lower(*WHOLE[name][1])._text(whole=True)
    loop = "scf.while" if name == "nested" else "stablehlo.while"  # (rules/views)
    assert loop in text and "stream.executable" not in text
    check_loop(*WHOLE[name], name)


@pytest.mark.parametrize("name", [
    "rnn", *[pytest.param(name, marks=pytest.mark.slow) for name in ("nested", "ode of 33")]])
def test_derivatives(name: str) -> None:
    """Reverse mode of a kernel is a kernel; central differences are the oracle."""
    f, args = WHOLE[name]
    args = [np.asarray(a, np.float64) for a in args]

    def total(*xs: Any) -> Any:
        return sum(jnp.sum(jnp.sin(y)) for y in calque.tree_util.tree_leaves(f(*xs))
                   if y.dtype == np.float64)

    u = [np.cos(np.arange(a.size)).reshape(a.shape) for a in args]

    @calque.jit
    def both(*xs: Any) -> Any:
        """The value and its slope along u, in one program."""
        if name == "nested":  # its while has no reverse mode
            return calque.jvp(total, xs, tuple(u))
        value, grads = calque.value_and_grad(total, tuple(range(len(xs))))(*xs)
        return value, sum(jnp.sum(g * v) for g, v in zip(grads, u))

    slope = float(both(*args)[1])
    h = 1e-6
    up, down = [float(both(*[a + s * h * v for a, v in zip(args, u)])[0]) for s in (1, -1)]
    assert slope == pytest.approx((up - down) / (2 * h), rel=2e-6)  # h^2 and rounding / h


def test_invariants_leave_the_loop() -> None:
    def f(a: Any, b: Any, x: Any) -> Any:
        mixed = calque.jit(lambda c, v: c * 0.5 + jnp.sin(a) @ b + v)  # (calls are seen through)
        return lax.scan(lambda c, v: (mixed(c, v), None), x, jnp.arange(300.0))[0]
    a, b, x = np.ones((4, 3)), np.ones(3), np.zeros(4)
    from calque.lowering.passes.hoist import hoist
    p = hoist(calque.make_jaxpr(f)(a, b, x).jaxpr)
    names = [e.primitive.name for e in p.equations]
    assert names.index("sin") < names.index("dot_general") < names.index("scan")
    (loop,) = [e for e in p.equations if e.primitive.name == "scan"]
    assert "sin" not in [e.primitive.name for e in loop.params["jaxpr"].equations]
    got = calque.jit(f)(a, b, x)
    want = x
    for v in range(300):
        want = want * 0.5 + np.sin(a) @ b + v
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_invariants_that_read_spread_numbers_leave_the_loop() -> None:
    """Such as searchsorted, which begins with one; a spread number alone stays."""
    def f(a: Any, at: Any, x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            found = jnp.searchsorted(a, at) + jnp.arange(5)
            return c[found % 4] * jnp.full(4, 0.5)[found % 4] + v + jnp.full(5, 2.0).sum(), None
        return lax.scan(step, x, jnp.arange(300.0))[0]

    a, at, x = np.sort(np.sin(np.arange(4.0))), np.linspace(-1, 1, 5), np.cos(np.arange(5.0))
    (loop,) = scans(f, a, at, x)
    assert [e.name for e in loop.params["jaxpr"].equations].count("gather") == 1
    want, found = x, np.searchsorted(a, at) + np.arange(5)
    for v in range(300):
        want = want[found % 4] * 0.5 + v + 10
    np.testing.assert_allclose(calque.jit(f)(a, at, x), want, rtol=1e-12)


def test_large_steps_stay_on_the_host() -> None:
    """A step with work for several cores is IREE's."""
    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ c), None), x, None, length=300)[0]
    (loop,) = scans(f, np.ones((256, 256), F))
    assert not cost.is_kernel(loop)
    (loop,) = scans(f, np.ones((128, 128), F))
    assert cost.is_kernel(loop)


def test_large_steps_of_light_work_are_kernels() -> None:
    """Stencils, at the memory's pace; not extrema of rows, which many workgroups share."""
    def life(np: Any, x: Any) -> Any:
        n = sum(np.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        return ((n == 3) | (x == 1) & (n == 2)).astype(x.dtype)

    def many(x: Any) -> Any:
        return lax.fori_loop(0, 60, lambda i, x: life(jnp, x), x)
    x = np.random.default_rng(0).integers(0, 2, (640, 600)).astype(F)
    (loop,) = scans(many, x)
    assert cost.is_kernel(loop)
    want = x
    for _ in range(60):
        want = life(np, want)
    np.testing.assert_array_equal(calque.jit(many)(x), want)
    (loop,) = scans(lambda r, x: lax.fori_loop(0, 300, lambda i, x: jnp.max(
        r + 0.5 * x[None] * r, 1), x), np.ones((1000, 1000), F), np.ones(1000, F))
    assert not cost.is_kernel(loop)


def test_large_steps_of_independent_rows_are_kernels() -> None:
    """Several workgroups share them."""
    def f(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=300)[0]
    w = np.ones((512, 512), F)
    for rows, kernel in ((64, True), (67, True), (7, True), (1000, True), (3000, False)):
        (loop,) = scans(f, np.ones((rows, 512), F), w)
        assert cost.is_kernel(loop) == kernel, rows
    (loop,) = scans(lambda x, w: lax.scan(lambda c, _: (jnp.tanh(c @ w) + c.sum(0), None), x, None,
                                          length=300)[0], np.ones((64, 512), F), w)
    assert not cost.is_kernel(loop)


def test_host_loops_that_stack_much_run_inline() -> None:
    def f(x: Any, length: int) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ c),) * 2, x, None, length=length)
    x = np.ones((256, 256), F)
    for length, inline in ((100, False), (300, True)):
        program = calque.make_jaxpr(f, static_argnums=1)(x, length).jaxpr
        assert not cost.is_kernel(program.equations[-1])
        assert cost.must_run_inline(program) == inline


def test_loops_with_equations_without_results() -> None:
    """What a custom rule that returns nothing leaves in the body costs nothing."""
    nothing = calque.custom_jvp(lambda x: ())
    nothing.defjvp(lambda primals, tangents: ((), ()))

    def f(c: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            nothing(c)
            return c.at[(i * 7) % 50].add(jnp.roll(c, 3)[i % 50]) + jnp.cumsum(c)[::-1] * 1e-3
        return lax.fori_loop(0, 20, step, c)
    want = np.arange(50.0)
    for i in range(20):
        moved = want.copy()
        moved[(i * 7) % 50] += np.roll(want, 3)[i % 50]
        want = moved + np.cumsum(want)[::-1] * 1e-3
    # cumulative sums in another order: 20 steps of 50 additions
    np.testing.assert_allclose(calque.jit(f)(np.arange(50.0)), want, rtol=1e-13)
