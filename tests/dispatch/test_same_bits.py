"""Which recorded Programs may be compiled as a whole (dispatch/same_bits): those that keep bits."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.dispatch.same_bits import is_exact

X = np.linspace(0.1, 2, 8, dtype=np.float32)
KEY = calque.random.key(1)
EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "a sum of a sum": lambda x, y: x + y - x, "twice, and a sum": lambda x, y: x * 2.0 + y,
    "a product of a sum": lambda x, y: (x + y) * x, "a choice": lambda x, y: lax.max(x, y) + x,
    "a function of a sum": lambda x, y: lax.exp(x + y), "integers": lambda x, y: (
        lax.convert_element_type(x * y, np.int32) * 3 + 1),
    "a quotient": lambda x, y: x / y + x, "the greatest": lambda x, y: jnp.max(x) + y}
INEXACT: dict[str, Callable[[Any, Any], Any]] = {
    "a product and a sum": lambda x, y: x * y + x, "by 3": lambda x, y: x * 3.0 + y,
    "less a product": lambda x, y: y - x * y, "the other sign": lambda x, y: lax.neg(x * y) + x,
    "in another shape": lambda x, y: (x * y).reshape(2, 4) + 1,
    "of a square": lambda x, y: lax.square(x) + y, "a choice": lambda x, y: lax.max(x * y, y) + x,
    "a function's end": lambda x, y: lax.sin(x) + y, "its start": lambda x, y: lax.log1p(x * y),
    "the same type": lambda x, y: lax.convert_element_type_p.bind(
        x * y, new_dtype=np.dtype(np.float32), weak_type=True, sharding=None) + x,
    "a total": lambda x, y: jnp.sum(x), "a product of matrices": lambda x, y: x @ y,
    "a running sum": lambda x, y: jnp.cumsum(x)}


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str) -> None:
    assert is_exact(calque.make_jaxpr(EXACT[name])(X, X + 1).jaxpr)


@pytest.mark.parametrize("name", INEXACT)
def test_inexact(name: str) -> None:
    assert not is_exact(calque.make_jaxpr(INEXACT[name])(X, X + 1).jaxpr)


def test_what_is_exact_has_the_bits_of_its_steps() -> None:
    for name, f in EXACT.items():
        whole = np.asarray(calque.jit(f)(X, X + 1))
        with calque.disable_jit(True):
            steps = np.asarray(f(jnp.asarray(X), jnp.asarray(X + 1)))
        assert whole.tobytes() == steps.tobytes(), name
