"""Circuits, their gradients and Hessians, a variational step."""
import jax
import jax.numpy as jnp
import pennylane as qml

_DEVICE = qml.device("default.qubit", wires=4)


@qml.qnode(_DEVICE, interface="jax")
def _circuit(x):
    for layer in x:
        for wire in range(4):
            qml.RX(layer[wire], wire)
        for wire in range(3):
            qml.CNOT([wire, wire + 1])
    return qml.expval(qml.PauliZ(3))


_X = jnp.linspace(0.1, 1.5, 12).reshape(3, 4)


def value():
    return _circuit(_X)


def hessian():
    return jax.hessian(lambda t: _circuit(_X + t))(0.1)


def probabilities():
    @qml.qnode(_DEVICE, interface="jax")
    def circuit(x):
        qml.Hadamard(0)
        qml.CRZ(x, [0, 1])
        qml.RY(x, 1)
        return qml.probs([0, 1])
    return jax.vmap(circuit)(jnp.linspace(0, 1, 3))


_slope = jax.jit(jax.value_and_grad(_circuit))


def step():
    return _slope(_X)
