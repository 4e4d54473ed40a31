"""References that rules of custom derivatives hold, in loops and branches that are differentiated;
what is expected is computed from the cosines by hand."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax


@calque.custom_vjp
def stash(ref: Any, x: Any) -> Any:
    return x


def _write(ref: Any, ct: Any) -> Any:
    ref[...] = ct
    return None, ct


def _add(ref: Any, ct: Any) -> Any:
    ref[...] += ct
    return None, ct


@calque.custom_vjp
def tally(ref: Any, x: Any) -> Any:
    return x


stash.defvjp(lambda ref, x: (x, ref), _write)
tally.defvjp(lambda ref, x: (x, ref), _add)


def by_scan(f: Any, x: Any, n: int) -> Any:
    return lax.scan(lambda c, _: (f(c), ()), x, None, length=n)[0]


def by_fori(f: Any, x: Any, n: int) -> Any:
    return lax.fori_loop(0, n, lambda i, c: f(c), x)


def by_branches(f: Any, x: Any, n: int) -> Any:
    for _ in range(n):
        x = lax.cond(x < 3.0, f, lambda c: c, x)
    return x


def by_saved_scan(f: Any, x: Any, n: int) -> Any:
    return by_scan(calque.checkpoint(f), x, n)


def by_nested(f: Any, x: Any, n: int) -> Any:
    def step(c: Any) -> Any:
        return lax.cond(c < 3.0, lambda c: by_scan(f, c, 1), lambda c: c, c)
    return by_saved_scan(step, x, n)


LOOPS = [by_scan, by_fori, by_branches, by_saved_scan, by_nested]


def cotangents(x: float, n: int) -> list[float]:
    """Of c = sin(c), n times: the derivative of the result by each step's result, the last first.
    """
    values = [x]
    for _ in range(n):
        values.append(float(np.sin(values[-1])))
    found = [1.0]
    for v in reversed(values[1:-1]):
        found.append(found[-1] * float(np.cos(v)))
    return found


@pytest.mark.parametrize("outer", ["plain", "jit inside", "jit outside"])
@pytest.mark.parametrize("loop", LOOPS)
def test_backward_rules_write_in_loops_and_branches(loop: Any, outer: str) -> None:
    last, every = calque.new_ref(0.0), calque.new_ref(10.0)

    def f(x: Any) -> Any:
        return loop(lambda c: tally(every, stash(last, jnp.sin(c))), x, 3)
    g = {"plain": calque.grad(f), "jit inside": calque.grad(calque.jit(f)),
         "jit outside": calque.jit(calque.grad(f))}[outer]
    for round in (1, 2):
        slope = g(jnp.float32(0.5))
        wanted = cotangents(0.5, 3)
        np.testing.assert_allclose(slope, wanted[-1] * np.cos(0.5), rtol=1e-5)
        np.testing.assert_allclose(last[...], wanted[-1], rtol=1e-5)
        np.testing.assert_allclose(every[...], 10.0 + round * sum(wanted), rtol=1e-5)


def test_a_pullback_writes_when_it_is_called() -> None:
    last = calque.new_ref(0.0)
    _, back = calque.vjp(lambda x: by_scan(lambda c: stash(last, 2 * c), x, 3), 1.0)
    assert last[...] == 0.0
    assert calque.jit(back)(5.0)[0] == 40.0 and last[...] == 20.0


def test_references_among_arguments_of_vjp_and_grad() -> None:
    ref = calque.new_ref(3.0)

    def f(x: Any, ref: Any) -> Any:
        return stash(ref, 2 * x)
    out, back = calque.vjp(f, 2.0, ref)
    x_bar, ref_bar = back(5.0)
    assert (out, x_bar, ref[...]) == (4.0, 10.0, 5.0)
    assert type(ref_bar) is calque.Ref and ref_bar[...] == 0.0 and ref_bar is not ref
    x_bar, ref_bar = calque.grad(f, (0, 1))(2.0, ref)
    assert (x_bar, ref_bar[...], ref[...]) == (2.0, 0.0, 1.0)
    given = back.with_refs(calque.ad.GradValue(), calque.ad.DontWant())(7.0)
    assert given[0] == 14.0 and isinstance(given[1], calque.ad.DidntWant) and ref[...] == 7.0


def test_references_without_derivatives() -> None:
    ref = calque.new_ref(jnp.arange(3.0), kind="no_grad_no_remat")

    def f(x: Any) -> Any:
        ref[1] = x * x
        return x * ref[1]
    for g in (f, calque.jit(f), calque.checkpoint(f)):
        value, slope = calque.value_and_grad(g)(3.0)
        assert (value, slope) == (27.0, 9.0)
        np.testing.assert_array_equal(ref[...], [0, 9, 2])
    assert calque.jvp(f, (3.0,), (1.0,)) == (27.0, 9.0)


def test_residuals_are_no_references_but_arguments() -> None:
    made = calque.new_ref(0.0)
    for rule in (lambda x: (x, made), lambda x: (x, calque.new_ref(0.0))):
        f = calque.custom_vjp(lambda x: x)
        f.defvjp(rule, lambda ref, ct: (ct,))
        with pytest.raises(ValueError, match=r"custom_vjp fwd function .* output tree path \[1\]"):
            calque.grad(f)(1.0)
