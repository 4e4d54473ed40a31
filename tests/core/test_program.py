"""Equations and what they hold."""
from __future__ import annotations

import gc
import weakref
from typing import NamedTuple

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.program import inner_of


class Numbers(NamedTuple):
    low: int
    high: int


def test_programs_of_an_equation_are_changed_and_nothing_else() -> None:
    (*_, e) = calque.make_jaxpr(
        lambda i, x: lax.cond(i, lambda x: x + 1, lambda x: x * 2, x))(True, 1.0).jaxpr.equations
    e = e.replace(params={**e.params, "numbers": Numbers(1, 2)})
    assert e.with_inner(lambda p: p) is e
    changed = e.with_inner(lambda p: p.replace(name="other"))
    assert [p.name for p in inner_of(changed.params)] == ["other"] * len(e.inner)
    assert isinstance(changed.params["numbers"], Numbers)
    assert {k: v for k, v in changed.params.items() if k != "branches"} == {
        k: v for k, v in e.params.items() if k != "branches"}


def test_a_program_that_passes_leave_as_it_is_does_not_hold_itself() -> None:
    """What a jitted function captures goes when the function goes, without a collection."""
    gc.collect()
    gc.disable()
    try:
        x = jnp.ones(10)
        jitted = calque.jit((lambda x: lambda: x)(x))
        seen = weakref.ref(x)
        del x
        np.testing.assert_array_equal(jitted(), np.ones(10))
        assert seen() is not None
        del jitted
        assert seen() is None
        p = calque.make_jaxpr(lambda x: x)(1.0)
        assert p.derived("itself", lambda: p) is p and p.derived("itself", lambda: None) is p
    finally:
        gc.enable()
