"""Equations and what they hold."""
from __future__ import annotations

from typing import NamedTuple

import calque
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
    assert [p.name for p in inner_of(changed.params)] == ["other"] * len(inner_of(e.params))
    assert isinstance(changed.params["numbers"], Numbers)
    assert {k: v for k, v in changed.params.items() if k != "branches"} == {
        k: v for k, v in e.params.items() if k != "branches"}
