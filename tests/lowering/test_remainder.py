"""What is left to IREE as kernels of ours (passes/remainder), and views of arrays (passes/strided),
beside NumPy."""
from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, nn
from calque.lowering.driver.module import Lowered, LowerOptions, lower
from calque.lowering.kernels.forms import missing_objects
from calque.lowering.passes import strided
from calque.lowering.target.targets import parse_target

TARGET = "cpu:x86-64-v3"
pytestmark = pytest.mark.skipif(bool(missing_objects(parse_target(TARGET))),
                                reason="no kernels in C here")


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed + math.prod(shape)).standard_normal(shape).astype("float32")


def lowered(f: Any, *args: Any) -> Lowered:
    return lower(calque.jit(f).trace(*args).jaxpr, parse_target(TARGET),
                 LowerOptions(in_process=True))


def families(f: Any, *args: Any) -> list[str]:
    return [r.family for r in lowered(f, *args).plan.regions]


def relu(x: Any) -> Any:
    return jnp.maximum(x, 0)


def mlp(x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return relu(relu(x @ a + b) @ c + d)


def heads(x: Any, w: Any) -> Any:
    """Parts of a product, turned round, multiplied."""
    q, k, v = (p.reshape(4, 64, 2, 32).transpose(0, 2, 1, 3) for p in jnp.split(x @ w, 3, -1))
    return nn.softmax(q @ k.swapaxes(-1, -2)) @ v


def heads_by_numpy(x: Any, w: Any) -> Any:
    q, k, v = (p.reshape(4, 64, 2, 32).transpose(0, 2, 1, 3)
               for p in np.split(x.astype("f8") @ w, 3, -1))
    s = np.exp(q @ k.swapaxes(-1, -2))
    return s / s.sum(-1, keepdims=True) @ v


def smoothed(x: Any, k: Any, order: str) -> Any:
    return relu(lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=(
        order, "HWIO" if order == "NHWC" else "OIHW", order)) + 1)


def smoothed_by_numpy(x: Any, k: Any) -> Any:
    """NHWC, HWIO, odd windows."""
    x = np.pad(x.astype("f8"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    w = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    return np.maximum(np.einsum("nhwcij,ijco->nhwo", w, k) + 1, 0)


IMAGES, KERNEL = normal(8, 28, 28, 16), normal(3, 3, 16, 32) / 12
P, Q = normal(128, 160), normal(160, 192)
CLOSED = {
    "mlp": (mlp, (P, Q, normal(192), normal(192, 10), normal(10)),
            lambda x, a, b, c, d: np.maximum(np.maximum(x @ a + b, 0) @ c + d, 0)),
    "heads": (heads, (normal(4, 64, 64) / 8, normal(64, 192) / 8), heads_by_numpy),
    "a transposition is a result": (
        lambda x, y: (x @ y, x[:50].T), (P, Q), lambda x, y: (x @ y, x[:50].T)),
    "a part, and that of a part": (
        lambda x, y: (x @ y, x[3:70:2, 5:], x[3:70:2, 5:][1:, :7].T * 2), (P, Q),
        lambda x, y: (x @ y, x[3:70:2, 5:], x[3:70:2, 5:][1:, :7].T * 2)),
    "a part that two read": (
        lambda x, y: (lambda h: (h * 2, h[:40].T + 1, h.sum(0)))((x @ y)[:, 7:190]), (P, Q),
        lambda x, y: (lambda h: (h * 2, h[:40].T + 1, h.sum(0)))((x @ y)[:, 7:190])),
    "other shapes of parts": (
        lambda x, y: (x @ y)[:60, 32:160].reshape(60, 4, 32).swapaxes(1, 2) - 1, (P, Q),
        lambda x, y: (x @ y)[:60, 32:160].reshape(60, 4, 32).swapaxes(1, 2) - 1),
    "a shape of what is turned round": (
        lambda x, y: (x @ y, x.reshape(4, 32, 2, 80).transpose(0, 2, 1, 3).reshape(8, 2560).sum(),
                      x.reshape(4, 32, 160).swapaxes(0, 1).reshape(128, 160) * 2), (P, Q),
        lambda x, y: (x @ y, x.sum(), x.reshape(4, 32, 160).swapaxes(0, 1).reshape(128, 160) * 2)),
    "rows and columns spread": (
        lambda x, y, b: (x @ y) * b[:, None] + jnp.arange(192.0), (P, Q, normal(128)),
        lambda x, y, b: (x @ y) * b[:, None] + np.arange(192.0)),
    "an array spread alone": (
        lambda x, y: (x @ y, jnp.broadcast_to(x[0], (50, 160))), (P, Q),
        lambda x, y: (x @ y, np.broadcast_to(x[0], (50, 160)))),
    "sums": (lambda x, y: ((x @ y).sum(), (x @ y).max(0), x.min()), (P, Q),
             lambda x, y: ((x @ y).sum(), (x @ y).max(0), x.min())),
    "what follows from no argument": (
        lambda x, y: (x @ y, jnp.eye(4), jnp.float32(1) / 3, jnp.arange(5) * 2), (P, Q),
        lambda x, y: (x @ y, np.eye(4), np.float32(1) / 3, np.arange(5) * 2)),
    "rows picked": (lambda x, y, i: (x @ y)[i] * 2, (P, Q, np.array([5, -1, 0, 127] * 40)),
                    lambda x, y, i: (x @ y)[i] * 2),
    "integers and booleans": (
        lambda x, y: (x @ y > 0, ((x @ y) * 10).astype(jnp.int32) // 3, (x @ y).astype(jnp.int8)),
        (P, Q / 8), lambda x, y: (x @ y > 0, ((x @ y) * 10).astype("i4") // 3,
                                  (x @ y).astype("i1"))),
    "a convolution with zeros around": (
        lambda x, k: smoothed(x, k, "NHWC"), (IMAGES, KERNEL), smoothed_by_numpy),
    "the same in planes": (
        lambda x, k: smoothed(x, k, "NCHW"),
        (IMAGES.transpose(0, 3, 1, 2).copy(), KERNEL.transpose(3, 2, 0, 1).copy()),
        lambda x, k: smoothed_by_numpy(
            x.transpose(0, 2, 3, 1), k.transpose(2, 3, 1, 0)).transpose(0, 3, 1, 2)),
    "no columns but one": (lambda x, y: jnp.tanh(x @ y[:, :1]) + (x @ y)[:, :1], (P, Q / 30),
                           lambda x, y: np.tanh(x @ y[:, :1]) + (x @ y)[:, :1]),
}


@pytest.mark.parametrize("name", CLOSED)
def test_nothing_is_left_to_iree(name: str) -> None:
    f, args, want = CLOSED[name]
    assert lowered(f, *args).closed, families(f, *args)
    found, wanted = calque.jit(f)(*args), want(*args)
    for got, w in zip(*([x] if not isinstance(x, tuple) else x for x in (found, wanted)),
                      strict=True):
        exact = np.asarray(w).dtype.kind in "biu"
        slack = 1 if exact else 1e-5 * max(1.0, float(np.abs(w).max()))  # sums of 160 to 192
        np.testing.assert_allclose(np.asarray(got).astype("f8"), np.asarray(w).astype("f8"),
                                   rtol=1e-5, atol=slack if not exact or (
                                       np.asarray(w).dtype.kind in "iu") else 0)


def test_gradients_and_donation() -> None:
    w = [normal(64, 128) / 8, normal(128), normal(128, 10) / 8, normal(10)]
    x, y = normal(32, 64), normal(32, 10, seed=1)

    def loss(w: Any) -> Any:
        return ((jnp.tanh(x @ w[0] + w[1]) @ w[2] + w[3] - y) ** 2).mean()

    step = calque.jit(lambda w: [p - 0.1 * g for p, g in zip(w, calque.grad(loss)(w))],
                      donate_argnums=0)
    made = step([jnp.asarray(p) for p in w])
    h = np.tanh(x @ w[0] + w[1])
    d = 2 * (h @ w[2] + w[3] - y) / y.size
    dh = d @ w[2].T * (1 - h * h)
    for got, p, g in zip(made, w, (x.T @ dh, dh.sum(0), h.T @ d, d.sum(0))):
        np.testing.assert_allclose(got, p - 0.1 * g, rtol=1e-4, atol=1e-5)


def test_what_has_no_kernel_goes_to_iree_as_it_did() -> None:
    f = lambda x: (x @ x.T + 1, jnp.sort(x.astype(jnp.complex64), axis=0))  # noqa: E731
    assert not lowered(f, P).closed
    np.testing.assert_allclose(calque.jit(f)(P)[0], P @ P.T + 1, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("m, n, k", [
    (1, 1, 700), (2, 3, 4), (15, 10, 33), (17, 31, 65), (128, 10, 32), (32, 128, 10), (5, 33, 64),
    (14, 32, 129), (70, 1, 90)])
def test_small_products_pack_on_the_stack(m: int, n: int, k: int) -> None:
    """In every order of both operands, beside a large one that closes the program."""
    for turns in itertools.product((False, True), repeat=2):
        x, y = normal(m, k), normal(k, n, seed=1)

        def f(x: Any, y: Any, p: Any, q: Any, turns: Any = turns) -> Any:
            return (x.T if turns[0] else x) @ (y.T if turns[1] else y) + 1, p @ q

        args = (x.T.copy() if turns[0] else x, y.T.copy() if turns[1] else y, P, Q)
        assert lowered(f, *args).closed
        np.testing.assert_allclose(calque.jit(f)(*args)[0], x.astype("f8") @ y + 1,
                                   rtol=1e-5, atol=4e-7 * k)  # k roundings of 6e-8


def test_equal_kernels_are_one_executable() -> None:
    """Of calls of a C kernel with other sizes, too."""
    w = [normal(a, b) for a, b in ((64, 80), (80, 64), (64, 96))]

    def f(x: Any, w: Any) -> Any:
        for p in w:
            x = x @ p
        return x

    text = str(calque.jit(f).lower(P[:, :64].copy(), w).as_text())
    assert text.count("flow.dispatch") == 3
    assert text.count("stream.executable private") == 1


def test_a_loop_is_carried_on() -> None:
    """Loops that are written out, and those that are kernels, among products."""
    f = lambda x, y: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ y) + i, x @ y)  # noqa: E731
    y = normal(160, 160) / 20
    want = P @ y
    for i in range(3):
        want = np.tanh(want @ y) + i
    np.testing.assert_allclose(calque.jit(f)(P, y), want, rtol=1e-4, atol=1e-4)


def test_strides_of_another_shape() -> None:
    """As NumPy finds them where it need not copy."""
    draw = random.Random(3)
    seen = {True: 0, False: 0}
    for _ in range(3000):
        shape = tuple(draw.choice([1, 2, 3, 4, 6]) for _ in range(draw.randint(1, 4)))
        x = np.arange(math.prod(shape)).reshape(shape)
        x = x.transpose(draw.sample(range(x.ndim), x.ndim))[::draw.choice([1, 1, 2])]
        new, left = [], x.size
        while left > 1:
            new.append(draw.choice([d for d in range(2, left + 1) if left % d == 0]))
            left //= new[-1]
        for _ in range(draw.randint(0, 2)):
            new.insert(draw.randint(0, len(new)), 1)
        found = strided.reshaped(x.shape, tuple(s // 8 for s in x.strides), tuple(new))
        y = x.reshape(new)
        assert (found is not None) == np.shares_memory(x, y) or x.size == 0, (x.shape, new)
        seen[found is not None] += 1
        if found is not None:
            assert all(n == 1 or s == t // 8 for n, s, t in zip(new, found, y.strides))
    assert min(seen.values()) > 300


def test_results_that_are_one_value_stay_apart() -> None:
    """What an argument, another result, or a number of the program is, beside a product."""
    def f(x: Any, y: Any, w: Any) -> Any:
        h = x @ y
        return h, w, h, w * 1, jnp.float32(1) / 4, (h * 1).T[:3], w

    made = calque.jit(f)(P, Q, np.float32(3))
    h = P @ Q
    for got, want in zip(made, (h, 3, h, 3, 0.25, h.T[:3], 3), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)  # sums of 160


def test_constants_that_read_what_a_kernel_has_taken() -> None:
    """A kernel takes one constant with what reads it; what is left of the constants follows from
    that kernel, so that they are not one kernel with others: it was a cycle."""
    def f(x: Any, y: Any) -> Any:
        eye, two = jnp.eye(28), lax.full((4,), -2.0)
        first = (y + two)[0]  # in one kernel with what reads the product of eye
        factors, _, _ = lax.linalg.lu((eye @ x).T * first + 9 * eye)
        return eye * factors[0, 0] @ x, jnp.abs(two)

    x, y = normal(28, 28), normal(4)
    pivot = np.abs((x.T * (y[0] - 2) + 9 * np.eye(28))[:, 0]).max()
    made = calque.jit(f)(x, y)
    np.testing.assert_allclose(abs(made[0]), abs(pivot * x), rtol=1e-5)
    np.testing.assert_array_equal(made[1], np.full(4, 2, np.float32))


def test_a_branch_that_calls_python_leaves_the_rest_kernels() -> None:
    """A check that raises (equinox's error_if) sent all of a program to IREE."""
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(20, 20)).astype("float32") / 4, rng.normal(size=20).astype("float32")

    def f(x: Any, w: Any) -> Any:
        y = jnp.tanh(w @ x) / (1.0 + jnp.sum(x * x))
        y = lax.cond(jnp.isnan(y).any(), lambda y: calque.pure_callback(
            lambda v: np.zeros_like(v), calque.ShapeDtypeStruct(y.shape, y.dtype), y),
            lambda y: y, y)
        return jnp.tanh(w @ y) + jnp.dot(y, y)

    def by_numpy(x: Any) -> Any:
        y = np.tanh(w @ x) / (1.0 + np.sum(x * x))
        y = np.zeros_like(y) if np.isnan(y).any() else y
        return np.tanh(w @ y) + y @ y

    assert lowered(f, x, w).closed
    np.testing.assert_allclose(calque.jit(f)(x, w), by_numpy(x), rtol=1e-5)
    bad = np.where(np.arange(20) == 3, np.nan, x).astype("float32")
    np.testing.assert_allclose(calque.jit(f)(bad, w), by_numpy(bad), rtol=1e-5)
