"""Functions of eager loops and branches are traced once for the types of their arguments, as in
JAX: by the function itself, under the same options, unless it closes over what is traced."""
from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax


class Counted:
    """A function of a module's, and how often Python ran it."""

    def __init__(self, f: Any) -> None:
        self.times = 0

        def counted(*args: Any) -> Any:
            self.times += 1
            return f(*args)

        self.f = counted


CALLS: dict[str, Any] = {
    "scan": (lambda c, x: (c + x, c * x), lambda f, x: lax.scan(f, x, jnp.ones(3, x.dtype))[0]),
    "fori": (lambda i, v: v + i, lambda f, x: lax.fori_loop(0, 4, f, x)),
    "while": (lambda v: v * 2 + 1, lambda f, x: lax.while_loop(less_than_nine, f, x)),
    "cond": (lambda v: v + 1, lambda f, x: lax.cond(True, f, less, x)),
    "switch": (lambda v: v + 1, lambda f, x: lax.switch(1, [less, f], x)),
}


def less_than_nine(v: Any) -> Any:
    return v < 9


def less(v: Any) -> Any:
    return v - 1


@pytest.mark.parametrize("name", CALLS)
def test_once_for_each_type_and_option(name: str) -> None:
    plain, call = CALLS[name]
    counted = Counted(plain)
    one, wide = jnp.float32(1), jnp.float16(1)
    first = call(counted.f, one)
    seen = counted.times
    assert float(call(counted.f, jnp.float32(1))) == float(first) and counted.times == seen
    call(counted.f, wide)
    assert counted.times > seen
    seen = counted.times
    with calque.enable_x64(True):
        call(counted.f, one)
    assert counted.times > seen
    seen = counted.times
    call(counted.f, one)
    assert counted.times == seen
    calque.clear_caches()
    assert float(call(counted.f, one)) == float(first) and counted.times > seen
    seen = counted.times
    calque.jit(lambda x: call(counted.f, x))(one)  # (a transformation traces anew)
    assert counted.times > seen


def test_what_closes_over_traced_values_is_traced_anew() -> None:
    def power(x: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            return c * x, None
        return lax.scan(body, 1.0, None, length=3)[0]

    assert [float(power(v)) for v in (2.0, 3.0)] == [8, 27]
    assert float(calque.grad(power)(2.0)) == 12 and float(calque.jit(power)(3.0)) == 27
    np.testing.assert_allclose(calque.vmap(power)(jnp.arange(3.0)), [0, 1, 8])


def test_references_are_read_each_time() -> None:
    ref = calque.new_ref(jnp.float32(1))

    def body(i: Any, v: Any) -> Any:
        ref[...] += 1
        return v + ref[...]

    assert [float(lax.fori_loop(0, 2, body, 0.0)) for _ in range(2)] == [5, 9]
    assert float(ref[...]) == 5


def test_a_function_may_go() -> None:
    def body(c: Any, x: Any) -> Any:
        return c + x, None

    gone = weakref.ref(body)
    lax.scan(body, 0.0, jnp.arange(3.0))
    lax.fori_loop(0, 3, lambda i, v: v + i, 0)
    del body
    gc.collect()
    assert gone() is None


def test_scopes_are_not_mixed_up() -> None:
    def body(v: Any) -> Any:
        return v + 1

    lax.cond(True, body, less, 1.0)
    with calque.named_scope("mine"):
        assert float(lax.cond(True, body, less, 1.0)) == 2
    with calque.debug_nans(True), pytest.raises(FloatingPointError):
        lax.cond(True, body, less, jnp.nan)
