"""Exported functions for several devices: shardings of arguments and results, through bytes."""
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export, lax
from calque.sharding import AbstractMesh, AxisType, NamedSharding
from calque.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture
def mesh():
    if calque.device_count() < 8:
        pytest.skip("needs 8 devices")
    return calque.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def exported(f, *args):
    """As exported, and read again."""
    e = export.export(f)(*args)
    return e, export.deserialize(e.serialize())


def test_shardings_that_jit_is_given(mesh):
    f = calque.jit(lambda x, y: jnp.sin(x) @ y.T, in_shardings=(NamedSharding(mesh, P("x")), None),
                   out_shardings=NamedSharding(mesh, P(None, "y")))
    x = calque.device_put(X, NamedSharding(mesh, P("x")))
    for e in exported(f, X, X):
        assert e.nr_devices == 8
        first, second = e.in_shardings_jax(mesh)
        assert first == NamedSharding(mesh, P("x"), memory_kind="device") and second is None
        assert e.out_shardings_jax(mesh)[0].spec == P(None, "y")
        out = e.call(x, x)
        np.testing.assert_allclose(out, np.sin(X) @ X.T, rtol=1e-5)
        assert out.sharding.spec == P(None, "y")
        assert calque.jit(e.call)(x, x).sharding.spec == P(None, "y")


def test_another_order_of_the_devices(mesh):
    f = calque.jit(jnp.sin, in_shardings=NamedSharding(mesh, P("x")),
                   out_shardings=NamedSharding(mesh, P("x")))
    other = calque.sharding.Mesh(np.array(calque.devices()[::-1]).reshape(4, 2), ("x", "y"))
    for e in exported(f, X):
        out = e.call(calque.device_put(X, e.in_shardings_jax(other)[0]))
        assert out.sharding.mesh is other or out.sharding.mesh == other


def test_another_number_of_devices(mesh):
    f = calque.jit(lambda x: lax.with_sharding_constraint(x, NamedSharding(mesh, P("x"))) + 1)
    for e in exported(f, X):
        assert e.nr_devices == 8
        with pytest.raises(ValueError, match="was exported for 8 devices and is called in a "
                                             "context with 1 devices"):
            e.call(X)
        half = calque.sharding.Mesh(np.array(calque.devices()[:4]), ("x",))
        with pytest.raises(ValueError, match="context with 4 devices"):
            e.call(calque.device_put(X, NamedSharding(half, P("x"))))
        with calque.set_mesh(mesh):
            np.testing.assert_array_equal(e.call(X), X + 1)


def test_one_device_goes_everywhere(mesh):
    for e in exported(calque.jit(lambda x: x * 2), X):
        assert e.nr_devices == 1
        np.testing.assert_array_equal(
            e.call(calque.device_put(X, NamedSharding(mesh, P("x")))), X * 2)


def test_types_with_explicit_axes(mesh):
    explicit = calque.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    x = calque.device_put(X, NamedSharding(explicit, P("x", None)))
    for e in exported(calque.jit(lambda x: jnp.sin(x) * 2), x):
        assert e.in_avals[0].sharding == NamedSharding(explicit.abstract_mesh, P("x", None))
        assert e.out_avals[0].sharding.spec == P("x", None)


def test_meshes_without_devices(mesh):
    abstract = AbstractMesh((4, 2), ("x", "y"))
    f = calque.jit(lambda a: lax.with_sharding_constraint(
        a @ a.T, NamedSharding(abstract, P(None, "x"))))
    spec = calque.ShapeDtypeStruct((8, 4), np.float32, sharding=NamedSharding(abstract, P("x")))
    for e in exported(f, spec):
        out = e.call(calque.device_put(X, NamedSharding(mesh, P("x"))))
        assert out.addressable_shards[0].index == (slice(None), slice(0, 2))
        np.testing.assert_allclose(out, X @ X.T)


def test_derivatives_have_the_shardings(mesh):
    f = calque.jit(lambda x: jnp.sin(x), in_shardings=NamedSharding(mesh, P("x")),
                   out_shardings=NamedSharding(mesh, P("y")))
    e = export.deserialize(export.export(f)(X).serialize(vjp_order=1))
    x = calque.device_put(X, NamedSharding(mesh, P("x")))
    back = e.vjp()
    assert [s.spec for s in back.in_shardings_jax(mesh)] == [P("x"), P("y")]
    np.testing.assert_allclose(calque.grad(lambda x: e.call(x).sum())(x), np.cos(X), rtol=1e-5)
