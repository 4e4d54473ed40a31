"""Updates that are a part of the array they are written into: the part as it was before."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

OPERANDS = {
    "argument": lambda x, n: x, "sum": lambda x, n: x + x, "sorted": lambda x, n: n.sort(x, 1),
    "cumulated": lambda x, n: n.cumsum(x, 0, dtype=x.dtype)}
# where it is written, and what is written there
PARTS = {
    "shifted down": ((slice(1, None),), (slice(None, -1),)),
    "shifted up": ((slice(None, -1),), (slice(1, None),)),
    "shifted aside": ((slice(None), slice(1, None)), (slice(None), slice(None, -1))),
    "shifted both ways": ((slice(1, None), slice(1, None)), (slice(None, -1), slice(None, -1))),
    "a row": ((slice(1, 2), slice(2, None)), (slice(1, 2), slice(None, -2))),
    "a column": ((slice(None, 5), slice(2, 3)), (slice(0, 1), slice(0, 5)))}


def updated(x: Any, target: Any, source: Any, n: Any) -> Any:
    part = x[source]
    shape = x[target].shape
    return part if part.shape == shape else n.reshape(part, shape)


@pytest.mark.parametrize("dtype, every_part", [("f4", False), *[
    pytest.param(d, True, marks=pytest.mark.slow) for d in ("f4", "c8", "i1", "?")]])
def test_parts_of_what_was_computed(dtype: str, every_part: bool) -> None:
    x = (np.arange(42).reshape(6, 7) * 37 % 41).astype(dtype)
    hows = [(name, what, how) for i, name in enumerate(OPERANDS) for k, what in enumerate(PARTS)
            for n, how in enumerate(("known", "computed")) if every_part or (i + k + n) % 2]

    def every(x: Any, zero: Any) -> Any:
        found, made = [], {name: operand(x, jnp) for name, operand in OPERANDS.items()}
        for name, what, how in hows:
            h, (target, source) = made[name], PARTS[what]
            part = updated(h, target, source, jnp)
            starts = [(s.start or 0) + zero for s in (*target, slice(None))[:2]]
            found.append(h.at[target].set(part) if how == "known"
                         else lax.dynamic_update_slice(h, part, starts))
        return found

    for (name, what, how), got in zip(hows, calque.jit(every)(x, np.int32(0)), strict=True):
        h, (target, source) = OPERANDS[name](x, np), PARTS[what]
        want = h.copy()
        want[target] = updated(h, target, source, np)
        np.testing.assert_array_equal(np.asarray(got), want, f"{name} {what} {how}")


def test_one_window_scattered() -> None:
    """A column that is a part of the row beside it (fuzz.py, seed 9103409)."""
    numbers = lax.ScatterDimensionNumbers(update_window_dims=(0,), inserted_window_dims=(1,),
                                          scatter_dims_to_operand_dims=(0, 1))

    def f(x: Any, place: Any) -> Any:
        return [lax.scatter(h, place, h.reshape(35)[3:8], numbers, mode="clip")
                for h in (lax.complex(x, x * 2), x * 1.5, x)]

    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    for got, h in zip(calque.jit(f)(x, np.array([0, 6], np.int32)), (x + 2j * x, x * 1.5, x)):
        want = h.copy()
        want[:, 6] = h.reshape(35)[3:8]
        np.testing.assert_array_equal(np.asarray(got), want)


def test_what_was_written_into_is_read_afterwards() -> None:
    """The argument (donated, too), what was computed of it, and moves that read it later."""
    def f(x: Any) -> Any:
        h = x + x
        y, z = x.at[1:].set(x[:-1]), h.at[:, 1:].set(h[:, :-1])
        moved = jnp.flip(jnp.pad(jnp.roll(x, 3, 0), 2), 1)
        return y, z, moved, h - z, x * 1.5, moved.at[1:].set(moved[:-1])

    x = np.random.default_rng(0).normal(size=(150, 200)).astype(np.float32)
    h, y, z = x + x, x.copy(), x + x
    y[1:], z[:, 1:] = x[:-1], h[:, :-1]
    moved = np.flip(np.pad(np.roll(x, 3, 0), 2), 1)
    last = moved.copy()
    last[1:] = moved[:-1]
    for donated in ((), (0,)):
        given = jnp.array(x)
        for got, want in zip(calque.jit(f, donate_argnums=donated)(given), (
                y, z, moved, h - z, x * np.float32(1.5), last), strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)
        assert given.is_deleted() == bool(donated) and (donated or (np.asarray(given) == x).all())


def test_nothing_is_an_argument() -> None:
    """Constants only: shifted, paired, in a long chain, and many captured numbers."""
    numbers = [jnp.float32(0.01 * i) for i in range(20)]

    def f() -> Any:
        h = 2 * jnp.arange(40.0).reshape(8, 5)
        points = jnp.sin(jnp.arange(600.0).reshape(200, 3))
        chain = jnp.arange(7.0)
        for c in numbers * 3:
            chain = jnp.sin(chain + c)
        near = jnp.argmin(((points[:, None] - points[None] - 1) ** 2).sum(-1), 1)
        return h.at[1:].set(h[:-1]), chain, near, sum(numbers)

    h = 2 * np.arange(40.0).reshape(8, 5)
    points, chain = np.sin(np.arange(600.0).reshape(200, 3)), np.arange(7.0)
    for i in 3 * list(range(20)):
        chain = np.sin(chain + np.float32(0.01 * i))
    shifted, got, near, total = calque.jit(f)()
    np.testing.assert_array_equal(shifted, np.concatenate([h[:1], h[:-1]]))
    np.testing.assert_allclose(got, chain, rtol=1e-5)  # 60 sines, each contracting
    np.testing.assert_array_equal(near, np.argmin(
        ((points[:, None] - points[None] - 1) ** 2).sum(-1), 1))
    np.testing.assert_allclose(total, 1.9, rtol=1e-6)


@pytest.mark.parametrize("kernels", [True, False])
def test_carries_of_many_arrays(kernels: bool, request: pytest.FixtureRequest) -> None:
    """Fourteen arrays, each shifted into itself in each step; by a kernel and from the host."""
    if not kernels:
        request.getfixturevalue("host_loops")
    arrays = [np.arange(5 + i, dtype=np.float32) for i in range(14)]

    def step(_: Any, hs: Any) -> Any:
        return [(h + 1).at[1:].set((h + 1)[:-1]).at[0].set(-1.0) for h in hs]

    got = calque.jit(lambda hs: lax.fori_loop(0, 6, step, hs))(arrays)
    for g, h in zip(got, arrays, strict=True):
        for _ in range(6):
            h = np.concatenate([[-1], (h + 1)[:-1]])
        np.testing.assert_array_equal(np.asarray(g), h)


SAME = {  # the same array said twice: IREE computes it once
    "sum": (lambda x: x + 1, lambda x: x + 1), "commuted": (lambda x: x + 1.5, lambda x: 1.5 + x),
    "square": (lambda x: x * x, lambda x: x ** 2),
    "turned": (lambda x: jnp.cos(x).T, lambda x: jnp.cos(x.T)),
    "reshaped": (lambda x: (x + 2).reshape(-1), lambda x: x.reshape(-1) + 2),
    "converted": (lambda x: (x + 3).astype(int), lambda x: (3 + x).astype(int)),
    "padded": (lambda x: jnp.pad(x, 1) + 1, lambda x: 1 + jnp.pad(x, 1)),
    "called": (calque.jit(jnp.exp), calque.jit(jnp.exp)),
    "sorted": (lambda x: jnp.sort(x, 0), lambda x: jnp.sort(x, 0)),
    "cumulated": (lambda x: jnp.cumsum(x, 0), lambda x: jnp.cumsum(x, 0)),
    "product": (lambda x: x.T @ x, lambda x: jnp.einsum("ij,ik->jk", x, x))}


@pytest.mark.slow
def test_parts_of_what_is_computed_twice() -> None:
    """The update is of another array in the program, and of the same one in what IREE runs."""
    def each(x: Any) -> Any:
        pairs = [(f(x), g(x)) for f, g in SAME.values()]
        return [a.at[1:].set(b[:-1]) for a, b in pairs]

    def every(x: Any) -> Any:
        add = lambda _, total: [a + b for a, b in zip(total, each(x))]  # noqa: E731
        return each(x), lax.fori_loop(0, 3, add, [0 * a for a in each(x)])

    x = np.random.default_rng(0).normal(size=(6, 50)).astype(np.float32)
    once, thrice = calque.jit(every)(x)
    arrays = map(np.asarray, calque.jit(lambda x: [f(x) for f, _ in SAME.values()])(x))
    for name, got, repeated, a in zip(SAME, once, thrice, arrays, strict=True):
        want = np.concatenate([a[:1], a[:-1]])
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6, err_msg=name)  # x * x in an fma
        np.testing.assert_allclose(repeated, 3 * want, rtol=1e-6, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("n", [pytest.param(8, marks=pytest.mark.slow), 300])
def test_a_shift_register(n: int) -> None:
    """In a scan, in a branch, and of one that is computed."""
    x, new = np.arange(n, dtype=np.float32), np.arange(20, dtype=np.float32)

    def step(h: Any, v: Any) -> Any:
        h = h.at[1:].set(h[:-1]).at[0].set(v)
        return h, h[-1]

    def f(x: Any, new: Any) -> Any:
        double = lambda h: h.at[1:].set(h[:-1])  # noqa: E731
        return (*lax.scan(step, x, new), double(2 * x),
                lax.cond(new[0] < 1, lambda h: double(h + h), lambda h: h, x))

    register, last = x, []
    for v in new:
        register = np.concatenate([[v], register[:-1]])
        last.append(register[-1])
    shifted = np.concatenate([[0], 2 * x[:-1]])
    for got, want in zip(calque.jit(f)(x, new), (register, last, shifted, shifted), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
