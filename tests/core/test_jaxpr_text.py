"""Programs are laid out as JAX lays them out.

`data/jaxprs.txt` is what `str(jax.make_jaxpr(f)(*args))` gives in jax 0.10.2, made by running this
file in its environment.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).parent / "data" / "jaxprs.txt"


def programs(j: Any, np_: Any, lax: Any) -> list[tuple[Callable[..., Any], list[Any]]]:
    """Functions and arguments, for either library."""
    x = np.ones(3, np.float32)
    return [
        (lambda x: np_.sin(x) * 2.0, [x]),
        (lambda x: (x, x + 1, 3), [x]),
        (lambda x: x + np.arange(3.0, dtype=np.float32), [x]),
        (lambda x: lax.cond(x[0] > 0, lambda v: v + 1, lambda v: v * 2, x), [x]),
        (lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, x)), [x]),
        (lambda x: j.jit(lambda v: v * 2)(x) + 1, [x]),
        (j.grad(lambda v: (v ** 3).sum()), [x]),
        (lambda *xs: sum(xs), [1.0] * 14),
        (lambda x: j.jit(lambda a, b: (a * b, a))(x, x * 2), [1.0]),
        (lambda x: 3, [1.0]),
        (lambda: 3, []),
        (lambda: (), []),
        (lambda x: lax.scan(lambda c, v: (c + x, None), 0.0, None, length=3)[0], [1.0]),
        (lambda x: x, [x]),
        (lambda x: np_.concatenate([x, x])[1:3], [x]),
        (lambda x: x.astype("int32"), [np.ones((1,) * 7, np.float32)]),
        (lambda x: x.astype("int32"), [np.ones((1, 10, 1, 1, 1, 1, 1), np.float32)]),
        (lambda x: lax.map(lambda v: lax.cond(v > 0, np_.sin, np_.cos, v), x), [x])]


def texts(j: Any, np_: Any, lax: Any) -> list[str]:
    return [str(j.make_jaxpr(f)(*args)) for f, args in programs(j, np_, lax)]


def test_programs_are_laid_out_as_in_jax() -> None:
    import calque
    recorded = RECORDED.read_text().split("\n----\n")
    for got, want in zip(texts(calque, calque.numpy, calque.lax), recorded, strict=True):
        assert got == want


if __name__ == "__main__":
    import jax
    sys.stdout.write("\n----\n".join(texts(jax, jax.numpy, jax.lax)))
