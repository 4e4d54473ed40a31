"""Open quantum systems: Schroedinger's and Lindblad's equations, a gradient."""
import dynamiqs as dq
import jax
import jax.numpy as jnp

dq.set_progress_meter(False)
_N = 6
_a = dq.destroy(_N)
_H = _a.dag() @ _a + 0.3 * (_a + _a.dag())
_T = jnp.linspace(0, 1.0, 5)


def schroedinger():
    return dq.sesolve(_H, dq.fock(_N, 1), _T, exp_ops=[_a]).expects


def _lindblad(rate):
    found = dq.mesolve(_H, [jnp.sqrt(rate) * _a], dq.coherent(_N, 1.0), _T,
                       exp_ops=[_a.dag() @ _a])
    return found.expects[0, -1].real


_slope = jax.jit(jax.grad(_lindblad))


def step():
    return _slope(0.2)
