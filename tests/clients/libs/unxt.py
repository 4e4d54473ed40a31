"""Arrays with units, through jit, grad and NumPy's functions."""
import jax
import jax.numpy as jnp
import quaxed.numpy as qnp
import unxt as u

_X = u.Quantity(jnp.arange(1.0, 101.0), "km")


def conversion():
    return _X[:5].to("m").value, (_X[:5] / u.Quantity(2.0, "h")).to("m/s").value


def functions():
    return qnp.sum(_X).value, qnp.sqrt(_X[:3] ** 2).value


def gradient():
    slope = u.experimental.grad(lambda x: x ** 3, units=("km",))
    return slope(u.Quantity(2.0, "km")).value


_speed = jax.jit(lambda x, t: qnp.sin((x / t).to("rad/s").value))


@jax.jit
def _energy(x, t):
    return 0.5 * u.Quantity(2.0, "kg") * (x / t) ** 2


def step():
    return _energy(_X, u.Quantity(3.0, "s")).to("J").value
