"""The one list of what primitives cost (core/weights), and that callers are not kept waiting."""
from __future__ import annotations

import pytest
from samples import ELEMENTWISE, FUNCTIONS

import calque
from calque.core import weights
from calque.core.primitive import registry
from calque.lowering.passes import cost


def test_every_elementwise_primitive_has_a_weight() -> None:
    assert set(weights.ELEMENTWISE) == set(ELEMENTWISE), "run python benchmarks/weights.py --write"
    assert all(w >= 1 for w in weights.ELEMENTWISE.values())


def test_the_lists_know_the_same_functions() -> None:
    """Whatever costs more than some additions is a function, and every function has a weight."""
    heavy = {n for n, w in weights.ELEMENTWISE.items() if w > 3}
    assert heavy - {"rem"} <= weights.TRANSCENDENTAL
    assert weights.TRANSCENDENTAL - {"cumlogsumexp"} <= set(weights.ELEMENTWISE)
    assert set(FUNCTIONS) <= weights.TRANSCENDENTAL
    assert weights.TRANSCENDENTAL | set(weights._OTHERS) <= set(registry)


@pytest.mark.parametrize("name", ["igamma", "zeta", "lgamma", "digamma", "erf_inv"])
def test_long_functions_do_not_keep_their_caller(name: str) -> None:
    """Of 400,000 elements (`igamma` of them takes 50 ms)."""
    arity = 2 if name in ("igamma", "zeta") else 1
    spec = calque.ShapeDtypeStruct((400_000,), "float32")
    program = calque.make_jaxpr(lambda *xs: registry[name].bind(*xs))(*[spec] * arity).jaxpr
    assert not cost.is_small(program)
