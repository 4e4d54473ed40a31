"""device_put to other devices while a function is differentiated or mapped, what is said of arrays
over Auto axes whose types say something over Explicit ones, and what propagation takes where two
operands differ: as JAX 0.10.2 does on the same calls."""
from __future__ import annotations

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.experimental.layout import Format, Layout
from calque.sharding import AxisType, NamedSharding, SingleDeviceSharding, reshard
from calque.sharding import PartitionSpec as P

DEVICES = calque.devices()
FIRST, SECOND = (calque.sharding.Mesh(np.array(DEVICES[i:i + 4]), ("x",)) for i in (0, 4))
HERE, THERE = NamedSharding(FIRST, P("x")), NamedSharding(SECOND, P("x"))
X = np.linspace(0.5, 2.0, 8, dtype=np.float32)


def test_derivatives_go_over_devices_and_back() -> None:
    def f(x):
        return jnp.sum(calque.device_put(calque.jit(lambda x: x ** 2)(x), THERE) * 3)

    x = calque.device_put(X, HERE)
    got = calque.grad(f)(x)
    np.testing.assert_allclose(got, 6 * X, rtol=1e-6)
    assert got.sharding.device_set == set(DEVICES[:4])
    out, tangent = calque.jvp(lambda x: calque.device_put(x * x, THERE), (x,), (x,))
    np.testing.assert_allclose(out, X ** 2, rtol=1e-6)
    np.testing.assert_allclose(tangent, 2 * X ** 2, rtol=1e-6)
    assert out.sharding == tangent.sharding == THERE
    rows = calque.device_put(np.stack([X] * 8), HERE)
    mapped = calque.vmap(lambda x: calque.device_put(x, THERE) * 2)(rows)
    np.testing.assert_array_equal(mapped, np.stack([2 * X] * 8))
    assert mapped.sharding.device_set == set(DEVICES[4:])
    one = calque.grad(lambda x: calque.device_put(calque.device_put(x, DEVICES[3]) * 2, DEVICES[5])
                      * 3)(calque.device_put(1.0, DEVICES[1]))
    assert float(one) == 6.0 and one.devices() == {DEVICES[1]}
    hessian = calque.hessian(lambda x: jnp.sum(calque.device_put(x ** 3, DEVICES[2])))(
        calque.device_put(X, DEVICES[1]))
    np.testing.assert_allclose(hessian, np.diag(6 * X), rtol=1e-6)
    with pytest.raises(ValueError, match="incompatible devices"):  # a program is on its devices
        calque.jit(lambda x: calque.device_put(x, THERE) + x)(x)


def test_constraints_over_auto_axes_leave_types() -> None:
    mesh = calque.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    with calque.set_mesh(mesh):
        x = calque.device_put(np.arange(32.0).reshape(16, 2), P("x"))
        for spec, parts, shard in ((P("y"), ("x", "y"), (2, 2)), (P(None, "y"), "x", (4, 1))):
            @calque.jit
            def f(x, spec=spec):
                made = lax.with_sharding_constraint(x, spec)
                assert str(calque.typeof(made)) == "float32[16@x,2]"
                return made

            for out in (f(x), lax.with_sharding_constraint(x, spec)):
                assert out.sharding.spec[0] == parts
                assert out.sharding.shard_shape(out.shape) == shard
                assert str(calque.typeof(out)) == "float32[16@x,2]"


def test_what_reshard_cannot_say_over_auto_axes_is_left() -> None:
    with calque.set_mesh(calque.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)):
        x = calque.device_put(np.ones((8, 2)), P("x", None))
        assert calque.jit(lambda x: reshard(x, P(None, None)))(x).sharding.spec == P("x", None)


def test_the_first_operand_goes_before_the_second() -> None:
    with calque.set_mesh(calque.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)):
        x = calque.device_put(np.ones((8, 2)), P("x", None))
        y = calque.device_put(np.ones((8, 2)), P(None, "x"))
        for f in (lambda x, y: x @ y.T, lambda x, y: (x * 2) @ y.T, lambda x, y: x @ (y.T * 2),
                  lambda x, y: (x * 2) + y):
            assert calque.jit(f)(x, calque.device_put(y, P(None, "x"))).sharding.spec == P(
                "x", None)


def test_what_stands_for_an_array_says_where_arrays_like_it_are() -> None:
    mesh = calque.make_mesh((2,), ("x",)).abstract_mesh
    with calque.sharding.use_abstract_mesh(mesh):
        like = calque.ShapeDtypeStruct((32,), "float32", sharding=NamedSharding(mesh, P("x")))
        for f in (jnp.zeros_like, lambda v: jnp.full_like(v, 3.0),
                  lambda v: lax.full_like(v, 3.0)):
            assert calque.jit(lambda f=f: f(like)).trace().out_info.sharding == like.sharding
    laid = calque.ShapeDtypeStruct((2, 2), "float32", sharding=Format(
        Layout((1, 0)), SingleDeviceSharding(DEVICES[0])))
    with pytest.raises(ValueError, match="updating ShapeDtypeStruct"):
        laid.update(sharding=SingleDeviceSharding(DEVICES[1]))


def test_types_speak_of_explicit_axes_only() -> None:
    mesh = calque.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    a, b = np.arange(16.0).reshape(8, 2), np.arange(16.0).reshape(2, 8)
    with calque.set_mesh(mesh):
        x, y = calque.device_put(a, P("x", "y")), calque.device_put(b, P("y", None))
        for f in (lambda x, y: jnp.sin(x * 2) @ y, calque.jit(lambda x, y: jnp.sin(x * 2) @ y)):
            out = f(x, y)  # (the dimension that is summed over is split over an Auto axis)
            assert str(calque.typeof(out)) == "float32[8@x,8]"
            assert out.sharding.spec[0] == "x"
            np.testing.assert_allclose(out, np.sin(a * 2) @ b, rtol=1e-5, atol=1e-5)
        with pytest.raises(calque.core.sharding.ShardingTypeError, match="illegally sharded"):
            x @ x.T
        z = calque.device_put(a, P("y", None))
        for out in (x + z, z + x, calque.jit(lambda x, z: z + x)(x, z)):
            assert str(calque.typeof(out)) == "float32[8@x,2]"


def test_what_is_there_is_stacked_under_guards() -> None:
    parts = [calque.device_put(np.float32([i]), d) for i, d in enumerate(DEVICES[:2])]
    with calque.transfer_guard("disallow_explicit"):
        stacked = calque.device_put_sharded(parts, DEVICES[:2])
        with pytest.raises(calque.errors.JaxRuntimeError, match="Disallowed host-to-device"):
            calque.device_put_sharded([np.ones(1)] * 2, DEVICES[:2])
    np.testing.assert_array_equal(stacked, [[0.0], [1.0]])
    nothing = calque.pmap(lambda x: jnp.array(b"", calque.dtypes.float0))(np.ones(2))
    assert nothing.dtype == calque.dtypes.float0 and nothing.shape == (2,)
