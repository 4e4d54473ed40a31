"""pmap: axes, trees, static and donated arguments, transformations, errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.sharding import NamedSharding
from calque.sharding import PartitionSpec as P

X = np.arange(8, dtype=np.float32)


def test_axes_and_trees() -> None:
    def f(t: Any, w: Any, *, k: Any) -> Any:
        return {"sum": lax.psum(t["a"], "i") + w, "own": t["b"] * k}, w

    t = {"a": np.arange(8.0, dtype="f4"), "b": np.arange(24, dtype="f4").reshape(3, 8)}
    out, w = calque.pmap(f, axis_name="i", in_axes=({"a": 0, "b": 1}, None), out_axes=(
        {"sum": 0, "own": 1}, None))(t, np.float32(1), k=X)
    np.testing.assert_array_equal(out["sum"], np.full(8, 29, "f4"))
    np.testing.assert_array_equal(out["own"], t["b"] * X)
    assert w.shape == () and w == 1
    assert out["sum"].sharding.spec == P("i") and out["own"].sharding.spec == P(None, "i")
    assert w.sharding.is_fully_replicated and len(w.sharding.device_set) == 8


def test_result_lies_on_the_devices() -> None:
    y = calque.pmap(lambda x: x * 2)(X.reshape(4, 2))
    assert isinstance(y.sharding, NamedSharding) and y.committed
    assert [s.device for s in y.addressable_shards] == calque.devices()[:4]
    np.testing.assert_array_equal(y.addressable_shards[3].data, [[12, 14]])
    some = calque.pmap(lambda x: x, devices=calque.devices()[4:])(X[:4])
    assert some.devices() == set(calque.devices()[4:])
    again = calque.pmap(lambda x: x + 1)(some)  # arguments go where pmap says
    assert again.devices() == set(calque.devices()[:4])


def test_what_is_mapped_is_wrapped() -> None:
    def f(x):  # type: ignore[no-untyped-def]
        return x

    assert calque.pmap(f).__wrapped__ is f and calque.pmap(f).__name__ == "f"


def test_static_donated_and_lowered() -> None:
    f = calque.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)
    np.testing.assert_array_equal(f(X, 3), 3 * X)
    np.testing.assert_array_equal(calque.pmap(
        lambda n, x: x * n, static_broadcasted_argnums=0, in_axes=(None, 0))(3, X), 3 * X)
    given = calque.numpy.asarray(X)
    calque.pmap(lambda x: x + 1, donate_argnums=0)(given)
    assert given.is_deleted()
    run = calque.pmap(lambda x: x + lax.psum(x, "i"), axis_name="i").lower(X).compile()
    np.testing.assert_array_equal(run(X), X + 28)


def test_transformations() -> None:
    def f(v: Any) -> Any:
        return jnp.sin(v) * lax.psum(v, "i")

    def mapped(x: Any) -> Any:
        return calque.pmap(f, axis_name="i")(x)

    def plain(x: Any) -> Any:
        return calque.vmap(f, axis_name="i")(x)

    def every(g: Any, x: Any) -> Any:
        loss = lambda v: g(v).sum()  # noqa: E731
        return (calque.grad(loss)(x), calque.jvp(g, (x,), (x,)), calque.hessian(loss)(x),
                calque.vmap(g)(jnp.stack([x, 2 * x])), calque.vmap(g, in_axes=1, out_axes=1)(
                    jnp.stack([x, 2 * x], 1)), calque.grad(calque.checkpoint(loss))(x),
                lax.scan(lambda c, _: (g(c), c), x, None, length=2)[0])

    calque.tree_util.tree_map(
        lambda got, want: np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5),
        calque.jit(lambda x: every(mapped, x))(X[:4]), calque.jit(lambda x: every(plain, x))(X[:4]))
    inside = calque.pmap(calque.grad(lambda v: f(v)), axis_name="i")(X)
    np.testing.assert_allclose(inside, calque.vmap(calque.grad(f), axis_name="i")(X), rtol=1e-5)
    np.testing.assert_array_equal(calque.pmap(calque.vmap(lambda y: y * 2))(X.reshape(4, 2)),
                                  2 * X.reshape(4, 2))


def test_jit_inside_is_traced_for_each_size_of_the_axis() -> None:
    total = calque.jit(lambda v: lax.psum(v, "i") / lax.axis_size("i"))
    for n in (2, 8):
        np.testing.assert_array_equal(calque.pmap(total, axis_name="i")(X[:n]),
                                      np.full(n, X[:n].mean()))


def test_custom_rules_and_keys_inside() -> None:
    @calque.custom_vjp
    def f(x: Any) -> Any:
        return x * x
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (3 * x * ct,))
    got = calque.grad(lambda x: calque.pmap(f)(x).sum())(X)
    np.testing.assert_array_equal(got, 3 * X)

    @calque.custom_vjp
    def g(x: Any) -> Any:
        return x * lax.psum(x, "i")
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * x * lax.axis_size("i"),))
    got = calque.grad(lambda x: calque.pmap(g, axis_name="i")(x).sum())(X)
    np.testing.assert_array_equal(got, 8 * X)
    got = calque.grad(lambda x: calque.vmap(g, axis_name="i")(x).sum())(X)
    np.testing.assert_array_equal(got, 8 * X)

    @calque.custom_jvp
    def h(x: Any) -> Any:
        return x + lax.psum(x, "i")
    h.defjvp(lambda p, t: (h(p[0]), t[0] * lax.psum(p[0], "i")))
    got = calque.jvp(calque.pmap(h, axis_name="i"), (X,), (X,))[1]
    np.testing.assert_array_equal(got, X * X.sum())
    keys = calque.random.split(calque.random.key(0), 4)
    draws = calque.pmap(lambda k: calque.random.normal(k, (3,)))(keys)
    np.testing.assert_array_equal(draws, calque.vmap(
        lambda k: calque.random.normal(k, (3,)))(keys))


@pytest.mark.parametrize("call, kind, words", [
    (lambda: calque.pmap(lambda x: x)(np.ones(16)), ValueError, "requires 16 logical devices"),
    (lambda: calque.pmap(lambda x, y: x)(X, X[:4]), ValueError,
     "argument x of shape.*size 8(.|\n)*argument y of shape.*size 4"),
    (lambda: calque.pmap(lambda x: x, in_axes=None)(X), ValueError, "at least one argument"),
    (lambda: calque.pmap(lambda x: x)(3.0), ValueError, "rank should be at least 1"),
    (lambda: calque.pmap(lambda x: x, in_axes=(0, 0))(X), ValueError, "pytree structure error"),
    (lambda: calque.pmap(lambda x: x, axis_size=4)(X), ValueError, "axis_size 4 doesn't match"),
    (lambda: calque.pmap(lambda x: x, in_axes=2)(X), ValueError, "rank should be at least 3"),
    (lambda: calque.pmap(lambda x: x, out_axes=4)(X), ValueError, "out of bounds"),
    (lambda: calque.pmap(3), TypeError, "callable"),
    (lambda: calque.pmap(lambda x: "a")(X), TypeError, "not a valid JAX type")])
def test_bad_input(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
