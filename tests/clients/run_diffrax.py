"""ODEs by explicit and implicit solvers, gradients, an SDE, an event."""

import diffrax as dx
import jax
import jax.numpy as jnp

f = dx.ODETerm(lambda t, y, a: -a * y + jnp.sin(t))


def go(a, s=dx.Tsit5(), **k):
    return dx.diffeqsolve(f, s, 0.0, 3.0, 0.1, jnp.array([1.0, 2.0]), args=a, **k).ys[-1]


for s in (dx.Euler(), dx.Heun(), dx.Tsit5(), dx.Dopri8()):
    print(type(s).__name__, go(1.3, s))
print("pid", go(1.3, stepsize_controller=dx.PIDController(1e-5, 1e-5)))
print("kv", go(1.3, dx.Kvaerno5(), stepsize_controller=dx.PIDController(1e-4, 1e-4)))
print(
    "save",
    dx.diffeqsolve(
        f,
        dx.Tsit5(),
        0.0,
        3.0,
        0.1,
        jnp.array([1.0]),
        args=1.0,
        saveat=dx.SaveAt(ts=jnp.linspace(0, 3, 4)),
    ).ys[:, 0],
)
print("grad", jax.grad(lambda a: go(a).sum())(1.3))
print(
    "jgrad",
    jax.jit(jax.grad(lambda a: go(a, stepsize_controller=dx.PIDController(1e-4, 1e-4)).sum()))(1.3),
)
print("backsolve", jax.grad(lambda a: go(a, adjoint=dx.BacksolveAdjoint()).sum())(1.3))
bm = dx.VirtualBrownianTree(0.0, 1.0, 1e-2, (), jax.random.key(0))
t = dx.MultiTerm(dx.ODETerm(lambda t, y, a: -y), dx.ControlTerm(lambda t, y, a: 0.3, bm))
print("sde", dx.diffeqsolve(t, dx.EulerHeun(), 0.0, 1.0, 0.05, jnp.float32(1.0)).ys)
print(
    "event",
    dx.diffeqsolve(
        f,
        dx.Tsit5(),
        0.0,
        3.0,
        0.1,
        jnp.array([1.0]),
        args=1.0,
        event=dx.Event(lambda t, y, a, **k: y[0] < 0.5),
    ).ts,
)
print("vmap", jax.vmap(lambda a: go(a).sum())(jnp.array([1.0, 2.0])))
