"""out_sharding=, device=, auto_axes and explicit_axes: types, labels and errors are those of JAX
0.10.2 on the same calls (but for arrays that nobody placed without a mesh in the context, which
JAX refuses over Explicit axes); values are those without them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.core.sharding import IndivisibleError, ShardingTypeError
from calque.sharding import (
    AxisType,
    NamedSharding,
    SingleDeviceSharding,
    auto_axes,
    explicit_axes,
    get_abstract_mesh,
)
from calque.sharding import PartitionSpec as P

MESH = calque.make_mesh((2, 2), ("x", "y"))
AUTO = calque.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
GRID = np.arange(64, dtype=np.float32).reshape(8, 8)
X = calque.device_put(GRID, NamedSharding(MESH, P("x", "y")))
Y = calque.device_put(GRID, NamedSharding(AUTO, P("x", "y")))
KEY = random.key(0)
LAST = calque.devices()[3]

Out = Callable[[Any, Any], Any]  # of an array and what says where the result is
TYPED: list[tuple[Out, str]] = [
    (lambda x, s: jnp.reshape(x, (4, 16), out_sharding=s), "float32[4@x,16]"),
    (lambda x, s: jnp.ravel(x, out_sharding=s), "float32[64@x]"),
    (lambda x, s: lax.reshape(x, (16, 4), out_sharding=s), "float32[16@x,4]"),
    (lambda x, s: jnp.matmul(x, x, out_sharding=s), "float32[8@x,8]"),
    (lambda x, s: jnp.dot(x.T, x, out_sharding=s), "float32[8@x,8]"),
    (lambda x, s: jnp.tensordot(x, x, 1, out_sharding=s), "float32[8@x,8]"),
    (lambda x, s: jnp.einsum("ij,jk,lk->il", x, x, x, out_sharding=s), "float32[8@x,8]"),
    (lambda x, s: lax.dot_general(x, x, (((1,), (0,)), ((), ())), out_sharding=s),
     "float32[8@x,8]"),
    (lambda x, s: jnp.broadcast_to(x, (2, 8, 8), out_sharding=s), "float32[2@x,8,8]"),
    (lambda x, s: lax.broadcast(x[None, 0, :] if s is None else x.at[None, 0].get(
        out_sharding=P(None, None)), (4,), out_sharding=s), "float32[4@x,1,8]"),
    (lambda x, s: x.at[jnp.array([0, 1])].get(out_sharding=s), "float32[2@x,8]"),
    (lambda x, s: x.at[:4].get(out_sharding=s), "float32[4@x,8]"),
    (lambda x, s: x.at[0].set(1., out_sharding=s), "float32[8@x,8]"),
    (lambda x, s: jnp.repeat(x, 2, axis=0, out_sharding=s), "float32[16@x,8]"),
    (lambda x, s: lax.reduce_sum(x, (0,), out_sharding=s), "float32[8@x]"),
    (lambda x, s: lax.ragged_dot(x, x[None] if s is None else x.reshape(1, 8, 8), jnp.array([8]),
                                 out_sharding=s), "float32[8@x,8]"),
    (lambda x, s: jnp.percentile(x, 50, axis=1, out_sharding=s), "float32[8@x]"),
    (lambda x, s: calque.ops.segment_sum(x, jnp.arange(8), 8, out_sharding=s), "float32[8@x,8]"),
    (lambda x, s: lax.broadcasted_iota("int32", (4, 4), 1, out_sharding=s), "int32[4@x,4]"),
    (lambda x, s: jnp.zeros((4, 2), out_sharding=s), "float32[4@x,2]"),
    (lambda x, s: jnp.arange(8, out_sharding=s), "int32[8@x]"),
    (lambda x, s: jnp.asarray(GRID, out_sharding=s), "float32[8@x,8]"),
    (lambda x, s: random.normal(KEY, (4, 2), out_sharding=s), "float32[4@x,2]"),
    (lambda x, s: random.randint(KEY, (4, 2), 0, 3, out_sharding=s), "int32[4@x,2]"),
    (lambda x, s: calque.nn.initializers.ones(KEY, (4, 2), out_sharding=s), "float32[4@x,2]")]


def test_out_sharding() -> None:
    """At once and in a function that is traced; the values are those of plain arrays."""
    with calque.set_mesh(MESH):
        eager = [f(X, P("x")) for f, _ in TYPED]
        traced = calque.eval_shape(lambda x: [f(x, P("x")) for f, _ in TYPED], X)
    assert [str(calque.typeof(v)) for v in eager] == [t for _, t in TYPED]
    assert [v.sharding for v in traced] == [NamedSharding(MESH.abstract_mesh, v.sharding.spec)
                                            for v in eager]
    for v, (f, _) in zip(eager, TYPED):
        np.testing.assert_allclose(v, f(jnp.asarray(GRID), None), rtol=1e-6)
        assert v.committed and v.sharding.mesh == MESH
        assert len(v.sharding.spec) == v.ndim


def test_out_sharding_of_derivatives_and_vmap() -> None:
    def loss(x: Any) -> Any:
        return (jnp.matmul(x.T, x, out_sharding=NamedSharding(MESH, P("x"))) ** 2).sum()

    found = calque.jit(calque.grad(loss))(X)
    assert str(calque.typeof(found)) == "float32[8@x,8@y]"
    np.testing.assert_allclose(found, 4 * GRID @ (GRID.T @ GRID), rtol=1e-5)
    wide = calque.vmap(lambda v: jnp.reshape(v, (4, 2), out_sharding=NamedSharding(MESH, P("y"))))
    assert str(calque.typeof(wide(X))) == "float32[8@x,4@y,2]"
    with pytest.raises(ShardingTypeError):  # what was resolved is not remembered
        X.T @ X


MADE: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda s: jnp.zeros((4, 2), device=s), np.zeros((4, 2))),
    (lambda s: jnp.ones((4, 2), "int32", device=s), np.ones((4, 2))),
    (lambda s: jnp.empty((4,), device=s), np.zeros(4)),
    (lambda s: jnp.full((4, 2), 3, device=s), np.full((4, 2), 3)),
    (lambda s: jnp.full((4, 2), np.arange(2), device=s), np.tile(np.arange(2), (4, 1))),
    (lambda s: jnp.arange(8, device=s), np.arange(8)),
    (lambda s: jnp.linspace(0, 7, 8, device=s), np.arange(8)),
    (lambda s: jnp.eye(8, device=s), np.eye(8)),
    (lambda s: jnp.array([[1, 2], [3, 4]], device=s), [[1, 2], [3, 4]]),
    (lambda s: jnp.asarray(GRID, device=s), GRID),
    (lambda s: jnp.array(jnp.asarray(GRID), device=s), GRID),
    (lambda s: jnp.zeros_like(X, device=s), np.zeros((8, 8))),
    (lambda s: jnp.full_like(GRID, 2, device=s), np.full((8, 8), 2)),
    (lambda s: jnp.astype(GRID, "int32", device=s), GRID.astype("int32")),
    (lambda s: jnp.fft.fftfreq(8, device=s), np.fft.fftfreq(8)),
    (lambda s: lax.full((4,), 2., sharding=s), np.full(4, 2)),
    (lambda s: jnp.from_dlpack(GRID, device=s), GRID)]


@pytest.mark.parametrize("where", [
    NamedSharding(AUTO, P("x")), NamedSharding(MESH, P("x")), LAST, SingleDeviceSharding(LAST)])
def test_device(where: Any) -> None:
    want = SingleDeviceSharding(where) if where is LAST else where
    for f, value in MADE:
        made = f(where)
        assert made.committed and made.sharding == want
        np.testing.assert_array_equal(made, value)
        if getattr(where, "mesh", None) is MESH:
            found = calque.eval_shape(lambda f=f: f(where)).sharding.spec
            assert found.of_rank(2) == want.spec.of_rank(2)


def test_auto_axes() -> None:
    seen: list[tuple[str, Any]] = []

    def gram(x: Any) -> Any:
        seen.append((str(calque.typeof(x)), get_abstract_mesh().axis_types))
        return x.T @ x

    auto = auto_axes(gram, out_sharding=NamedSharding(MESH, P("x", "y")))
    for f in (auto, calque.jit(auto)):
        assert str(calque.typeof(f(X))) == "float32[8@x,8@y]"
        np.testing.assert_allclose(f(X), GRID.T @ GRID, rtol=1e-6)
    assert set(seen) == {("float32[8,8]", (AxisType.Auto,) * 2)}
    found = calque.grad(lambda x: (auto(x) ** 2).sum())(X)
    assert str(calque.typeof(found)) == "float32[8@x,8@y]"
    np.testing.assert_allclose(found, 4 * GRID @ (GRID.T @ GRID), rtol=1e-5)
    with calque.set_mesh(MESH):
        tree = auto_axes(lambda x: {"a": 2 * x, "b": x.sum()})(
            X, out_sharding={"a": P("x"), "b": P()})
        assert calque.tree.map(lambda v: str(calque.typeof(v)), tree) == {
            "a": "float32[8@x,8]", "b": "float32[]"}
        one = auto_axes(axes="x", out_sharding=P("x"))(lambda x: seen.append(
            (str(calque.typeof(x)), None)) or 2 * x)
        assert str(calque.typeof(one(X))) == "float32[8@x,8]"
        assert seen[-1][0] == "float32[8,8@y]"
        assert get_abstract_mesh() == MESH.abstract_mesh


def test_explicit_axes() -> None:
    seen: list[str] = []

    def twice(x: Any) -> Any:
        seen.append(str(calque.typeof(x)))
        return 2 * x

    with calque.set_mesh(AUTO):
        typed = explicit_axes(twice, in_sharding=P("x"))
        for f in (typed, calque.jit(typed)):
            for given in (Y, GRID):
                made = f(given)
                assert str(calque.typeof(made)) == "float32[8,8]"
                assert made.sharding.is_equivalent_to(NamedSharding(AUTO, P("x")), 2)
                np.testing.assert_array_equal(made, 2 * GRID)
        with pytest.raises(ShardingTypeError, match="Contracting dimensions"):
            explicit_axes(lambda x: x.T @ x, in_sharding=P("x"))(Y)
    assert set(seen) == {"float32[8@x,8]"}


S = NamedSharding(AUTO, P("x"))


@pytest.mark.parametrize("call, kind, words", [
    (lambda: jnp.reshape(X, (4, 16)), ShardingTypeError, "Please specify the sharding of the out"),
    (lambda: X @ X, ShardingTypeError, "contracting dimensions to have consistent sharding"),
    (lambda: X[0], ShardingTypeError, r"Use `.at\[...\].get\(out_sharding=\)`"),
    (lambda: jnp.zeros((3, 2), device=S), IndivisibleError, "partitioned 2 times"),
    (lambda: jnp.zeros((), device=S), ValueError, "rank at least 1"),
    (lambda: jnp.asarray(GRID[:3], device=S), IndivisibleError, "partitioned 2 times"),
    (lambda: jnp.zeros(4, device=3), ValueError, "Received invalid value: 3"),
    (lambda: jnp.zeros(4, device=P("x")), ValueError, "set a mesh via `jax.set_mesh`"),
    (lambda: jnp.zeros(4, device=S, out_sharding=S), ValueError, "Only one of `device` or `out_sh"),
    (lambda: jnp.matmul(GRID, GRID, out_sharding=S), ValueError, "type Auto or Manual"),
    (lambda: jnp.matmul(GRID, GRID, out_sharding=P("x")), ValueError, "not under a mesh context"),
    (lambda: jnp.matmul(GRID, GRID, out_sharding=LAST), TypeError, "only supports instances of"),
    (lambda: jnp.reshape(X, (2, 32), out_sharding=NamedSharding(MESH, P(("x", "y")))),
     IndivisibleError, "partitioned 4 times"),
    (lambda: jnp.ravel(X, out_sharding=NamedSharding(MESH, P(None, "x"))), ValueError,
     "rank at least 2"),
    (lambda: calque.shard_map(lambda v: jnp.ravel(v, out_sharding=P("x")), mesh=MESH,
                              out_specs=P("x", "y"))(X), ValueError, "type Auto or Manual"),
    (lambda: auto_axes(lambda x: x)(X), TypeError, "Missing required keyword argument: 'out_shard"),
    (lambda: auto_axes(lambda x: x, out_sharding=P("x"))(X), ValueError,
     "context mesh cannot be emp"),
    (lambda: auto_axes(lambda x: x, axes="q", out_sharding=NamedSharding(MESH, P()))(X),
     ValueError, "no axis of"),
    (lambda: explicit_axes(lambda x: x)(X), TypeError, "Missing required keyword argument: 'in_sh"),
    (lambda: calque.sharding.reshard(GRID[:3], NamedSharding(MESH, P("x"))), ValueError,
     "partitioned 2 times"),
    (lambda: calque.jit(lambda v: calque.sharding.reshard(v, NamedSharding(MESH, P("x"))))(
        GRID[:3]), ValueError, "partitioned 2 times"),
    (lambda: calque.jit(lambda: jnp.arange(3, device=S))(), IndivisibleError, "partitioned 2 time"),
    (lambda: lax.cond(True, lambda v: v.T, lambda v: v, X), TypeError,
     "so the shardings do not match"),
    (lambda: calque.sharding.reshard(X, 3), TypeError, "only supports instances of")])
def test_bad_input(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=f"{words}(.|\n)*Fix: "):
        call()


def test_what_is_found_in_an_array_lies_beside_it() -> None:
    last = calque.devices()[1]
    x = calque.device_put(np.arange(4, dtype=np.float32), last)
    for made in (x[x > 9], x[x > 1], jnp.where(x > 1)[0], jnp.nonzero(x, size=5)[0],
                 jnp.argwhere(x), calque.lax.full_like(x, 2), jnp.flatnonzero(x)):
        assert made.devices() == {last}
    assert calque.lax.full_like(x, 2).tolist() == [2] * 4 and x[x > 2].tolist() == [3]


def test_data_of_this_process_by_devices_and_specs() -> None:
    make, data = calque.make_array_from_process_local_data, np.arange(10).reshape(2, 5)
    last = calque.devices()[1]
    for shape in (None, (2, 5), {"a": (2, 5)}):
        made = make(last, {"a": data}, shape)["a"]
        assert made.devices() == {last} and made.tolist() == data.tolist()
    for shape in ((2, 8), {"a": (2, 6)}, {"a": (2, 5), "b": (3, 5)}):
        with pytest.raises(ValueError):
            make(last, {"a": data}, shape)
    with calque.set_mesh(MESH):
        assert make(P("x"), data).sharding.spec == P("x")
