"""Sharding in types, over Explicit axes: what typeof says, what is ambiguous.

Types and errors are those of JAX 0.10.2 on the same calls."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.sharding import ShardingTypeError
from calque.sharding import NamedSharding, reshard
from calque.sharding import PartitionSpec as P

MESH = calque.make_mesh((4,), ("x",))
GRID = np.arange(64, dtype=np.float32).reshape(8, 8)
V = calque.device_put(np.arange(8, dtype=np.float32), NamedSharding(MESH, P("x")))
X = calque.device_put(GRID, NamedSharding(MESH, P("x")))

TYPES: list[tuple[Any, str]] = [
    (lambda: V + 1, "float32[8@x]"), (lambda: V.sum(), "float32[]"),
    (lambda: X @ X, "float32[8@x,8]"), (lambda: X.T, "float32[8,8@x]"),
    (lambda: X.reshape(64), "float32[64@x]"), (lambda: X.reshape(4, 2, 8), "float32[4@x,2,8]"),
    (lambda: jnp.sort(X, 1), "float32[8@x,8]"),
    (lambda: jnp.concatenate([X, X]), "float32[16@x,8]"),
    (lambda: jnp.split(X, 2)[0], "float32[4@x,8]"),
    (lambda: lax.dynamic_slice(X, (0, 1), (4, 2)), "float32[4@x,2]"),
    (lambda: X.at[:, 0].add(1.), "float32[8@x,8]"),
    (lambda: X[:, 0], "float32[8@x]"), (lambda: jnp.where(X > 0, X, 0), "float32[8@x,8]"),
    (lambda: calque.vmap(jnp.sum)(X), "float32[8@x]"), (lambda: X.mean(0), "float32[8]"),
    (lambda: calque.jit(lambda x: x @ x)(X), "float32[8@x,8]"),
    (lambda: calque.grad(lambda x: (x @ x).sum())(X), "float32[8@x,8]"),
    (lambda: calque.jit(calque.grad(lambda x: (x @ x).sum()))(X), "float32[8@x,8]"),
    (lambda: reshard(X, NamedSharding(MESH, P(None, "x"))), "float32[8,8@x]"),
    (lambda: calque.jit(lambda x: lax.scan(lambda c, a: (c + a, c * a), jnp.zeros(8), x)[1])(X.T),
     "float32[8,8@x]")]


def test_types() -> None:
    assert [str(calque.typeof(f())) for f, _ in TYPES] == [t for _, t in TYPES]
    text = str(calque.make_jaxpr(lambda x: jnp.sin(x) * 2)(X))
    assert text == ("{ lambda ; a:f32[8@x,8]. let\n    b:f32[8@x,8] = sin a\n"
                    "    c:f32[8@x,8] = mul b 2.0:f32[]\n  in (c,) }")


@pytest.mark.parametrize("call, words", [
    (lambda: X.T @ X, "Contracting dimensions are sharded"),
    (lambda: calque.jit(lambda x: x.T @ x)(X), "Contracting dimensions are sharded"),
    (lambda: X + V, "add got incompatible shardings for broadcasting"),
    (lambda: X + X.T, "add got incompatible shardings for broadcasting"),
    (lambda: X[0], "resolved unambiguously"), (lambda: X[jnp.array([0, 1])], "resolved"),
    (lambda: jnp.sort(X, 0), "Arguments to sort must be unsharded"),
    (lambda: jnp.cumsum(X, 0), "unsharded over the axis being reduced"),
    (lambda: lax.top_k(X.T, 2), "runs along dimension 1"), (lambda: X[:2], "resolved"),
    (lambda: jnp.roll(X, 1, 0), "resolved")])
def test_ambiguity_is_an_error(call: Any, words: str) -> None:
    with pytest.raises(ShardingTypeError, match=f"{words}(.|\n)*Fix: .*reshard"):
        call()


def test_shard_map_takes_its_specs_from_types() -> None:
    doubled = calque.shard_map(lambda v: 2 * v, mesh=MESH, out_specs=P("x"))(V)
    np.testing.assert_array_equal(doubled, 2 * np.arange(8))
    with pytest.raises(ValueError, match="does not match the specs of the input"):
        calque.shard_map(lambda v: v, mesh=MESH, in_specs=P(), out_specs=P("x"))(V)


def test_types_have_an_entry_for_each_axis() -> None:
    """As JAX's: what is left out of a spec is None in the types of results."""
    mesh = calque.make_mesh((2, 2), ("x", "y"))
    x = calque.device_put(np.ones((4, 2), np.float32), NamedSharding(mesh, P("x")))
    assert calque.jit(lambda x: 2 * x)(x).sharding.spec == P("x", None)
    with calque.set_mesh(mesh):
        assert x.at[:, 1].set(0).sharding.spec == P("x", None)
        spec = calque.ShapeDtypeStruct((4, 2), np.float32, sharding=P("x"))
    assert spec.sharding == NamedSharding(mesh, P("x"))
    with pytest.raises(TypeError, match="the context mesh cannot be empty"):
        _ = calque.ShapeDtypeStruct((4, 2), np.float32, sharding=P("x")).sharding
    with pytest.raises(TypeError, match="sharding should be a Sharding"):
        calque.ShapeDtypeStruct((4, 2), np.float32, sharding="x")
    assert mesh.abstract_mesh.update(axis_sizes=(4, 2)).axis_sizes == (4, 2)


def test_no_sharding_is_no_constraint() -> None:
    with pytest.raises(ValueError, match="got sharding None which is not allowed"):
        calque.lax.with_sharding_constraint(np.ones(3), None)


def test_types_of_arrays_that_nobody_placed() -> None:
    """A mesh without axes, eagerly and traced; functions take what such a type says, and what
    places arrays refuses it."""
    empty = NamedSharding(calque.sharding.AbstractMesh((), ()), P(None, None))
    seen = [calque.typeof(jnp.asarray(GRID)).sharding]
    calque.jit(lambda x: seen.append(calque.typeof(x).sharding))(GRID)
    calque.jit(calque.vmap(lambda x: seen.append(x.aval.sharding)))(jnp.ones((2, 8, 8)))
    assert seen == [empty] * 3 and seen[0].is_fully_replicated and seen[0].mesh.empty
    assert str(empty) == "NamedSharding(mesh=AbstractMesh((), axis_types=()), spec=P(None, None))"
    assert calque.core.ShapedArray((8, 8), "float32", sharding=empty) is calque.typeof(GRID)
    for made in (jnp.zeros((8, 8), out_sharding=empty), jnp.asarray(GRID, device=empty) * 0,
                 jnp.reshape(jnp.zeros(64), (8, 8), out_sharding=empty)):
        np.testing.assert_array_equal(made, 0 * GRID)
    for refuse in (lambda: reshard(GRID, empty), lambda: calque.device_put(GRID, empty),
                   lambda: calque.jit(jnp.sin, out_shardings=empty)):
        with pytest.raises(ValueError, match="mpty|no devices"):
            refuse()


def test_types_in_a_context() -> None:
    """The context's mesh is in the types of what nobody placed; a label over Auto axes is none."""
    auto = calque.make_mesh((4,), ("x",), axis_types=(calque.sharding.AxisType.Auto,))
    seen: list[Any] = []
    for mesh in (MESH, auto):
        with calque.set_mesh(mesh):
            calque.jit(lambda: seen.append(calque.typeof(jnp.zeros(2)).sharding))()
    assert seen == [NamedSharding(mesh.abstract_mesh, P(None)) for mesh in (MESH, auto)]
    placed = calque.device_put(GRID, NamedSharding(auto, P("x")))
    assert placed.aval.sharding == NamedSharding(auto.abstract_mesh, P(None, None))
    assert placed.sharding.spec == P("x")


def test_an_axis_for_images_and_output_channels_is_refused() -> None:
    mesh = calque.make_mesh((2,), ("a",), axis_types=(calque.sharding.AxisType.Explicit,))
    x = calque.ShapeDtypeStruct((1, 1, 8), jnp.float32, sharding=NamedSharding(
        mesh, P(None, None, "a")))
    w = calque.ShapeDtypeStruct((2, 1, 3), jnp.float32, sharding=NamedSharding(mesh, P("a")))
    with pytest.raises(ShardingTypeError, match="(?s)both the images and the kernel's output.*Fix"):
        calque.eval_shape(lambda x, w: lax.conv(x, w, (1,), "SAME"), x, w)
