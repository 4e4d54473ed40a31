"""Loops that draw, sort, look for extrema or sum up are kernels (passes/legalize), and give
what the same steps give one by one, outside of a loop.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import partly_slow
from test_kernels import scans

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.core.config import config
from calque.lowering.passes import cost, registers
from calque.lowering.passes.hoist import hoist
from calque.lowering.passes.legalize import legalize
from calque.lowering.target.targets import TargetError, runnable_target

Step = Callable[[Any, Any], Any]
KEY, N = random.key(7), 5
X = np.float32([[3, -1, 2.5, np.nan, 0, -0.0, 7, 2.5], [1, 1, np.inf, -np.inf, -5, 4, -0.0, 0]])
I = np.int32([[3, -1, 2, 9, 0, 5, 7, 2], [1, 1, 8, -8, -5, 4, 0, 0]])


def is_kernel(f: Callable[..., Any], *args: Any) -> bool:
    """Whether every outermost loop of f is a kernel of ours."""
    loops = [e for e in legalize(hoist(calque.make_jaxpr(f)(*args).jaxpr)).equations
             if e.name in ("scan", "while")]
    return bool(loops) and all(map(cost.is_kernel, loops))


def values(tree: Any) -> list[Any]:
    return [np.asarray(random.key_data(v) if calque.dtypes.issubdtype(v.dtype, calque.dtypes.
                                                                      prng_key) else v)
            for v in calque.tree.leaves(tree)]


def check(step: Step, start: Any, rtol: float = 0.0) -> None:
    """A scan of step(carry, i) -> (carry, y), compiled, against its steps one by one."""
    def loop(c: Any) -> Any:
        return lax.scan(step, c, jnp.arange(N))

    assert is_kernel(loop, start)
    got = calque.jit(loop)(start)
    carry, ys = start, []
    for i in range(N):
        carry, y = step(carry, jnp.asarray(i))
        ys.append(values(y))
    want = [*values(carry), *[np.stack(y) for y in zip(*ys)]]
    for a, b in zip(values(got), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol)


def drawn(f: Callable[[Any], Any]) -> Step:
    """A step that splits its key and draws with a part."""
    def step(key: Any, i: Any) -> Any:
        key, own = random.split(key)
        return key, f(own)
    return step


P = jnp.asarray([0.1, 0.2, 0.3, 0.4], jnp.float32)
DRAWS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda k: random.uniform(k, (3, 2)), "one uniform": random.uniform,
    "halves": lambda k: random.uniform(k, (5,), jnp.float16),
    "bfloat16": lambda k: random.uniform(k, (5,), jnp.bfloat16),
    "randint": lambda k: random.randint(k, (7,), -5, 9), "one randint": lambda k: random.randint(
        k, (), 0, 10), "bytes": lambda k: random.randint(k, (7,), 0, 100, jnp.uint8),
    "bits": lambda k: [random.bits(k, (5,), d) for d in (jnp.uint8, jnp.uint16, jnp.uint32)],
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (9,)),
    "categorical": lambda k: random.categorical(k, jnp.log(P), shape=(3,)),
    "choice": lambda k: random.choice(k, 10, (4,)),
    "choice of weights": lambda k: random.choice(k, jnp.arange(4), (), p=P),
    "permutation": lambda k: random.permutation(k, 12),
    "without replacement": lambda k: random.choice(k, 9, (4,), replace=False),
    "fold_in": lambda k: random.fold_in(k, 3), "keys": lambda k: random.split(k, (2, 3)),
    "rademacher": lambda k: random.rademacher(k, (4,)),
    "seed": lambda k: random.key(random.bits(k).astype(jnp.int32)),
    "each its own": lambda k: calque.vmap(lambda k: random.uniform(k, (2,)))(random.split(k, 3)),
    "of several keys": lambda k: random.split(k, 4)[random.randint(k, (), 0, 4)],
    "by a mask": lambda k: jnp.where(random.bernoulli(k, 0.5, (3,)), random.split(k, 3),
                                     random.split(random.fold_in(k, 1), 3)),
    "branches": lambda k: lax.cond(random.bernoulli(k), lambda k: random.split(k)[1],
                                   lambda k: random.fold_in(k, 5), k),
    "compared": lambda k: random.split(k, 3) == random.split(k, 3)[1],
    "reshaped": lambda k: random.split(k, 6).reshape(3, 2).T[1],
    "raw": lambda k: random.uniform(random.PRNGKey(random.bits(k).astype(jnp.int32)), (2,)),
    "data": lambda k: random.key_data(random.clone(k))}
# functions of draws are the same bits as outside of a loop but for what the compilers contract
SMOOTH: dict[str, Callable[[Any], Any]] = {
    "normal": lambda k: random.normal(k, (4,)), "gumbel": lambda k: random.gumbel(k, (4,)),
    "exponential": lambda k: random.exponential(k, (4,)),
    "laplace": lambda k: random.laplace(k, (3,)), "gamma": lambda k: random.gamma(k, 2.5, (2,)),
    "loop": lambda k: lax.fori_loop(0, 3, lambda i, x: x + random.normal(random.fold_in(k, i)),
                                    0.0)}


@pytest.mark.parametrize("name", partly_slow([*DRAWS], 0.7))
def test_draws(name: str) -> None:
    check(drawn(DRAWS[name]), KEY)


@pytest.mark.parametrize("name", SMOOTH)
def test_functions_of_draws(name: str) -> None:
    check(drawn(SMOOTH[name]), KEY, 1e-5)


@pytest.mark.parametrize("name", ["uniform", "bits", "keys", "fold_in", "randint"])
def test_todays_stream(name: str) -> None:
    with calque.threefry_partitionable(True):
        check(drawn(DRAWS[name]), KEY)


@pytest.mark.parametrize("name", ["uniform", "bits", "randint", "seed"])
def test_of_64_bits(name: str) -> None:
    with calque.enable_x64(True):
        check(drawn(DRAWS[name]), KEY)
        check(drawn(lambda k: [random.bits(k, (3,), jnp.uint64), random.uniform(k, (3,)),
                               random.randint(k, (2,), 0, 1 << 40)]), KEY)


def test_keys_of_other_generators_go_another_way() -> None:
    key = random.key(3, impl="rbg")

    def loop(key: Any) -> Any:
        return lax.scan(drawn(random.uniform), key, None, 3)[1]

    assert not is_kernel(loop, key)
    assert np.asarray(calque.jit(loop)(key)).shape == (3,)


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg", "philox2x32", "philox4x32",
                                  "threefry4x32"])
def test_keys_of_other_generators_that_loops_make(impl: str) -> None:
    def made(i: Any) -> Any:
        return random.uniform(random.key(i, impl=impl), (3,))

    def wrapped(words: Any) -> Any:
        return random.bits(random.wrap_key_data(words, impl=impl), (3,))

    words = np.asarray(random.key_data(random.key(5, impl=impl)))
    got = calque.jit(lambda w: lax.scan(lambda c, i: (c + 1, (made(i), wrapped(c))), w,
                                        jnp.arange(3))[1])(words)
    for i in range(3):
        np.testing.assert_array_equal(got[0][i], made(i))
        np.testing.assert_array_equal(got[1][i], wrapped(words + np.uint32(i)))


def turned(x: Any, i: Any) -> Any:
    """Other numbers each step."""
    return jnp.roll(x, i, -1)


def least(x: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min


ORDERS: dict[str, Step] = {
    "argmax": lambda x, i: (turned(x, i), [jnp.argmax(x), jnp.argmax(x, 0), jnp.argmin(x, 1)]),
    "argmax of bools": lambda x, i: (turned(x, i), [jnp.argmax(x > 2, 1), jnp.argmin(x > 2)]),
    "nanargmax": lambda x, i: (turned(x, i), jnp.nanargmax(x, 1)),
    "sort": lambda x, i: (turned(x, i), [jnp.sort(x), jnp.sort(x, 0), jnp.sort(x, axis=None)]),
    "argsort": lambda x, i: (turned(x, i), [jnp.argsort(x), jnp.argsort(x, descending=True)]),
    "lexsort": lambda x, i: (turned(x, i), jnp.lexsort((x[0], jnp.round(x[1] / 4)))),
    "sort by key": lambda x, i: (turned(x, i), lax.sort((jnp.round(x), x, -x), num_keys=2)),
    "top_k": lambda x, i: (turned(x, i), [lax.top_k(x, 3), lax.top_k(x[0], 8)]),
    "top_k of equals": lambda x, i: (turned(x, i), [
        lax.top_k(jnp.where(x > 2, x, least(x)), 8), lax.top_k(x > 2, 5)]),
    "cummax": lambda x, i: (turned(x, i), [lax.cummax(x, 1), lax.cummin(x, 0, reverse=True)]),
    "unique": lambda x, i: (turned(x, i), jnp.unique(x, size=6, fill_value=0)),
    "median": lambda x, i: (turned(x, i), jnp.median(x, 1)),
    "searchsorted": lambda x, i: (turned(x, i), jnp.searchsorted(jnp.sort(x[0]), x[1])),
    "bits": lambda x, i: (turned(x, i), [lax.bitcast_convert_type(x, jnp.int32),
                                          jnp.argmax(x)])}


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "uint8"])
@pytest.mark.parametrize("name", partly_slow([*ORDERS], 0.6))
def test_orders(name: str, dtype: str) -> None:
    if name == "bits" and dtype not in ("float32", "int32"):
        pytest.skip("of another width")
    x = X.astype(dtype) if dtype.startswith("f") else np.abs(I).astype(dtype) if (
        dtype == "uint8") else I
    check(ORDERS[name], x)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cumlogsumexp"])
def test_running(name: str, reverse: bool) -> None:
    f = getattr(lax, name)
    x = np.nan_to_num(X, posinf=2, neginf=-1)
    # sums of 8 numbers in another order: 8 half units of the last place of their magnitudes' sum
    check(lambda x, i: (turned(x, i), [f(x, 0, reverse=reverse), f(x, 1, reverse=reverse)]), x,
          1e-5)
    if name != "cumlogsumexp":
        check(lambda x, i: (turned(x, i), f(x, 1, reverse=reverse)), I)


@pytest.mark.parametrize("n", [1, 2, 3, 31, 64, 100, 700])
def test_sorts_of_any_length(n: int) -> None:
    x = np.random.default_rng(n).integers(-n // 2, n, n).astype(np.float32)
    check(lambda x, i: (jnp.roll(x, 3 * i + 1), jnp.argsort(x)), x)
    got = calque.jit(lambda x: lax.scan(lambda c, i: (c, jnp.argsort(jnp.roll(c, i))), x,
                                        jnp.arange(3))[1])(x)
    for i in range(3):
        np.testing.assert_array_equal(got[i], np.argsort(np.roll(x, i), kind="stable"))


@pytest.mark.parametrize("f", [
    lambda x: jnp.cumsum(x, 0), lambda x: jnp.cumsum(x, 1), lambda x: jnp.sort(x, 0),
    lambda x: jnp.argmax(x, 1), lambda x: lax.top_k(x, 0)[1],
    lambda x: random.uniform(random.key(1), x.shape) + random.split(random.key(2), 0).size])
def test_empty_arrays(f: Any) -> None:
    x = np.ones((0, 3), np.float32)
    got = calque.jit(lambda x: lax.scan(lambda c, _: (c, f(c)), x, None, 3)[1])(x)
    np.testing.assert_array_equal(got, np.stack([np.asarray(f(x))] * 3))


def test_rows_of_environments() -> None:
    """Many loops at once, with keys of their own."""
    def walk(key: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            key, board, at = c
            key, own = random.split(key)
            at = (at + random.randint(own, (2,), -1, 2)) % 5
            board = board.at[at[0], at[1]].add(1)
            return (key, board, at), jnp.argmax(board.ravel())
        return lax.scan(step, (key, jnp.zeros((5, 5), jnp.int32), jnp.zeros(2, jnp.int32)), None, 9)

    keys = random.split(KEY, 6)
    assert is_kernel(calque.vmap(walk), keys)
    together = calque.jit(calque.vmap(walk))(keys)
    for i in range(6):
        for a, b in zip(values(together), values(calque.jit(walk)(keys[i])), strict=True):
            np.testing.assert_array_equal(a[i], b)


def until_even(key: Any) -> Any:
    """Ten times: draws until one is even, each time until three others in a row are small."""
    def step(total: Any, key: Any) -> Any:
        def draw(c: Any) -> Any:
            key, _, count = c
            key, own = random.split(key)
            small = lax.while_loop(
                lambda s: s[1] < 3, lambda s: (s[0] + 1, jnp.where(random.uniform(
                    random.fold_in(own, s[0])) < 0.7, s[1] + 1, 0)), (0, 0))[0]
            return key, random.randint(own, (), 0, 9), count + small
        _, found, count = lax.while_loop(lambda c: c[1] % 2 == 1, draw, (key, 1, 0))
        return total + count, (found, count)
    return lax.scan(step, 0, random.split(key, 10))


def maps_of_keys(key: Any) -> Any:
    """A loop that carries nothing."""
    return lax.map(lambda k: lax.while_loop(
        lambda c: c[1] > 0.3, lambda c: (c[0] + 1, random.uniform(random.fold_in(k, c[0]))),
        (0, 1.0)), random.split(key, 10))


def factors(key: Any) -> Any:
    """What all rows share stands beside a small decomposition."""
    def step(spread: Any, own: Any) -> Any:
        spread = spread + 0.1 * jnp.eye(2)
        root = jnp.linalg.cholesky(spread)
        return root @ root.T, jnp.linalg.solve(spread, random.uniform(own, (2,)))
    return lax.scan(step, (1 + random.uniform(key)) * jnp.eye(2), random.split(key, 10))


@pytest.mark.parametrize("f", [until_even, maps_of_keys, factors], ids=lambda f: f.__name__)
def test_rows_have_ends_of_their_own(f: Any) -> None:
    keys = random.split(KEY, 70)  # (vectors of four or eight, the last of which overlaps)
    (loop,) = scans(calque.vmap(f), keys)
    plan = registers.plan(loop)
    assert plan is not None and plan.rows == 70
    together, alone = calque.jit(calque.vmap(f))(keys), calque.jit(f)
    for i in range(0, 70, 3):
        for a, b in zip(values(together), values(alone(keys[i])), strict=True):
            # integers are the same; sums of two products in another order otherwise
            np.testing.assert_allclose(a[i], b, rtol=0 if a.dtype.kind == "i" else 1e-5)


@pytest.mark.parametrize("inside", [False, True])
def test_masked_loops_over_memory(inside: bool) -> None:
    """Too much for registers: one loop for all rows, where one that is done keeps its values."""
    def halved(x: Any) -> Any:
        def double(c: Any) -> Any:
            return jnp.roll(c[0], 1) / 2, c[1] + 1
        return lax.while_loop(lambda c: jnp.abs(c[0]).sum() > 1, double, (x, 0))

    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (halved(3 * c)[0], halved(c)[1]), x, None, 4) if (
            inside) else halved(x)

    x = np.random.default_rng(2).uniform(0, 5, (9, 300)).astype(np.float32)
    assert is_kernel(calque.vmap(f), x)
    got = calque.jit(calque.vmap(f))(x)
    for i, row in enumerate(x):
        counts = []
        for _ in range(4 if inside else 1):
            for scale in (1, 3) if inside else (1,):
                y, count = scale * row, 0
                while np.abs(y).sum() > 1:
                    y, count = np.roll(y, 1) / 2, count + 1
                counts += [count] * (scale == 1)
            row = y
        np.testing.assert_allclose(got[0][i], row, rtol=1e-5)
        np.testing.assert_array_equal(got[1][i], counts if inside else counts[0])


def test_gradient_through_draws() -> None:
    def loss(scale: Any, key: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            key, x = c
            key, own = random.split(key)
            return (key, x + scale * random.normal(own)), x
        (_, x), xs = lax.scan(step, (key, jnp.float32(0)), None, 8)
        return x * x + xs.sum()

    g = calque.grad(loss)
    got = calque.jit(g)(np.float32(0.5), KEY)
    eps = 1e-2  # the loss is a polynomial of degree 2: central differences have no other error
    want = (loss(0.5 + eps, KEY) - loss(0.5 - eps, KEY)) / (2 * eps)
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_loops_within_what_steps_from_the_host() -> None:
    """An outer loop that calls Python stays, the loop in it is a kernel."""
    seen: list[float] = []

    def inner(key: Any) -> Any:
        return lax.scan(drawn(random.uniform), key, None, 4)[1].sum()

    def outer(key: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            x = inner(random.fold_in(c, i))
            calque.debug.callback(lambda v: seen.append(float(v)), x)
            return c, x
        return lax.scan(step, key, jnp.arange(3))[1]

    got = calque.jit(outer)(KEY)
    calque.effects_barrier()
    want = [inner(random.fold_in(KEY, i)) for i in range(3)]
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_allclose(seen, want, rtol=1e-6)


def windows(x: Any, fold: Any, start: Any, size: int) -> Any:
    return lax.reduce_window(x, np.asarray(start, x.dtype)[()], fold, (1, size), (1, 2),
                             [(0, 0), (1, 2)])


@pytest.mark.parametrize("name", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_windows(name: str, dtype: str) -> None:
    fold = {"add": lax.add, "max": lax.max, "min": lax.min}[name]
    x = jnp.asarray(np.arange(14).reshape(2, 7) * 37 % 100, dtype)
    start: Any = 0 if name == "add" else (
        -np.inf if name == "max" else np.inf) if dtype == "float32" else (
        np.iinfo(dtype).min if name == "max" else np.iinfo(dtype).max)

    def step(c: Any, i: Any) -> Any:
        return c + i.astype(dtype), [windows(c, fold, start, k) for k in (1, 2, 3, 5)]

    check(step, x)  # (whole numbers: sums are exact)


CONVOLUTIONS = {  # operands, strides, padding, dilations, layout, groups
    "2d": ((2, 3, 6, 5), (4, 3, 3, 2), (1, 2), ((1, 1), (0, 2)), (1, 1), (1, 2), None, 1),
    "holes": ((1, 1, 5, 4), (1, 1, 2, 3), (2, 1), ((-1, 2), (1, 0)), (2, 1), (1, 1), None, 1),
    "last": ((2, 6, 5, 3), (3, 2, 3, 4), (2, 1), ((1, 1), (0, 2)), (1, 1), (1, 1),
             ("NHWC", "HWIO", "NHWC"), 1),
    "depthwise": ((1, 4, 5, 3), (2, 2, 1, 6), (1, 1), ((1, 0), (0, 1)), (1, 1), (1, 1),
                  ("NHWC", "HWIO", "NCHW"), 3),
    "of features": ((2, 3, 7), (6, 1, 3), (1,), ((1, 1),), (1,), (1,), None, 3),
    "turned": ((4, 2, 3), (3, 3, 2), (1,), ((0, 0),), (1,), (1,), ("WNC", "IOW", "CWN"), 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_convolutions(name: str, dtype: str) -> None:
    lhs, rhs, strides, padding, holes, spread, layout, groups = CONVOLUTIONS[name]
    x, y = (jnp.asarray(np.arange(np.prod(s)).reshape(s) * 5 % 17 - 8, dtype) for s in (lhs, rhs))

    def step(c: Any, i: Any) -> Any:
        return c + i.astype(dtype), lax.conv_general_dilated(
            c, y, strides, padding, holes, spread, layout, feature_group_count=groups)

    check(step, x)  # (whole numbers: sums are exact)


@pytest.mark.parametrize("shape, groups", [((1, 4, 6), 2), ((1, 2, 80), 1)],
                         ids=["groups", "many places"])
def test_other_convolutions_go_another_way(shape: Any, groups: int) -> None:
    y = jnp.ones((4, shape[1] // groups, shape[2] - 1))

    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (c + 1, lax.conv_general_dilated(
            c, y, (1,), "VALID", feature_group_count=groups)), x, None, 3)[1]

    assert not is_kernel(loop, jnp.ones(shape))
    want = np.arange(1, 4).reshape(3, 1, 1, 1) * np.full((3, 1, 4, 2), y.size // 4)
    np.testing.assert_allclose(calque.jit(loop)(jnp.ones(shape)), want, rtol=1e-6)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("strides, spread", [((1, 1), (1, 1)), ((2, 1), (1, 3))])
def test_convolutions_of_one_feature_outside_of_loops(level: str, strides: Any, spread: Any
                                                      ) -> None:
    """They are slices there, too, under jit, vmap and grad; features side by side are not."""
    rng = np.random.default_rng(3)
    x, y, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((3, 70, 41), (5, 3), (3, 1)))
    taps = [(slice(i * spread[0], None), slice(j * spread[1], None)) for i, j in np.ndindex(5, 3)]
    places = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip((74, 41), y.shape, spread,
                                                                   strides)]
    padded = np.pad(x, ((0, 0), (3, 1), (0, 0)))
    want = sum(y[at] * padded[(..., *t)][:, ::strides[0], ::strides[1]][
        :, :places[0], :places[1]] for at, t in zip(np.ndindex(5, 3), taps))

    def one(x: Any, y: Any) -> Any:
        return lax.conv_general_dilated(x[None, None], y[None, None], strides, (
            (3, 1), (0, 0)), rhs_dilation=spread)[0, 0]

    def loss(x: Any) -> Any:
        return (calque.vmap(one, (0, None))(x, y) * w[:, :, None]).sum()

    with config.context("calque_cpu", level):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        for made in (calque.vmap(calque.jit(one), (0, None))(x, y), [
                calque.jit(calque.jit(one))(v, y) for v in x]):
            np.testing.assert_array_equal(made, want)
        slope = calque.jit(calque.grad(loss))(x)
    d = rng.integers(-4, 5, x.shape).astype(np.float32)  # what is linear is its own derivative
    moved = sum(y[at] * np.pad(d, ((0, 0), (3, 1), (0, 0)))[(..., *t)][
        :, ::strides[0], ::strides[1]][:, :places[0], :places[1]]
        for at, t in zip(np.ndindex(5, 3), taps))
    assert (np.asarray(slope) * d).sum() == (moved * w[:, :, None]).sum()

    def names(f: Any, *xs: Any) -> set[str]:
        return {e.name for e in legalize(hoist(calque.make_jaxpr(f)(*xs).jaxpr)).equations}
    assert "conv_general_dilated" not in names(one, x[0], y)
    assert "conv_general_dilated" in names(lambda x, y: lax.conv_general_dilated(
        x, y, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4),
        np.ones((1, 9, 9, 4)), np.ones((3, 3, 1, 4)))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_eigenvectors(n: int) -> None:
    x = np.random.default_rng(n).normal(size=(n, n)).astype(np.float32)
    x = x + x.T

    def loop(c: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            w, v = jnp.linalg.eigh(c)
            return (v * w) @ v.T, w
        return lax.scan(step, c, None, 300)[1][:3]

    assert is_kernel(loop, x)
    np.testing.assert_allclose(calque.jit(loop)(x), [np.linalg.eigvalsh(x)] * 3,
                               rtol=1e-5, atol=1e-5)  # float32: some ten roundings a step


def test_loops_of_no_steps_and_sums_of_one() -> None:
    """What they leave has no elements, which kernels have no place for."""
    def loop(c: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            inner, none = lax.scan(lambda a, b: (a + b, a), c, jnp.zeros((0, 3)), length=0)
            return jnp.cumsum(inner[None], 0)[0] + none.size, jnp.sort(inner)
        return lax.scan(step, c, jnp.arange(N))

    x = jnp.asarray([3.0, 1.0, 2.0])
    assert is_kernel(loop, x)
    got = calque.jit(loop)(x)
    np.testing.assert_array_equal(got[0], x)
    np.testing.assert_array_equal(got[1], [[1, 2, 3]] * N)


def test_matrices_of_many_rows_and_few_columns() -> None:
    """A Gauss-Newton step: they have few reflectors, and so a form in kernels."""
    x = np.random.default_rng(0).normal(size=(52, 3)).astype(np.float32)
    y = x @ np.float32([1, -2, 3])

    def loop(c: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            q, r = jnp.linalg.qr(x)
            c = c + 0.5 * jnp.linalg.solve(r, q.T @ (y - x @ c))
            return c, jnp.abs(jnp.diag(r))
        return lax.scan(step, c, None, 300)

    start = jnp.zeros(3)
    assert is_kernel(lambda c: lax.scan(lambda c, _: (c + jnp.linalg.qr(x + c)[1][0], c), c, None,
                                        300), start)
    got, diagonal = calque.jit(loop)(start)
    np.testing.assert_allclose(got, [1, -2, 3], rtol=1e-5)
    want = np.abs(np.diag(np.linalg.qr(x)[1]))
    np.testing.assert_allclose(diagonal[0], want, rtol=1e-5)  # float32: some ten roundings


def automaton(x: Any, w: Any) -> Any:
    """Steps of a convolution, a mean and a maximum over windows; one of each is enough."""
    def step(c: Any, _: Any) -> Any:
        seen = lax.conv_general_dilated(c, w, (1, 1), "SAME")
        mean = lax.reduce_window(seen, 0.0, lax.add, (1, 1, 2, 2), (1,) * 4, "SAME") / 4
        return jnp.tanh(lax.reduce_window(mean, -jnp.inf, lax.max, (1, 1, 3, 1), (1,) * 4,
                                          "SAME")), c.sum()
    return lax.scan(step, x, None, 4)


@pytest.mark.parametrize("shape", [(1, 2, 5, 4), (1, 2, 1, 1), (3, 1, 1, 6)],
                         ids=["image", "one place", "rows"])
def test_windows_under_transformations(shape: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)  # (from NumPy, as arguments come)
    w = 0.3 * rng.normal(size=(shape[1], shape[1], 3, 3)).astype(np.float32)
    assert is_kernel(automaton, x, w)
    with calque.disable_jit():
        want = automaton(jnp.asarray(x), jnp.asarray(w))
        slopes = calque.grad(lambda x, w: automaton(x, w)[0].sum(), (0, 1))(
            jnp.asarray(x), jnp.asarray(w))
    several = [np.stack([x, 2 * x]), np.stack([w, -w])]
    rows = calque.jit(calque.vmap(automaton))(*several)
    for got, value in zip(calque.tree.leaves(calque.jit(automaton)(x, w)),
                          calque.tree.leaves(want), strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6)  # some ten roundings a step
    for got, value in zip(calque.tree.leaves(rows), calque.tree.leaves(want), strict=True):
        np.testing.assert_allclose(got[0], value, rtol=1e-5, atol=1e-6)
    found = calque.jit(calque.grad(lambda x, w: automaton(x, w)[0].sum(), (0, 1)))(x, w)
    for got, value in zip(found, slopes, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)
    along = calque.jit(lambda x, w: calque.jvp(lambda x: automaton(x, w)[0].sum(), (x,), (x,)))(
        x, w)[1]
    np.testing.assert_allclose(along, (slopes[0] * x).sum(), rtol=1e-4, atol=1e-4)
