"""odeint: the oracles are SciPy's DOP853, closed forms, and differences for gradients."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg

import calque
import calque.numpy as jnp
from calque.experimental.ode import odeint


def pendulum(y: Any, t: Any, damping: Any, gravity: Any) -> Any:
    angle, speed = y
    return [speed, -damping * speed - gravity * jnp.sin(angle) + 0.1 * t]


def test_pendulum_beside_scipy() -> None:
    y0, t = np.array([3.0, 0.0]), np.linspace(0, 2, 7)

    def f(t: Any, y: Any) -> Any:
        return [y[1], -0.25 * y[1] - 9.8 * np.sin(y[0]) + 0.1 * t]

    wanted = scipy.integrate.solve_ivp(f, (0, 2), y0, "DOP853", t, rtol=1e-11, atol=1e-11).y.T
    with calque.enable_x64(True):
        found = odeint(pendulum, jnp.asarray(y0), jnp.asarray(t), 0.25, 9.8, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    found = odeint(pendulum, jnp.asarray(y0), jnp.asarray(t), 0.25, 9.8)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


def test_gradients_of_a_linear_system_beside_its_closed_form() -> None:
    """y = expm(a t) y0: a tree of states of two dtypes, gradients by y0, times and parameters, and
    of a function that closes over one; integers among the arguments have none."""
    rng = np.random.default_rng(0)
    a, y0, t = rng.normal(size=(3, 3)) / 2, rng.normal(size=3), np.array([0.0, 0.3, 1.1])
    w = rng.normal(size=(3, 3))

    def loss(a: Any, y0: Any, t: Any) -> Any:
        def slope(y: Any, time: Any, a: Any, n: Any) -> Any:
            return {"x": a @ y["x"], "z": 1j * y["z"] * n}
        y = odeint(slope, {"x": y0, "z": 1 + 0j}, t, a, 2)
        return jnp.sum(w * y["x"]) + y["z"][-1].real

    def closed(a: Any, y0: Any, t: Any) -> Any:
        return sum(w[i] @ scipy.linalg.expm(a * (s - t[0])) @ y0 for i, s in enumerate(t)) + np.cos(
            2 * (t[-1] - t[0]))

    with calque.enable_x64(True):
        value, grads = calque.value_and_grad(loss, (0, 1, 2))(a, y0, jnp.asarray(t))
    np.testing.assert_allclose(value, closed(a, y0, t), rtol=1e-6)
    for i, g in enumerate(grads):
        for at in np.ndindex(g.shape):
            moved = [[np.array(x) for x in (a, y0, t)] for _ in range(2)]
            moved[0][i][at] += 1e-5
            moved[1][i][at] -= 1e-5
            wanted = (closed(*moved[0]) - closed(*moved[1])) / 2e-5
            np.testing.assert_allclose(g[at], wanted, rtol=1e-4, atol=1e-6, err_msg=f"{i} {at}")


@pytest.mark.slow
def test_second_order_and_closures() -> None:
    """y = exp(k t): d2/dk2 = t^2 y, by reverse over reverse, of a value that is closed over."""
    f = lambda k: odeint(lambda y, t: k * y, 1.0, jnp.array([0.0, 0.5]))[-1]  # noqa: E731
    with calque.enable_x64(True):
        k = 0.7
        np.testing.assert_allclose(calque.grad(f)(k), 0.5 * np.exp(0.5 * k), rtol=1e-6)
        second = calque.grad(calque.grad(f))(k)
        np.testing.assert_allclose(second, 0.25 * np.exp(0.5 * k), rtol=1e-5)


def test_rows_of_a_batch_end_for_themselves() -> None:
    rates = np.array([0.1, 1.0, 30.0], np.float32)
    t = np.array([0.0, 1.0, 2.0], np.float32)
    f = lambda k: odeint(lambda y, t: -k * y, 1.0, t)  # noqa: E731
    found, slopes = calque.vmap(calque.value_and_grad(lambda k: f(k)[1]))(rates)
    np.testing.assert_allclose(found, np.exp(-rates), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(slopes, -np.exp(-rates), rtol=1e-3, atol=1e-6)
    with calque.disable_jit():
        few = calque.vmap(lambda k: odeint(lambda y, t: -k * y, 1.0, t, rtol=1e-3))(rates[:2])
    np.testing.assert_allclose(few[:, 1], np.exp(-rates[:2]), rtol=1e-3)


def test_limits_of_steps_and_solutions_that_end() -> None:
    """A jump within a long step is seen with hmax; what leaves every bound is NaN from there on."""
    push = lambda y, t: jnp.where((t > 5) & (t < 5.1), 10.0, 0.0)  # noqa: E731
    t = jnp.array([0.0, 10.0])
    assert abs(float(odeint(push, 0.0, t, hmax=0.05)[1]) - 1) < 1e-2
    assert float(odeint(push, 0.0, t)[1]) == 0
    found = np.asarray(odeint(lambda y, t: y ** 2, 1.0, jnp.array([0.0, 0.5, 2.0])))
    np.testing.assert_allclose(found[:2], [1, 2], rtol=1e-5)
    assert np.isnan(found[2])
    assert odeint(push, 2.0, jnp.array([1.0])).tolist() == [2.0]


def test_errors() -> None:
    f, t = lambda y, t, *a: -y, jnp.array([0.0, 1.0])  # noqa: E731
    with pytest.raises(TypeError, match="t must be an array of floats"):
        odeint(f, 1.0, jnp.arange(3))
    with pytest.raises(TypeError, match=r"The contents of odeint \*args must be arrays"):
        odeint(f, 1.0, t, "a")
    with pytest.raises(ValueError, match="returned 2 elements, the state has 1"):
        odeint(lambda y, t: (y, y), 1.0, t)
    with pytest.raises(TypeError, match="can't apply forward-mode"):
        calque.jacfwd(lambda k: odeint(lambda y, t: k * y, 1.0, t))(1.0)
