"""Photonic circuits: models of parts, a Mach-Zehnder interferometer and its gradient."""
import jax
import jax.numpy as jnp
import sax


def _coupler(coupling=0.5):
    kappa, tau = coupling ** 0.5, (1 - coupling) ** 0.5
    return sax.reciprocal({("in0", "out0"): tau, ("in0", "out1"): 1j * kappa,
                           ("in1", "out0"): 1j * kappa, ("in1", "out1"): tau})


def _guide(wl=1.55, neff=2.34, length=10.0):
    return sax.reciprocal({("in0", "out0"): jnp.exp(2j * jnp.pi * neff * length / wl)})


_circuit, _ = sax.circuit(
    netlist={"instances": {"lft": "coupler", "top": "guide", "btm": "guide", "rgt": "coupler"},
             "connections": {"lft,out0": "btm,in0", "btm,out0": "rgt,in0", "lft,out1": "top,in0",
                             "top,out0": "rgt,in1"},
             "ports": {"in0": "lft,in0", "in1": "lft,in1", "out0": "rgt,out0", "out1": "rgt,out1"}},
    models={"coupler": _coupler, "guide": _guide})
_WAVES = jnp.linspace(1.5, 1.6, 40)


def transmission():
    found = sax.sdict(_circuit(wl=_WAVES, top={"length": 25.0}))
    return [abs(found["in0", p]) ** 2 for p in ("out0", "out1")]


def _loss(length):
    found = sax.sdict(_circuit(wl=_WAVES, top={"length": length}))
    return (abs(found["in0", "out0"]) ** 2).mean()


_slope = jax.jit(jax.grad(_loss))


def step():
    return _slope(25.0)
