"""Arrays of one number that are moved (passes/known), in derivatives of sums above all; NumPy and
the rules of calculus as oracles."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

X = np.arange(30 * 41, dtype=np.float32).reshape(30, 41)
MOVES: dict[str, Any] = {
    "flip": lambda np, x: np.flip(x, 1), "transpose": lambda np, x: x.T,
    "reshape": lambda np, x: x.reshape(-1)[:-1], "slice": lambda np, x: x[1::2, :-3],
    "roll": lambda np, x: np.roll(x, 2, 1), "pad": lambda np, x: np.pad(x, 1),
    "concatenate": lambda np, x: np.concatenate([x, x]), "rot90": lambda np, x: np.rot90(x),
    "spread": lambda np, x: np.broadcast_to(x[:, None], (30, 2, 41))}


@pytest.mark.parametrize("name", MOVES)
def test_a_derivative_of_a_sum_counts_uses(name: str) -> None:
    f = MOVES[name]
    got = calque.jit(calque.grad(lambda x: 3 * f(jnp, x).sum()))(X)
    want = np.zeros_like(X)
    places = np.arange(X.size, dtype=np.float32).reshape(X.shape) + 1
    for i in f(np, places).ravel():
        if i:  # (0: what padding puts there)
            want.flat[int(i) - 1] += 3
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", MOVES)
def test_a_number_moved_is_that_number(name: str) -> None:
    """Known when it is compiled or at the call, and next to other numbers."""
    f = MOVES[name]
    for number in (0.0, 2.5, np.float32("nan")):
        got = calque.jit(lambda f=f, number=number: f(jnp, jnp.full((30, 41), number)))()
        np.testing.assert_array_equal(got, f(np, np.full((30, 41), number, np.float32)))
        got = calque.jit(lambda n, f=f: f(jnp, jnp.full((30, 41), n)))(number)
        np.testing.assert_array_equal(got, f(np, np.full((30, 41), number, np.float32)))


def test_different_numbers_stay_apart() -> None:
    def f(np: Any, n: Any) -> Any:
        one, two = np.full((3, 4), n), np.full((3, 4), 2.0)
        return (np.concatenate([one, two]), np.concatenate([one, one]).T, np.pad(one, 1),
                np.pad(two, 1, constant_values=2.0), np.stack([two, -two])[::-1])
    for n in (1.5, 2.0, 0.0, -0.0):
        for got, want in zip(calque.jit(lambda n: f(jnp, n))(np.float32(n)), f(np, n)):
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    zeros = calque.jit(lambda: jnp.concatenate([jnp.full(3, 0.0), jnp.full(3, -0.0)]))()
    np.testing.assert_array_equal(np.signbit(zeros), [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
def test_running_sums_from_the_end_of_one_number(name: str, axis: int) -> None:
    """IREE put the reversal of large ones into the loop, with a stack that it then refused."""
    f, shape = getattr(lax, name), (1000, 900)
    n = shape[axis]
    got = calque.jit(lambda: f(jnp.full(shape, 1.0), axis=axis, reverse=True))()
    count = np.arange(n, 0, -1)
    want = {"cumsum": count, "cumlogsumexp": 1 + np.log(count)}.get(name, np.ones(n))
    np.testing.assert_allclose(got, np.broadcast_to(want[:, None] if axis == 0 else want, shape),
                               rtol=1e-4)  # (a thousand roundings of single precision)
    if name == "cumsum":
        got = calque.jit(calque.grad(lambda x: jnp.cumsum(x, axis).sum()))(jnp.ones(shape))
        np.testing.assert_array_equal(got, np.broadcast_to(
            count[:, None] if axis == 0 else count, shape))


def test_keys_that_are_made_in_a_loop() -> None:
    """Draws that are the same in each step are made once, before it (passes/hoist)."""
    def run(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            u = calque.random.uniform(calque.random.key(3), x.shape)
            return c + (u * x + c).sum() * 1e-3, u.max()
        return lax.scan(step, jnp.float32(0), None, length=7)

    u = np.asarray(calque.random.uniform(calque.random.key(3), (30, 41)))
    c = 0.0
    for _ in range(7):
        c += (u * (X / 1e3) + c).sum() * 1e-3
    total, largest = calque.jit(run)(X / 1e3)
    np.testing.assert_allclose(total, c, rtol=1e-5)
    np.testing.assert_array_equal(largest, np.full(7, u.max()))


def test_positions_outside_get_no_gradient() -> None:
    """Read at the edge, as JAX does, they give nothing back (its `x[i]` promises that there are
    none); with mode="clip" the edge gets theirs."""
    places = jnp.array([0, 50, -60, 29, 3])
    for read, count in ((lambda x: x[places], {0: 1, 29: 1, 3: 1}),
                        (lambda x: x.at[places].get(mode="clip"), {0: 2, 29: 2, 3: 1}),
                        (lambda x: x.at[places].get(mode="fill", fill_value=0),
                         {0: 1, 29: 1, 3: 1})):
        for g in (calque.grad(lambda x, read=read: read(x).sum()),
                  calque.jit(calque.grad(lambda x, read=read: read(x).sum()))):
            want = np.zeros_like(X)
            for row, n in count.items():
                want[row] = n
            np.testing.assert_array_equal(g(X), want)
    np.testing.assert_array_equal(X[[0, 29, 0, 29, 3]], calque.jit(lambda x: x[places])(X))
