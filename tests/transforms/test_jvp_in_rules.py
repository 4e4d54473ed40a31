"""Rules of custom_jvp that call jvp themselves, on functions with loops, calls and branches.

Such a rule differentiates what holds Programs; with reverse mode around it their operands are
primals and tangents side by side (quadax and jaxley do it).  The oracle is the function without
the rule.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.harness import both_ways

import calque
import calque.numpy as jnp
from calque import lax


def repeated(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: lax.scan(lambda c, _: (step(c), c * c), a, None, length=3)[0]


def kinked(a: Any) -> Any:
    return jnp.maximum(a * jnp.sin(a), a * 0.5)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "jit": calque.jit(lambda a: a * a),
    "cond": lambda a: lax.cond(a > 0, kinked, lambda a: a * 3, a),
    "switch": lambda a: lax.switch(1, [lambda a: a * a, kinked], a),
    "scan": repeated(kinked),
    "rows of a scan": lambda a: lax.scan(lambda c, _: (kinked(c), c * c), a, None, length=3)[1][2],
    "fori_loop": lambda a: lax.fori_loop(0, 3, lambda i, c: kinked(c), a),
    "checkpoint": calque.checkpoint(kinked),
    "a scan of scans": repeated(repeated(kinked)),
    "a scan of branches": repeated(lambda c: lax.cond(c > 0.1, kinked, lambda c: c, c))}


def ruled(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """sin(g), whose rule takes the derivative by jvp."""
    def plain(a: Any) -> Any:
        return jnp.sin(g(a))
    f = calque.custom_jvp(plain)
    f.defjvp(lambda primals, tangents: (f(*primals), calque.jvp(plain, primals, tangents)[1]))
    return f


@both_ways
def test_reverse_mode_through_a_rule_that_calls_jvp(jit: Any) -> None:
    """Called as it is, in jit, under vmap, and once more differentiated."""
    def slopes(a: Any) -> dict[str, Any]:
        return {name: [calque.grad(f)(a), calque.grad(calque.jit(f))(a),
                       calque.grad(lambda x, f=f: calque.vmap(f)(x[None]).sum())(a)]
                for name, f in zip(FUNCTIONS, map(ruled, FUNCTIONS.values()), strict=True)}

    def wanted(a: Any) -> dict[str, Any]:
        return {name: calque.grad(lambda a, g=g: jnp.sin(g(a)))(a) for name, g in FUNCTIONS.items()}

    found, expected = jit(lambda a: (slopes(a), wanted(a)))(np.float32(1.2))
    for name, values in found.items():
        np.testing.assert_allclose(values, [expected[name]] * 3, rtol=2e-5, err_msg=name)


@both_ways
def test_second_derivatives_through_a_rule_that_calls_jvp(jit: Any) -> None:
    names = ("scan", "cond", "jit")

    def both(a: Any) -> tuple[list[Any], list[Any]]:
        return ([calque.grad(calque.grad(ruled(FUNCTIONS[n])))(a) for n in names],
                [calque.grad(calque.grad(lambda a, g=FUNCTIONS[n]: jnp.sin(g(a))))(a)
                 for n in names])
    found, expected = jit(both)(np.float32(1.2))
    np.testing.assert_allclose(found, expected, rtol=2e-5)
