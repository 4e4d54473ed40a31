"""What is said of places is kept, and refused where arrays are elsewhere; traces are shared."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meshes import mesh_of

import calque
import calque.numpy as jnp
from calque import lax
from calque.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from calque.sharding import PartitionSpec as P

X = np.arange(8, dtype=np.float32)


def double(x: Any) -> Any:
    return x * 2


def test_what_out_shardings_say_is_in_the_shapes() -> None:
    where = NamedSharding(mesh_of(x=2), P("x"))
    f = calque.jit(double, out_shardings=where)
    for found in (f.eval_shape(X), calque.eval_shape(f, X), f.trace(X).out_info,
                  f.lower(X).out_info):
        assert found.sharding == where and found.shape == X.shape
    assert calque.jit(double).eval_shape(X).sharding is None
    mesh = calque.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    x = calque.device_put(X, NamedSharding(mesh, P("x")))
    abstract, concrete = (NamedSharding(m, P("x")) for m in (mesh.abstract_mesh, mesh))
    assert calque.eval_shape(double, x).sharding == abstract  # as types have it
    assert calque.jit(double).trace(x).out_info.sharding == abstract
    assert calque.jit(double).lower(x).out_info.sharding == concrete


def test_results_on_other_devices_are_refused() -> None:
    one, other = calque.devices()[:2]
    spread = NamedSharding(mesh_of(x=2), P("x"))
    placed = calque.device_put(X, one)
    with pytest.raises(ValueError, match=r"argument x of double .*explicit output sharding"):
        calque.jit(double, out_shardings=SingleDeviceSharding(other))(placed)
    with pytest.raises(ValueError, match=r"explicit output sharding with device ids \[0\]"):
        calque.jit(lambda: lax.with_sharding_constraint(jnp.ones(8), spread),
                   out_shardings=SingleDeviceSharding(one))()
    assert calque.jit(double, device=other)(placed).devices() == {other}  # it moves there
    for there in (other, spread):
        with pytest.raises(ValueError, match="Received incompatible devices"):
            jnp.array(placed, device=there)
    assert jnp.asarray(jnp.arange(8), device=other).devices() == {other}
    empty = NamedSharding(Mesh(np.empty((), object), ()), P())
    for make in (lambda: calque.jit(double, out_shardings=empty),
                 lambda: lax.with_sharding_constraint(jnp.ones(2), empty)):
        with pytest.raises(ValueError, match="got an empty NamedSharding"):
            make()
    with mesh_of(x=2), pytest.raises(RuntimeError, match="jit requires a non-empty mesh"):
        calque.jit(double, in_shardings=P("x"))(X)


def test_meshes_without_devices_take_those_of_the_arrays() -> None:
    mesh, others = mesh_of(x=2), mesh_of(y=2)
    x = calque.device_put(X, NamedSharding(mesh, P("x")))
    here, there = (NamedSharding(m.abstract_mesh, P(m.axis_names[0])) for m in (mesh, others))
    assert lax.with_sharding_constraint(x, here).sharding.spec == P("x")
    for value, said, kind in ((X, here, ValueError), (jnp.arange(8), here, TypeError),
                              (x, there, ValueError)):
        with pytest.raises(kind, match="Target sharding|must be a `NamedSharding`|Mesh shape"):
            lax.with_sharding_constraint(value, said)
        with pytest.raises(ValueError, match="Please pass `jax.Array`s|Mesh shape of the input"):
            calque.shard_map(double, mesh=said.mesh, in_specs=said.spec,
                             out_specs=said.spec)(value)
    lowered = calque.jit(double, in_shardings=here, out_shardings=here).trace(
        calque.ShapeDtypeStruct(X.shape, X.dtype, sharding=here)).lower(
            lowering_platforms=("cpu",))
    with pytest.raises(RuntimeError, match="device_assignment cannot be `None`"):
        lowered.compile()
    compiled = lowered.compile(device_assignment=tuple(mesh.devices.flat))
    out = compiled(x)
    np.testing.assert_array_equal(out, X * 2)
    assert out.sharding == NamedSharding(mesh, P("x"))


def test_functions_with_shardings_share_traces() -> None:
    traced = []

    def f(x: Any) -> Any:
        traced.append(1)
        return x * 2

    for _ in range(3):  # each time another mesh that is equal
        out = calque.jit(f, out_shardings=NamedSharding(mesh_of(x=2), P("x")))(X)
    assert out.sharding.spec == P("x") and len(traced) == 1
    assert calque.jit(f)(X).sharding != out.sharding and len(traced) == 2
