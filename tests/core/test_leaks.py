"""checking_leaks finds values that are held after their transformation, and nothing else."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

HELD: dict[str, list[Any]] = {"values": []}


def keep(x: Any) -> Any:
    def later() -> Any:
        return x
    HELD["values"].append(later)
    return x


LEAKS: dict[str, tuple[Callable[[], Any], str]] = {
    "jit": (lambda: calque.jit(keep)(3.0), "DynamicJaxpr"),
    "inner jit": (lambda: calque.jit(lambda x: calque.jit(keep)(x))(3.0), "DynamicJaxpr"),
    "scan": (lambda: lax.scan(lambda c, x: (keep(c), None), 1.0, np.arange(3.0)), "DynamicJaxpr"),
    "cond": (lambda: lax.cond(True, keep, jnp.sin, 1.0), "DynamicJaxpr"),
    "vmap": (lambda: calque.vmap(keep)(np.arange(3.0)), "Batch"),
    "jvp": (lambda: calque.jvp(keep, (1.0,), (1.0,)), "JVP"),
    "grad": (lambda: calque.grad(keep)(1.0), "Linearize")}


@pytest.mark.parametrize("case", LEAKS)
def test_leaks(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, kind = LEAKS[case]
    monkeypatch.setitem(globals(), "HELD", {"values": []})
    text = (rf"Leaked trace {kind}Trace(.|\n)*This {kind}Tracer with object id [0-9]+ was created "
            rf"on line:\n  .*\n<{kind}Tracer [0-9]+> is referred to by <function [0-9]+> \(later\) "
            r"closed-over variable x\n<function [0-9]+> is referred to by <list [0-9]+>\[0\]\n"
            r"<list [0-9]+> is referred to by <dict [0-9]+>\['values'\]")
    with calque.checking_leaks(), pytest.raises(calque.errors.UnexpectedTracerError, match=text):
        call()
    call()  # without the check nobody is told


@calque.custom_vjp
def sine(x: Any) -> Any:
    return jnp.sin(x)


sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),))
SCANNED = jnp.arange(3.0)
SOUND: list[Callable[[], Any]] = [
    lambda: calque.hessian(calque.jit(lambda x: jnp.sin(x) * x))(3.0),
    lambda: calque.grad(lambda x: (x * x, {"x": x}), has_aux=True)(3.0),
    lambda: calque.vmap(calque.grad(lambda y: lax.scan(
        lambda c, x: (jnp.sin(c) * x, None), y, SCANNED)[0]))(SCANNED),
    lambda: calque.jit(calque.grad(calque.checkpoint(sine)))(1.0),
    lambda: calque.jacfwd(lambda x: lax.while_loop(
        lambda x: x[0] < 5, lambda x: x * 2, x))(jnp.ones(2)),
    lambda: calque.jit(lambda x: calque.vmap(lambda y: calque.grad(lambda z: z * y)(x))(
        SCANNED))(2.0),
    lambda: calque.jit(lambda k: calque.random.permutation(k, 4))(calque.random.key(0)),
    lambda: calque.jit(lambda r, x: r.__setitem__(0, x))(calque.new_ref(SCANNED), 1.0)]


@pytest.mark.parametrize("case", range(len(SOUND)))
def test_nothing_else_is_found(case: int) -> None:
    with calque.checking_leaks():
        SOUND[case]()
