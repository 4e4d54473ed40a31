"""jax_debug_nans and jax_debug_infs name the operation that made the value, in compiled programs,
too; and what a jitted function captures is warned of when it is large.

Oracle: where NumPy, operation by operation, first gets a NaN or an infinity that the result has.
"""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.sharding import Mesh
from calque.sharding import PartitionSpec as P

ZEROS = np.zeros(3, np.float32)


def mapped(f: Any) -> Any:
    return calque.shard_map(f, mesh=Mesh(calque.devices()[:1], ("x",)), in_specs=P("x"),
                            out_specs=P("x"))


def several(f: Any) -> Any:
    return calque.jit(lambda v: calque.jit(f)(v + 1 - 1) * 2)


ORIGINS = {
    "div": lambda v: (v / v) * 2 + 1,
    "log": lambda v: jnp.exp(jnp.log(v - 1)) + jnp.sqrt(v + 1),
    "sqrt": lambda v: jnp.where(v > 0, jnp.log(v - 1), 0) + jnp.sqrt(v - 1),  # (log is masked)
    "mul": lambda v: v * jnp.inf,
    "scan": lambda v: calque.lax.scan(lambda c, _: (c - 1, jnp.log(c)), v, None, length=3)[1],
    "cond": lambda v: calque.lax.cond(v[0] == 0, lambda w: w * jnp.nan, lambda w: w, v),
    "div ": calque.jit(lambda v: calque.jit(lambda w: w / w)(v) + 1)}


@pytest.mark.parametrize("run", [calque.jit, several, mapped])
@pytest.mark.parametrize("name", ORIGINS)
def test_the_operation_is_named(run: Any, name: str) -> None:
    f = run(ORIGINS[name])
    with calque.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        calque.block_until_ready(f(ZEROS))
    first = str(caught.value).splitlines()[0]
    assert first == ("Invalid value (nan) encountered in sharded computation." if run is mapped
                     else f"invalid value (nan) encountered in {name.strip()}.")
    if run is not mapped:
        assert "test_nonfinite.py" in str(caught.value)
    assert np.isnan(np.asarray(f(ZEROS))).any()  # (without the option)


def test_infinities_and_what_was_there_before() -> None:
    with calque.debug_infs(True):
        with pytest.raises(FloatingPointError, match=r"^invalid value \(inf\) .* in exp\."):
            calque.jit(lambda v: jnp.exp(v + 100) * 2)(ZEROS)
        with pytest.raises(FloatingPointError, match=r"^invalid value \(inf\) .* in div\."):
            jnp.ones(2) / jnp.zeros(2)
    with calque.debug_nans(True):
        for f, x in ((lambda v: v * 3, np.nan), (lambda v: (jnp.nan, v), 1.0)):
            with pytest.raises(FloatingPointError, match="the de-optimized function did not produc"
                               ".* it is in an input, or a result is a literal"):
                calque.jit(f)(x)
        with pytest.raises(FloatingPointError, match=r"^invalid value \(nan\) encountered in f\."):
            def f(v: Any) -> Any:
                return v / v
            calque.jit(f, donate_argnums=0)(jnp.zeros(3))  # (which is not there any more)
        seen = []

        def g(v: Any) -> Any:
            calque.debug.callback(lambda w: seen.append(w), v)
            return v / v
        with pytest.raises(FloatingPointError, match=r"^invalid value \(nan\) encountered in g\."):
            calque.jit(g)(ZEROS)
        calque.effects_barrier()
        assert len(seen) == 1  # (Python is not called again)


def test_large_captured_arrays_are_warned_of() -> None:
    table = jnp.ones((16, 16))

    def call() -> Any:
        return calque.jit(lambda v: v @ table)(jnp.ones(16))

    with calque.config.context("jax_captured_constants_warn_bytes", table.nbytes):
        with pytest.warns(UserWarning, match="^A large amount of constants were captured during"):
            call()
    for limit in (table.nbytes + 1, -1):
        with calque.config.context("jax_captured_constants_warn_bytes", limit), (
                warnings.catch_warnings()):
            warnings.simplefilter("error")
            call()
