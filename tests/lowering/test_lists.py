"""Elementwise work on lists of arrays (passes/lists): what is taken together, and its values."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export, lax

RNG = np.random.default_rng(0)


def arrays(n: int, dtype: Any = np.float32, shape: Callable[[int], Sequence[int]] = (
        lambda i: (i % 7 + 1, 5))) -> list[np.ndarray[Any, Any]]:
    made = [RNG.standard_normal(shape(i)) * 3 for i in range(n)]
    return [(x > 0 if dtype == np.bool_ else x).astype(dtype) for x in made]


def families(f: Any, *args: Any, **options: Any) -> list[str]:
    return [r.family for r in calque.jit(f, **options).lower(*args).plan().regions]


def same(got: Any, want: Any, **tolerance: Any) -> None:
    for x, y in zip(calque.tree.leaves(got), calque.tree.leaves(want), strict=True):
        assert x.dtype == np.asarray(y).dtype and x.shape == np.shape(y)
        wide = np.float64 if x.dtype != np.bool_ else np.bool_
        np.testing.assert_allclose(np.asarray(x).astype(wide), np.asarray(y).astype(wide),
                                   **tolerance)


SIZES = {"small": lambda i: (i % 7 + 1, 5), "ones": lambda i: (1,), "odd": lambda i: (3 * i + 1,),
         "spread": lambda i: (40_001 + 17 * i,), "mixed": lambda i: (1, 3, 20_000)[:i % 3 + 1]}


@pytest.mark.parametrize("sizes", SIZES)
def test_a_step_of_descent(sizes: str) -> None:
    p, g = arrays(33, shape=SIZES[sizes]), arrays(33, shape=SIZES[sizes])
    got = calque.jit(lambda p, g, r: [a - r * b for a, b in zip(p, g)])(p, g, np.float32(0.3))
    # (a product and a sum may be one operation: half a bit of the product)
    same(got, [a - np.float32(0.3) * b for a, b in zip(p, g)], rtol=1e-6, atol=1e-6)


def test_an_optimizer() -> None:
    """Moments and parameters of trees; the correction is a number that all share."""
    def adam(p: Any, g: Any, m: Any, v: Any, step: Any, xp: Any) -> Any:
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.99 * a + 0.01 * b * b for a, b in zip(v, g)]
        c, d = 1 - 0.9 ** step, 1 - 0.99 ** step
        return [a - 1e-2 * (b / c) / (xp.sqrt(w / d) + 1e-8) for a, b, w in zip(p, m, v)], m, v

    args = (arrays(24), arrays(24), arrays(24), [abs(x) for x in arrays(24)])
    f = lambda p, g, m, v, s: adam(p, g, m, v, s, jnp)  # noqa: E731
    assert families(f, *args, 3.0).count("list") == 6  # of seven arrays each, four at a time
    same(calque.jit(f)(*args, 3.0), adam(*args, np.float32(3), np), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint32,
                                   np.int64, np.bool_])
def test_types(dtype: Any) -> None:
    with calque.enable_x64(True):
        xs = arrays(20, dtype, SIZES["odd"])
        f = lambda xs: [x | ~x if dtype == np.bool_ else x * x + x for x in xs]  # noqa: E731
        assert "list" in families(f, xs)
        # halves are computed in float32 and rounded, NumPy's after each operation
        small = {2: 5e-3 if dtype == np.float16 else 2e-2}.get(np.dtype(dtype).itemsize, 1e-12)
        same(calque.jit(f)(xs), f(xs), rtol=small, atol=small)


def test_comparisons_choices_and_casts() -> None:
    xs = arrays(20)
    f = lambda xs: [(jnp.where(x > 0, x, -2 * x), x > 0,  # noqa: E731
                     (x * 10).astype(jnp.int32)) for x in xs]
    assert families(f, xs) == ["list"] * len(families(f, xs))
    same(calque.jit(f)(xs), [(np.where(x > 0, x, -2 * x), x > 0, (x * 10).astype(np.int32))
                             for x in xs], rtol=1e-6)


def test_numbers_of_their_own() -> None:
    xs, rates = arrays(20), [np.float32(i) for i in range(20)]
    got = calque.jit(lambda xs, rs: [x * r for x, r in zip(xs, rs)])(xs, rates)
    same(got, [x * r for x, r in zip(xs, rates)], rtol=1e-6)


def test_another_literal_is_another_kernel() -> None:
    xs = arrays(30)
    f = lambda xs: [x * (2.0 if i % 2 else 3.0) for i, x in enumerate(xs)]  # noqa: E731
    same(calque.jit(f)(xs), [x * np.float32(2 if i % 2 else 3) for i, x in enumerate(xs)])
    signed = lambda xs: [x + (0.0 if i % 2 else -0.0) for i, x in enumerate(xs)]  # noqa: E731
    zeros = [np.full((3,), -0.0, np.float32)] * 30
    for i, v in enumerate(calque.jit(signed)(zeros)):
        np.testing.assert_array_equal(np.signbit(v), i % 2 == 0)


def test_parts_that_follow_one_another() -> None:
    """Layers: each is the same work, on what the one before gave."""
    w = [x / 60 for x in arrays(20, shape=lambda i: (40, 40))]
    x = arrays(1, shape=lambda i: (40, 40))[0]

    def run(x: Any, w: Any, xp: Any) -> Any:
        found = []
        for each in w:
            x = xp.tanh(x @ each) * 2 + 1
            found.append(x)
        return found

    same(calque.jit(lambda x, w: run(x, w, jnp))(x, w), run(x, w, np), rtol=2e-4, atol=2e-4)


def test_parts_linked_directly() -> None:
    """x feeds y by a sum over all of it, and two parts read one array."""
    xs = arrays(20)

    def f(xs: Any, xp: Any) -> Any:
        ys = [x * 2 for x in xs]
        total = sum(y.sum() for y in ys)
        return [(y + total, y * x) for x, y in zip(xs, ys)], [xs[0] + y.reshape(-1)[0] for y in ys]

    same(calque.jit(lambda xs: f(xs, jnp))(xs), f(xs, np), rtol=1e-4, atol=1e-4)


def test_arguments_again_and_as_results() -> None:
    x = arrays(1)[0]
    got = calque.jit(lambda xs: ([a + b for a, b in zip(xs, xs[1:] + xs[:1])], xs[3]))([x] * 20)
    same(got, ([x + x] * 20, x))


def test_donated() -> None:
    p, g = arrays(20), arrays(20)
    given = [jnp.array(x) for x in p]
    f = calque.jit(lambda p, g: [a - b for a, b in zip(p, g)], donate_argnums=0)
    same(f(given, g), [a - b for a, b in zip(p, g)])
    for _ in range(3):  # and again, on its own results
        given = f([jnp.array(x) for x in p], g)
    same(given, [a - b for a, b in zip(p, g)])


def test_what_is_updated_behind_a_list() -> None:
    """An update in place must not be seen by what reads the array before or after it."""
    xs = arrays(20)

    def f(xs: Any) -> Any:
        ys = [x + 1 for x in xs]
        zs = [y.at[0].set(9) for y in ys]
        return zs, [y * 2 for y in ys], [x.at[0].set(7) for x in xs]

    ys = [x + 1 for x in xs]
    zs, ts = [y.copy() for y in ys], [x.copy() for x in xs]
    for z, t in zip(zs, ts):
        z[0], t[0] = 9, 7
    for donated in ((), (0,)):
        got = calque.jit(f, donate_argnums=donated)([jnp.array(x) for x in xs])
        same(got, (zs, [y * 2 for y in ys], ts), rtol=1e-6)


def test_without_arguments_and_with_sizes_known_at_the_call() -> None:
    kept = [jnp.array(x) for x in arrays(20)]
    same(calque.jit(lambda: [x * 2 for x in kept])(), [np.asarray(x) * 2 for x in kept], rtol=1e-6)
    same(calque.jit(lambda: [jnp.full((i + 1,), 2.0) + 1 for i in range(40)])(),
         [np.full((i + 1,), 3, np.float32) for i in range(40)])
    (b,) = export.symbolic_shape("b")
    exported = export.export(calque.jit(lambda xs: [x + 1 for x in xs]))(
        [calque.ShapeDtypeStruct((b, 3), np.float32)] * 20)
    xs = arrays(20, shape=lambda i: (5, 3))
    same(exported.call(xs), [x + 1 for x in xs], rtol=1e-6)


def test_in_loops_and_branches_from_the_host() -> None:
    xs = arrays(12)

    def body(c: Any, _: Any) -> Any:
        with_inverse = jnp.linalg.inv(jnp.eye(40) * 2)[0, 0]  # (40: the host steps)
        return [x * with_inverse + 1 for x in c], None

    got = calque.jit(lambda c: lax.scan(body, c, None, 9)[0])(xs)
    for x, y in zip(xs, got):
        for _ in range(9):
            x = x * np.float32(0.5) + 1
        np.testing.assert_allclose(y, x, rtol=1e-6)
    heavy = lambda xs: [jnp.sin(x) + jnp.linalg.det(jnp.eye(60)) for x in xs]  # noqa: E731
    got = calque.jit(lambda n, xs: lax.cond(n > 0, heavy, lambda xs: [-x for x in xs], xs))
    same(got(1, xs), [np.sin(x) + 1 for x in xs], rtol=1e-5, atol=1e-6)
    same(got(0, xs), [-x for x in xs])


def test_effects_stay_in_order() -> None:
    seen: list[float] = []

    def f(xs: Any) -> Any:
        ys = [x + 1 for x in xs[:10]]
        calque.debug.callback(lambda v: seen.append(float(v)), ys[0][0, 0], ordered=True)
        return ys + [x + 1 for x in xs[10:]]

    xs = arrays(20)
    same(calque.jit(f)(xs), [x + 1 for x in xs], rtol=1e-6)
    calque.effects_barrier()
    assert seen == [float(xs[0][0, 0] + 1)]


def test_few_are_left_alone() -> None:
    assert "list" not in families(lambda xs: [x + 1 for x in xs], arrays(
        7, shape=lambda i: (300, 300 + i)))


def test_one_executable_for_all_sizes() -> None:
    xs = arrays(90, shape=SIZES["odd"])
    plan = calque.jit(lambda xs: [jnp.sin(x) for x in xs]).lower(xs).plan()
    assert len({r.implementation for r in plan.regions if r.family == "list"}) == 1


@pytest.mark.parametrize("seed", [*range(2), *[
    pytest.param(s, marks=pytest.mark.slow) for s in range(2, 40)]])
def test_drawn(seed: int) -> None:
    """Trees of random shapes through random elementwise functions, with values that cross."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 60))
    xs = [rng.standard_normal(tuple(rng.integers(1, 30, rng.integers(1, 4)))).astype(np.float32)
          for _ in range(n)]
    steps = rng.integers(0, 6, rng.integers(1, 9)).tolist()
    numbers = rng.standard_normal(len(steps)).astype(np.float32).tolist()

    def f(xs: Any, xp: Any) -> Any:
        ys, kept = list(xs), []
        for how, r in zip(steps, numbers):
            if how == 0:
                ys = [y * r + x for x, y in zip(xs, ys)]
            elif how == 1:
                ys = [xp.where(y > r, y, x) for x, y in zip(xs, ys)]
            elif how == 2:
                ys = [xp.tanh(y) for y in ys]
            elif how == 3:
                total = sum(y.mean() for y in ys) / len(ys)
                ys = [y - total for y in ys]
            elif how == 4:
                kept += [y + 1 for y in ys[::2]]
            else:
                ys = [abs(y) / (1 + x * x) for x, y in zip(xs, ys)]
        return ys, kept

    # (means of 60 arrays and up to 9 functions of float32)
    same(calque.jit(lambda xs: f(xs, jnp))(xs), f(xs, np), rtol=2e-4, atol=2e-4)
