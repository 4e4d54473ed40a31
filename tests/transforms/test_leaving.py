"""No value leaves a transformation as a constant: every protocol by which Python and NumPy take
one, under every transformation and their nestings.  What JAX allows works, the rest raises its
class.
"""
from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
)

# name -> (protocol, the error in a transformation)
LEAVE: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    **{f.__name__: (f, TracerArrayConversionError) for f in (
        np.array, np.asarray, np.exp, np.ravel, np.copy, np.float32, np.ones_like, np.linalg.norm)},
    "np.dot": (lambda v: np.dot(v, v), TracerArrayConversionError),
    "np.stack": (lambda v: np.stack([v, v]), TracerArrayConversionError),
    "np.where": (lambda v: np.where(v > 1, v, 0), TracerArrayConversionError),
    "ufunc with out": (lambda v: np.add(np.ones(()), v), TracerArrayConversionError),
    "ufunc method": (lambda v: np.add.reduce([v, v]), TracerArrayConversionError),
    "ufunc of a list": (lambda v: np.exp([v]), TracerArrayConversionError),
    "np.full": (lambda v: np.full(3, v), TracerArrayConversionError),
    "np.save": (lambda v: np.save("/dev/null", v), TracerArrayConversionError),
    "dtype": (lambda v: np.asarray(v, np.float64), TracerArrayConversionError),
    "float": (float, ConcretizationTypeError), "complex": (complex, ConcretizationTypeError),
    "math.sqrt": (math.sqrt, ConcretizationTypeError),
    "math.floor": (math.floor, ConcretizationTypeError),
    "percent": (lambda v: f"{0:d} %.2f" % v, ConcretizationTypeError),
    "format": (lambda v: f"{v:.2f}", TypeError),
    "tolist": (lambda v: v.tolist(), ConcretizationTypeError),
    "tobytes": (lambda v: v.tobytes(), ConcretizationTypeError),
    "pickle": (pickle.dumps, ConcretizationTypeError),
    "dlpack": (lambda v: v.__dlpack__(), ConcretizationTypeError),
    "from_dlpack": (np.from_dlpack, (ConcretizationTypeError, AttributeError)),
    "delete": (lambda v: v.delete(), ConcretizationTypeError),
    "memoryview": (memoryview, TypeError), "index": (operator.index, TypeError),
    "hash": (hash, TypeError)}
STAY: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, "print": str, "repr": repr, "shape": np.shape,
    "ndim": np.ndim, "size": np.size, "result_type": np.result_type, "format": lambda v: f"{v}",
    "device_get": calque.device_get, "np.sum": np.sum, "np.clip method": lambda v: v.clip(0, 1)}
# where Python may ask for the value: it is known, and what it gives has no derivative
ASK: dict[str, Callable[[Any], Any]] = {
    "bool": bool, "int": int, "item": lambda v: v.item(), "if": lambda v: 1 if v > 1 else 2,
    "max": lambda v: max(v, 0), "in": lambda v: v in [v], "percent": "%d".__mod__}

KNOWN: dict[str, Any] = {
    "grad": lambda g: calque.grad(g), "jvp": lambda g: lambda x: calque.jvp(g, (x,), (x,)),
    "vjp": lambda g: lambda x: calque.vjp(g, x), "jacfwd": calque.jacfwd,
    "linearize": lambda g: lambda x: calque.linearize(g, x),
    "jvp of jvp": lambda g: lambda x: calque.jvp(
        lambda y: calque.jvp(g, (y,), (y,))[1], (x,), (x,)),
    "grad of grad": lambda g: calque.grad(lambda y: calque.grad(g)(y) * y),
    "value_and_grad": calque.value_and_grad}
HIDDEN: dict[str, Any] = {
    "vmap": lambda g: lambda x: calque.vmap(g)(jnp.stack([x, x])), "jit": calque.jit,
    "vmap of grad": lambda g: lambda x: calque.vmap(calque.grad(g))(jnp.stack([x, x])),
    "grad of vmap": lambda g: calque.grad(lambda y: calque.vmap(g)(jnp.stack([y, y])).sum()),
    "jacrev of jit": lambda g: calque.jacrev(calque.jit(g)), "hessian": calque.hessian,
    "grad of checkpoint": lambda g: calque.grad(calque.checkpoint(g)),
    "scan": lambda g: lambda x: lax.scan(lambda c, _: (g(c), None), x, None, length=2)}


def asked(transform: Any, protocol: Callable[[Any], Any], x: Any) -> Any:
    """What the protocol gave, or the error that it raised, of a value inside the transformation."""
    found: list[Any] = []

    def f(x: Any) -> Any:
        try:
            found.append(protocol(x))
        except Exception as error:
            found.append(error)
        return x * 1.0

    transform(f)(x)
    return found[0]


@pytest.mark.parametrize("transform", [*KNOWN, *HIDDEN])
def test_what_leaves_is_refused_and_what_stays_is_not(transform: str) -> None:
    made, x = {**KNOWN, **HIDDEN}[transform], jnp.float32(2.0)
    for name, (protocol, error) in LEAVE.items():
        assert isinstance(asked(made, protocol, x), error), name
    for name, stay in STAY.items():
        assert not isinstance(asked(made, stay, x), Exception), name


@pytest.mark.parametrize("transform", KNOWN)
def test_known_values_may_be_asked_for(transform: str) -> None:
    got = {name: asked(KNOWN[transform], f, jnp.float32(2.5)) for name, f in ASK.items()}
    assert got["bool"] is True and got["int"] == 2 and got["item"] == 2.5 and got["if"] == 1
    assert got["in"] is True and got["percent"] == "2" and float(calque.jvp(
        lambda v: max(v, 0.0), (2.5,), (1.0,))[1]) == 1.0


@pytest.mark.parametrize("transform", [k for k in HIDDEN if k != "hessian"])
def test_hidden_values_may_not(transform: str) -> None:
    for name in ("bool", "if", "max"):
        got = asked(HIDDEN[transform], ASK[name], jnp.float32(2.5))
        assert isinstance(got, TracerBoolConversionError), (name, got)
    for name in ("int", "item"):
        got = asked(HIDDEN[transform], ASK[name], jnp.float32(2.5))
        assert isinstance(got, ConcretizationTypeError), (name, got)


def test_values_that_do_not_depend_on_the_argument_are_values() -> None:
    def f(x: Any) -> Any:
        fixed = lax.stop_gradient(x)
        return x * float(fixed) * np.exp(jnp.zeros(())) + np.asarray(fixed)

    assert float(calque.grad(f)(3.0)) == 3.0


def test_the_error_says_what_to_do() -> None:
    with pytest.raises(TracerArrayConversionError, match="calque.numpy functions instead") as info:
        calque.grad(lambda x: jnp.sum(np.exp(x)))(jnp.ones(3))
    assert "stop_gradient" in str(info.value)
    with pytest.raises(TypeError, match="Only scalar arrays can be converted"):
        calque.grad(lambda x: jnp.sum(x) * float(x))(jnp.ones(3))
    with pytest.raises(TracerBoolConversionError):
        calque.jit(lambda x: x if x else -x)(jnp.ones(1))
