"""shard_map over some of a mesh's Explicit axes: the types of parts speak of the others, as in JAX
0.10.2; values and derivatives are those of the function of each half, in a loop."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.sharding import ShardingTypeError
from calque.sharding import PartitionSpec as P
from calque.sharding import reshard

MESH = calque.make_mesh((2, 2), ("x", "y"))
A = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
WEIGHTS = np.arange(32, dtype=np.float32).reshape(8, 4) / 8


@calque.custom_vjp
def own(x: Any) -> Any:
    return jnp.sin(x)


own.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),))

BODIES: dict[str, Any] = {
    "jit in checkpoint": calque.checkpoint(lambda x: calque.jit(lambda x: jnp.cos(x) * x)(x)),
    "scan": lambda x: lax.scan(lambda c, _: (c * 1.5 + x, c.sum(0)), x, None, length=3)[0],
    "scanned rows": lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros_like(x[0]), x)[1],
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c + x * i, x),
    "branch": lambda x: lax.cond(True, lambda x: x * 2, lambda x: x * 3, x),
    "own rule": own,
    "constants": lambda x: x * (jnp.arange(4.0) + np.ones((4, 4), np.float32)),
    "mapped": lambda x: calque.vmap(lambda row: row ** 3)(x),
    "gradient": lambda x: calque.grad(lambda x: (x ** 3).sum())(x),
    "update": lambda x: jnp.where(x > 0, x.at[0].set(1.0), x[jnp.array([3, 2, 1, 0])]),
    "softmax": lambda x: calque.nn.softmax(jnp.cumsum(x, 0), 0),
}


def mapped(f: Any) -> Any:
    return calque.shard_map(f, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})


def halves(f: Any) -> Any:
    return lambda x: jnp.concatenate([f(x[:4]), f(x[4:])])


@pytest.mark.parametrize("name", BODIES)
def test_values_and_derivatives(name: str) -> None:
    f = BODIES[name]
    want, slope = halves(f)(jnp.array(A)), calque.grad(lambda x: (halves(f)(x) * WEIGHTS).sum())(A)
    with calque.set_mesh(MESH):
        x = calque.device_put(A, P("x", "y"))
        for g in (mapped(f), calque.jit(mapped(f))):
            got = g(x)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            assert str(calque.typeof(got)) == "float32[8@x,4@y]"
            assert got.sharding.spec == P("x", "y")
        got = calque.jit(calque.grad(lambda x: (mapped(f)(x) * WEIGHTS).sum()))(x)
        np.testing.assert_allclose(got, slope, rtol=1e-5, atol=1e-5)


def test_types_of_parts() -> None:
    with calque.set_mesh(MESH):
        x = calque.device_put(A, P("x", "y"))
        for axis, spec, shown in (("x", P("x"), "float32[4,4@y]{V:x}"),
                                  ("y", P(None, "y"), "float32[8@x,2]{V:y}")):
            def f(x: Any, shown: str = shown) -> Any:
                assert str(calque.typeof(x)) == str(calque.typeof(x * 2)) == shown
                return x * 2
            out = calque.shard_map(f, in_specs=spec, out_specs=spec, axis_names={axis})(x)
            assert str(calque.typeof(out)) == "float32[8@x,4@y]"
        with pytest.raises(ShardingTypeError, match="[Cc]ontracting"):
            mapped(lambda x: x @ x.T)(x)
        whole = mapped(lambda x: reshard(x, P(None, None)) @ np.ones((4, 3), np.float32))(x)
        np.testing.assert_allclose(whole, A @ np.ones((4, 3)), rtol=1e-5)
        assert str(calque.typeof(whole)) == "float32[8@x,3]"
        inner = mapped(lambda x: calque.shard_map(
            lambda x: x * lax.psum(x.sum(1, keepdims=True), "y"), in_specs=P(None, "y"),
            out_specs=P(None, "y"), axis_names={"y"})(x))(x)
        np.testing.assert_allclose(inner, A * A.sum(1, keepdims=True), rtol=1e-5)


def test_in_specs_of_some_axes_may_be_others_than_the_types() -> None:
    with calque.set_mesh(MESH):
        x = calque.device_put(A, P("x", "y"))
        out = calque.shard_map(lambda x: x - x.sum(0), in_specs=P("y"), out_specs=P("y"),
                               axis_names={"y"})(x)
        np.testing.assert_allclose(out, halves(lambda x: x - x.sum(0))(A), rtol=1e-5, atol=1e-6)
        assert str(calque.typeof(out)) == "float32[8@(y,x),4]"
        with pytest.raises(ValueError, match="does not match the specs of the input"):
            calque.shard_map(lambda x: x, in_specs=P("y"), out_specs=P("y"))(x)
