"""Circuits as functions of their parameters: states, expectations, gradients, densities."""
import jax
import jax.numpy as jnp
import qujax

_GATES = ["H", "Ry", "CZ", "Rx", "CX"]
_QUBITS = [[0], [0], [0, 1], [1], [1, 2]]
_PARAMETERS = [[], [0], [], [1], []]
_state = qujax.get_params_to_statetensor_func(_GATES, _QUBITS, _PARAMETERS, 3)
_value = qujax.get_statetensor_to_expectation_func([["Z"], ["X", "X"]], [[0], [1, 2]], [1.0, 0.5])
_P = jnp.array([0.1, 0.3])


def states():
    return _state(_P)


def densities():
    f = qujax.get_params_to_densitytensor_func(_GATES, _QUBITS, _PARAMETERS, 3)
    return f(_P)


_both = jax.jit(jax.value_and_grad(lambda p: _value(_state(p))))


def step():
    return _both(_P)
