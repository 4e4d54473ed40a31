"""Products in kernels of loops, at the levels of x86 whose registers differ: blocks with remainders
of rows, columns and summed axes, every order of axes, in halves and whole numbers; and matrices
that stay the same, which are laid out in panels before the loop (passes/panels).
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.harness import some_and_more

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.config import config
from calque.lowering.kernels.contract import LEVELS, Registers, panel_width, tile
from calque.lowering.passes import cost
from calque.lowering.passes.hoist import hoist
from calque.lowering.passes.panels import Panels, panels
from calque.lowering.target.targets import TargetError, runnable_target

pytestmark = pytest.mark.usefixtures("x64", "loops_over_memory")
STEPS = 260
BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(3)


@pytest.fixture(params=["x86-64-v3", *[pytest.param(level, marks=pytest.mark.slow)
                                       for level in ("x86-64-v2", "x86-64-v4")]])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.context("calque_cpu", request.param):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        yield request.param


def numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(0, 100, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


# einsum, sizes of its letters, dtype, whether the right operand stays the same
PRODUCTS = [
    ("mk,kn->mn", dict(m=13, k=7, n=53), "f4", False),
    ("mk,kn->mn", dict(m=9, k=3, n=5), "f8", False),
    ("mk,nk->mn", dict(m=7, k=37, n=11), "f4", False),
    ("km,kn->mn", dict(m=6, k=5, n=18), "f4", False),
    ("km,nk->mn", dict(m=3, k=4, n=2), "f4", False),
    ("k,kn->n", dict(k=19, n=131), "f4", False),
    ("mk,k->m", dict(m=21, k=33), "f4", False),
    ("km,k->m", dict(m=21, k=33), "f8", False),
    ("k,k->", dict(k=45), "f4", False),
    ("mk,kn->mn", dict(m=1, k=1, n=1), "f4", False),
    ("abc,acd->abd", dict(a=3, b=4, c=5, d=17), "f4", False),
    ("abmk,kabn->mn", dict(a=2, b=3, m=5, k=4, n=9), "f4", False),
    ("mk,kn->mn", dict(m=5, k=9, n=20), "i4", False),
    ("mk,nk->mn", dict(m=5, k=70, n=3), "u1", False),
    ("mk,kn->mn", dict(m=5, k=9, n=20), BF16, False),
    ("mk,nk->mn", dict(m=2, k=41, n=3), "f2", False),
    ("mk,kn->mn", dict(m=4, k=40, n=212), "f4", True),
    ("mk,nk->mn", dict(m=3, k=50, n=53), "f4", True),
    ("k,kn->n", dict(k=64, n=64), "f8", True),
    ("kmab,bakcd->mcd", dict(m=2, k=3, a=4, b=5, c=6, d=7), "f4", True),
    ("mk,nk->mn", dict(m=3, k=90, n=50), BF16, True),
    ("mk,kn->mn", dict(m=3, k=90, n=50), "f2", True),
    ("mk,kn->mn", dict(m=3, k=60, n=40), "i4", True)]


def operands(products: list[Any]) -> list[tuple[Any, Any]]:
    found = []
    for text, sizes, dtype, same in products:
        x, y = (tuple(sizes[c] for c in part) for part in text.split("->")[0].split(","))
        found.append((numbers((STEPS, *x), dtype), numbers(y if same else (STEPS, *y), dtype)))
    return found


def every(arrays: Any, products: list[Any]) -> Any:
    """The products in every step of one loop; what stays the same is captured."""
    def step(c: Any, rows: Any) -> Any:
        return c + 1, [jnp.einsum(text, x, y if y is not None else whole[1]).astype(x.dtype)
                       for (text, *_), (x, y), whole in zip(products, rows, arrays)]
    rows = [(x, None if p[3] else y) for (x, y), p in zip(arrays, products)]
    return lax.scan(step, jnp.zeros(3), rows)[1]


@pytest.mark.parametrize("products", some_and_more(PRODUCTS, 0.5, lambda p: p[2:]))
def test_products(products: list[Any], level: str) -> None:
    arrays = operands(products)

    def f(arrays: Any) -> Any:
        return every(arrays, products)

    (loop,) = [e for e in calque.make_jaxpr(f)(arrays).jaxpr.equations
               if e.primitive.name == "scan"]
    assert cost.is_kernel(loop)
    outs = calque.jit(f)(arrays)
    for (text, _, dtype, same), (x, y), out in zip(products, arrays, outs, strict=True):
        left, right = text.split("->")[0].split(",")
        wide = np.int64 if np.dtype(dtype).kind in "iu" else np.float64
        want = np.einsum(f"t{left},{'' if same else 't'}{right}->t{text.split('->')[1]}",
                         x.astype(wide), y.astype(wide)).astype(dtype).astype(wide)
        eps = 0 if wide is np.int64 else float(ml_dtypes.finfo(np.dtype(dtype)).eps)
        np.testing.assert_allclose(np.asarray(out).astype(wide), want, rtol=2 * eps,
                                   atol=100 * min(eps, 1e-6), err_msg=f"{level} {text} {dtype}")


def test_what_is_no_number_goes_through(level: str) -> None:
    """Columns beside a NaN or an infinity stay as they are, also those that are added to panels."""
    x, w = numbers((STEPS, 5, 40), "f4"), numbers((40, 53), "f4")
    x[:, 2, 3], w[7, 52], w[8, 51] = np.inf, np.nan, -np.inf
    f = calque.jit(lambda x, w: lax.scan(lambda c, x: (c + 1, x @ w), jnp.zeros(3), x)[1])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f(x, w), (x.astype("f8") @ w), rtol=1e-4, atol=1e-4)


def test_blocks_fit_the_registers() -> None:
    for registers in LEVELS.values():
        for m in (1, 2, 5, 8, 16, 17, 100):
            for n in (1, 2, 3, 16, 40):
                r, c = tile(m, n, registers, False)
                assert r <= m and c <= n and r * c + (c if r > 1 else 0) < registers.count
                r, c = tile(m, n, registers, True)
                assert r * c + min(r, c) < registers.count
    assert tile(16, 32, Registers(32, 16), False)[0] * 32 >= 4 * 32
    assert panel_width(16, 256, np.dtype("f4"), LEVELS["x86-64-v3"]) % 8 == 0
    assert panel_width(4, 3, np.dtype("f8"), LEVELS["x86-64-v4"]) == 4


def test_only_large_matrices_are_laid_out_anew() -> None:
    def found(f: Any, *args: Any) -> list[Panels]:
        (e,) = [e for e in hoist(calque.make_jaxpr(f)(*args).jaxpr).equations
                if e.primitive.name == "scan"]
        made, sources = panels(e, lambda rows, columns, dtype: 8)
        assert len(made.inputs) == len(sources)
        return [s for s in sources if isinstance(s, Panels)]

    def loop(steps: int, n: int = 64) -> Any:
        w = np.ones((n, n))
        return found(lambda w, h: lax.scan(lambda h, _: (jnp.tanh(h @ w), None), h, None,
                                           length=steps)[0], w, np.ones((4, n)))
    assert loop(100) == [Panels(0, (0, 1), 64, 64, 8, np.dtype("f8"))]
    assert not loop(50) and not loop(100, 16)
    square = np.ones((64, 64))
    assert not found(lambda w: lax.scan(lambda h, _: (h @ h, h @ h), w, None, length=100), square)
    (one,) = found(lambda w, h: lax.scan(lambda h, _: (calque.jit(
        lambda a, b: jnp.tanh(lax.dot_general(a, b, (((1,), (1,)), ((), ()))) + a @ b.T))(h, w),
        None), h, None, length=100)[0], square, np.ones((4, 64)))[:1]
    assert one.order == (1, 0)
