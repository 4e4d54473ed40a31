"""A neuron with compartments: a stimulus, its voltages, their gradient."""
import jax
import jax.numpy as jnp
import jaxley as jx
from jaxley.channels import HH

_cell = jx.Cell(jx.Branch(jx.Compartment(), ncomp=2), parents=[-1, 0, 0])
_cell.insert(HH())
_cell.branch(0).loc(0.0).stimulate(jx.step_current(1.0, 1.0, 0.1, 0.025, 4.0))
_cell.branch(0).loc(0.0).record()
_cell.make_trainable("radius")
_PARAMS = _cell.get_parameters()


def voltages():
    return jx.integrate(_cell)


_slope = jax.jit(jax.value_and_grad(lambda p: jnp.mean(jx.integrate(_cell, params=p))))


def step():
    return _slope(_PARAMS)
