"""Over which axes derivatives vary inside shard_map, vmap along a mesh axis, looks at values, and
references as arguments."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meshes import mesh_of

import calque
import calque.numpy as jnp
from calque import lax
from calque.experimental.ode import odeint
from calque.sharding import AxisType
from calque.sharding import PartitionSpec as P


def mapped(f: Any, *specs: Any, out: Any = P("x")) -> Any:
    return calque.shard_map(f, mesh=mesh_of(x=2), in_specs=specs, out_specs=out)


ONE, TWO = np.ones(1, np.float32), np.ones(2, np.float32)


def test_tangents_and_cotangents_vary_as_their_types() -> None:
    """JAX 0.10.2 refuses the same; what fits is compared with the derivative written out."""
    for f in (lambda p, t: calque.linearize(jnp.sin, p)[1](t),
              lambda p, t: calque.vjp(jnp.sin, p)[1](t)[0],
              lambda p, t: calque.linear_transpose(lambda x: x * 2, p)(t)[0]):
        with pytest.raises((ValueError, TypeError), match="linearized function|JAX type|cotangent"):
            mapped(f, P(), P("x"))(ONE, TWO)
    with pytest.raises(ValueError, match=r"pcast\(..., \('x',\), to='varying'\)"):
        mapped(lambda p, t: calque.linearize(jnp.sin, p)[1](t), P(), P("x"))(ONE, TWO)
    fits = mapped(lambda p, t: calque.vjp(jnp.sin, lax.pcast(p, "x", to="varying"))[1](t)[0],
                  P(), P("x"))
    np.testing.assert_allclose(fits(ONE, TWO), np.cos(TWO), rtol=1e-6)
    for jacobian in (calque.jacrev, calque.jacfwd):  # whose own unit vectors vary
        found = mapped(jacobian(lambda x: x ** 3), P("x"))(np.arange(4.0, dtype=np.float32))
        want = [np.diag([0, 3]), np.diag([12, 27])]
        np.testing.assert_allclose(found, np.concatenate(want), rtol=1e-6)


def test_backward_rules_say_over_which_axes() -> None:
    def rule(bwd: Any) -> Any:
        f = calque.custom_vjp(lambda x: x * 2)
        f.defvjp(lambda x: (x * 2, None), lambda _, g: (bwd(g),))
        return lambda x: calque.grad(lambda v: f(v).sum())(x)

    with pytest.raises(ValueError, match="manual axis types do not match"):
        mapped(rule(lambda g: lax.psum(g, "x")), P("x"))(TWO)
    with pytest.raises(ValueError, match="manual axis types do not match"):
        mapped(rule(lambda g: g + lax.axis_index("x")), P())(ONE)
    np.testing.assert_allclose(mapped(rule(lambda g: g * 3), P("x"))(TWO), [3, 3])


def test_odeint_sums_what_its_arguments_have_alike() -> None:
    """y' = -a y with one a for all devices: the gradient is that of the whole, -4 sum t e^-at."""
    times = np.linspace(0.0, 1.0, 3, dtype=np.float32)
    run = calque.shard_map(lambda y, a: odeint(lambda y, t, a: -a * y, y, times, a),
                           mesh=mesh_of(x=2), in_specs=(P("x"), P()), out_specs=P(None, "x"))
    grads = calque.grad(lambda y, a: run(y, a).sum(), argnums=(0, 1))(
        np.ones(4, np.float32), np.float32(2.0))
    np.testing.assert_allclose(grads[0], [np.exp(-2 * times).sum()] * 4, rtol=1e-4)
    np.testing.assert_allclose(grads[1], -4 * (times * np.exp(-2 * times)).sum(), rtol=1e-4)
    closed = mapped(lambda y, a: odeint(lambda y, t: -a * y, y, times), P("x"), P(),
                    out=P(None, "x"))
    np.testing.assert_allclose(closed(np.ones(2, np.float32), np.float32(2.0))[:, 0],
                               np.exp(-2 * times), rtol=1e-4)
    with pytest.raises(NotImplementedError, match="pass the value in args"):
        calque.grad(lambda a: closed(np.ones(2, np.float32), a).sum())(np.float32(2.0))


def test_vmap_along_a_mesh_axis_of_a_gradient() -> None:
    """Of unchecked maps, too: residuals and sums leave that axis to vmap.  Oracle: NumPy."""
    mesh, x = mesh_of(x=2, y=2), np.arange(16, dtype=np.float32).reshape(4, 4)
    for check in (False, True):
        def loss(v: Any, check: bool = check) -> Any:
            return jnp.sin(lax.psum(v.sum(), "y") if check else v.sum())

        f = calque.shard_map(loss, mesh=mesh, in_specs=P("y"), out_specs=P(), check_vma=check)
        spread = calque.vmap(calque.grad(f), spmd_axis_name="x")(x)
        np.testing.assert_array_equal(spread, calque.vmap(calque.grad(f))(x))
        if check:
            np.testing.assert_allclose(spread, np.cos(x.sum(1, keepdims=True)) + 0 * x, rtol=1e-4)


def test_python_may_look_at_what_all_devices_have() -> None:
    mesh, x = mesh_of(x=2, y=2), np.arange(4, dtype=np.float32).reshape(2, 2)

    def run(f: Any, *args: Any, out: Any = P("x", "y")) -> Any:
        return calque.shard_map(f, mesh=mesh, out_specs=out, in_specs=(
            P("x", "y"), *[P()] * (len(args) - 1)))(*args)

    np.testing.assert_array_equal(
        run(lambda v: v if lax.psum(v, ("x", "y")) < 0 else -v, x), -x)
    np.testing.assert_array_equal(
        run(lambda v, n: v * float(n) + 10 * lax.axis_index("x"), x, 3), 3 * x + [[0], [10]])
    np.testing.assert_array_equal(run(lambda v, n: sum([v] * int(n)), x, 3), 3 * x)
    with pytest.raises(calque.errors.TracerBoolConversionError):  # it differs
        run(lambda v: v if v.sum() > 1 else -v, x)
    with pytest.raises(ValueError, match="require replication"):
        run(lambda v: v if lax.psum(v, ("x", "y")) < 0 else -v, x, out=P("x"))
    with pytest.raises(calque.errors.TracerBoolConversionError):
        calque.jit(lambda v: run(lambda u: u if lax.psum(u, ("x", "y")) < 0 else -u, v))(x)


def test_references_are_arguments() -> None:
    mesh = calque.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    with calque.set_mesh(mesh):
        ref = calque.new_ref(calque.device_put(np.zeros(4, np.float32), P("x")))

        def add(r: Any, x: Any) -> Any:
            r[...] = r[...] * 2 + x + lax.axis_index("x")
            return r[...] + 1

        run = calque.jit(calque.shard_map(add, out_specs=P("x")))
        x, want = np.arange(4, dtype=np.float32), np.zeros(4)
        for _ in range(2):
            want = want * 2 + x + [0, 0, 1, 1]
            np.testing.assert_array_equal(run(ref, calque.device_put(x, P("x"))), want + 1)
            np.testing.assert_array_equal(ref[...], want)
        whole = calque.new_ref(jnp.zeros(2))
        with pytest.raises(ValueError, match="require replication"):  # it varies then
            calque.jit(calque.shard_map(lambda r: r.__setitem__(
                ..., r[...] + lax.axis_index("x")), out_specs=None))(whole)
