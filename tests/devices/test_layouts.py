"""Arrays over several devices that are not row-major: values, layouts of parts, places."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices.meshes import mesh_of

import calque
import calque.numpy as jnp
from calque.experimental.layout import Format, Layout, with_layout_constraint
from calque.sharding import AxisType, NamedSharding, reshard
from calque.sharding import PartitionSpec as P

A = np.arange(128, dtype=np.float32).reshape(8, 16)


def turned(sharding: Any) -> Format:
    return Format(Layout((1, 0)), sharding)


def is_turned(x: Any) -> bool:
    return bool(x.format.layout.major_to_minor == (1, 0))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("spec", [P("x", "y"), P("y", None), P(None, "x"), P()])
def test_values_places_and_parts(kind: Any, spec: P) -> None:
    mesh = calque.make_mesh((2, 4), ("x", "y"), axis_types=(kind, kind))
    with calque.set_mesh(mesh):
        s = NamedSharding(mesh, spec)
        x, plain, said = calque.device_put(A, turned(s)), calque.device_put(A, s), turned(s)
        assert is_turned(x) and x.sharding == s
        for shard in x.addressable_shards:
            np.testing.assert_array_equal(shard.data, A[shard.index])
            assert is_turned(shard.data)
        f = calque.jit(lambda v: jnp.sin(v).T * 2)
        np.testing.assert_array_equal(f(x), f(plain))
        assert f(x).sharding == f(plain).sharding
        g = calque.jit(lambda v: v * 2 + 1, in_shardings=said, out_shardings=said)
        for made in (g(x), g.lower(calque.ShapeDtypeStruct(
                A.shape, A.dtype, sharding=said)).compile()(x)):
            np.testing.assert_array_equal(made, A * 2 + 1)
            assert made.format == x.format
        auto = calque.jit(lambda v: v.T * 2, out_shardings=Format(Layout.AUTO))(plain)
        np.testing.assert_array_equal(auto, A.T * 2)
        assert is_turned(auto) and auto.sharding == f(plain).sharding
        for made in (calque.jit(lambda v: with_layout_constraint(v * 2, said.layout))(x),
                     with_layout_constraint(x * 2, said.layout)):
            np.testing.assert_array_equal(made, A * 2)
            assert is_turned(made) and made.sharding.is_equivalent_to(s, 2)
        np.testing.assert_array_equal(x + 1, A + 1)
        np.testing.assert_array_equal(calque.grad(lambda v: (v * v).sum())(x), 2 * A)
        pieces = calque.make_array_from_single_device_arrays(
            A.shape, s, [shard.data for shard in x.addressable_shards])
        moved = calque.device_put(x, calque.devices()[3])
        for y in (pieces, moved, calque.make_array_from_callback(A.shape, said, lambda i: A[i])):
            np.testing.assert_array_equal(y, A)
        assert is_turned(moved) and moved.devices() == {calque.devices()[3]}
        given = calque.device_put(A, said)
        np.testing.assert_array_equal(calque.jit(lambda v: v * 3, donate_argnums=0)(given), A * 3)
        assert given.is_deleted()


def test_maps_over_devices() -> None:
    mesh = mesh_of(x=2, y=4)
    x = calque.device_put(A, turned(NamedSharding(mesh, P("x", "y"))))
    f = calque.shard_map(lambda v: v * 2, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    for g in (f, calque.jit(f)):
        np.testing.assert_array_equal(g(x), A * 2)
    one = calque.device_put(A, turned(calque.sharding.SingleDeviceSharding(calque.devices()[0])))
    np.testing.assert_array_equal(calque.pmap(lambda v: v + 1)(one), A + 1)


def test_summands_are_row_major() -> None:
    mesh = calque.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    spec = P(None, None, unreduced={"x"})
    with calque.set_mesh(mesh):
        product = calque.jit(lambda a, b: jnp.einsum("ab,bc->ac", a, b, out_sharding=spec))
        x = calque.device_put(A, turned(NamedSharding(mesh, P(None, "x"))))
        y = calque.device_put(A.T.copy(), turned(NamedSharding(mesh, P("x", None))))
        made = product(x, y)  # arguments are copied
        np.testing.assert_array_equal(reshard(made, P(None, None)), A @ A.T)
        with pytest.raises(NotImplementedError, match="unreduced ones are row-major"):
            calque.device_put(made, turned(made.sharding))
        with pytest.raises(NotImplementedError, match="run over several processes, are row-major"):
            calque.jit(product, out_shardings=turned(made.sharding))(x, y)
