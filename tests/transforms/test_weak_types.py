"""Which derivatives are weakly typed, as recorded from jax 0.10.2.

For a weakly typed vector x: the result, the cotangent of x for strong ones, primal and tangent
of a jvp along x, the Jacobian by reverse mode (the gradient of a scalar) and by forward mode (the
Hessian).  W is weak, s is not; - is left as it is: square roots, powers and what is built on them
keep weak tangents, JAX's do not.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import calque
import calque.numpy as jnp
from calque import lax

RECORDED = {
    "x[0]": "W s WW s W",
    "x[1:3]": "W s WW W W",
    "x[::-1]": "W W WW W W",
    "x[::2]": "W s WW W W",
    "x[jnp.array([0,1])]": "W s WW W W",
    "jnp.take(x,jnp.array([1,0]))": "W s WW W W",
    "x[-1]": "W s WW s W",
    "lax.dynamic_slice(x,(1,),(2,))": "W s WW W W",
    "lax.dynamic_index_in_dim(x,1)": "W s WW W W",
    "jnp.concatenate([x,x])": "W W WW W W",
    "jnp.stack([x,x])": "W W WW W W",
    "jnp.pad(x,1)": "W - WW W W",
    "jnp.sort(x)": "W s WW W W",
    "jnp.cumsum(x)": "s W ss W s",
    "jnp.cumprod(x)": "s W ss W s",
    "jnp.max(x)": "s W ss W W",
    "jnp.mean(x)": "s W ss W W",
    "jnp.sum(x)": "s W ss W W",
    "jnp.prod(x)": "s W ss W W",
    "jnp.where(x>1,x,0.)": "W W WW W W",
    "jnp.where(x>1,x,-x)": "W W WW W W",
    "lax.select(x>1,x,x)": "W W WW W W",
    "jnp.clip(x,0,1)": "W W WW W W",
    "x@x": "W W WW W W",
    "jnp.outer(x,x)": "W W WW W W",
    "jnp.roll(x,1)": "W s WW W W",
    "jnp.flip(x)": "W W WW W W",
    "jnp.repeat(x,2)": "W W WW W W",
    "jnp.tile(x,2)": "W W WW W W",
    "jnp.std(x)": "s W ss W W",
    "calque.nn.logsumexp(x)": "s - ss - W",
    "calque.nn.softmax(x)": "s W ss W s",
    "jnp.linalg.norm(x)": "s W ss W W",
    "x.at[0].set(1.)": "W - WW W W",
    "x.at[0].add(1.)": "W - WW W W",
    "x.astype('float16')": "s W ss W s",
    "jnp.convolve(x,x)": "W W WW W W",
    "jnp.diff(x)": "W s WW W W",
    "x**2": "W - - W W",
    "x**3.5": "W - - W W",
    "jnp.sqrt(x)": "W - - W W",
    "jnp.abs(x)": "W W WW W W",
    "lax.top_k(x,2)[0]": "W s WW W W",
    "jnp.split(x,2)[0]": "W - WW W W",
    "x.reshape(2,2)": "W W WW W W",
    "x[:,None]": "W W WW W W",
    "jnp.broadcast_to(x,(3,4))": "W W WW W W",
    "jnp.var(x)": "s W ss W W",
    "jnp.median(x)": "s - ss - W",
    "lax.scan(lambda c,v:(c+v,c*v),0.,x)": "WW W WWWW WW WW",
    "lax.map(jnp.sin,x)": "W W WW W W",
    "lax.cond(True,jnp.sin,jnp.cos,x)": "W W WW W W",
    "calque.vmap(jnp.sin)(x)": "W W WW W W",
    "calque.jit(lambda y:y[0])(x)": "W s WW s W",
    "calque.nn.relu(x)": "W W WW W W",
    "jnp.einsum('i,i',x,x)": "W W WW W W",
    "jnp.diag(x)": "W - WW W W",
    "jnp.tril(x[:,None]*x)": "W W WW W W",
    "lax.cumlogsumexp(x)": "W s - W -",
    "x[jnp.argmax(x)]": "W s WW s W",
    "jnp.interp(x,x,x)": "W s WW W W",
    "jnp.trapezoid(x)": "s s ss s W",
    "(x+0j).real": "W W WW W W",
    "jnp.exp2(x)": "W - - W W",
    "jnp.logaddexp(x,x)": "W W WW W W",
    "jnp.maximum(x,0.)": "W W WW W W",
    "x*2": "W W WW W W",
    "x/2": "W W WW W W",
    "x%2": "W W WW W W",
    "jnp.floor(x)": "W W WW W W",
    "jnp.sign(x)": "W W WW W W",
}


def letters(tree: Any) -> str:
    return "".join("W" if v.weak_type else "s" for v in calque.tree_util.tree_leaves(tree))


def cotangent(f: Callable[..., Any], x: Any) -> Any:
    out, back = calque.vjp(f, x)
    return back(calque.tree_util.tree_map(jnp.ones_like, out))


def every(f: Callable[..., Any], x: Any) -> list[Any]:
    """Value, cotangent, primal and tangent, derivatives by reverse and forward mode."""
    out = f(x)
    scalar = not isinstance(out, tuple) and out.shape == ()
    return [out, cotangent(f, x), calque.jvp(f, (x,), (x,)),
            (calque.grad if scalar else calque.jacrev)(f)(x),
            (calque.hessian if scalar else calque.jacfwd)(f)(x)]


def check(text: str, run: Callable[..., Any]) -> None:
    f = eval(f"lambda x: {text}", {"calque": calque, "jnp": jnp, "lax": lax})
    found = map(letters, run(lambda x: every(f, x), jnp.broadcast_to(2.0, (4,)) * 1.0))
    for got, want, what in zip(found, RECORDED[text].split(), ("value", "vjp", "jvp", "reverse",
                                                               "forward"), strict=True):
        assert want in ("-", got), f"{text}: {what}"


def test_weak_types_are_those_of_jax() -> None:
    for text in RECORDED:
        check(text, calque.eval_shape)


@pytest.mark.parametrize("text", [
    pytest.param(text, marks=[] if i % 10 == 0 else [pytest.mark.slow])
    for i, text in enumerate(RECORDED)])
def test_arrays_have_the_types_that_were_traced(text: str) -> None:
    check(text, lambda f, x: f(x))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_by_pairs(n: int, reverse: bool) -> None:
    """Strong from two elements on, as recorded from jax 0.10.2."""
    made = lax.associative_scan(jnp.add, jnp.full(n, 0.5), reverse=reverse)
    assert made.weak_type == (n < 2)


def test_derivatives_of_sums_from_python_numbers() -> None:
    def f(x: Any) -> Any:
        total, partial = lax.scan(lambda c, a: (c + a * a, c * a), 0.0, x)
        return total + partial.sum()

    x = jnp.asarray([1.0, 2.0, 3.0])  # 1 + 4 + 9 + 0 + 1 * 2 + 5 * 3
    assert float(f(x)) == 31
    want = [2 + 2 * 2 + 2 * 3, 4 + 1 + 4 * 3, 6 + 5]
    for g in (calque.grad(f), calque.jacfwd(f), calque.jit(calque.grad(f))):
        assert g(x).tolist() == want
    rows = calque.vmap(calque.grad(f))(jnp.stack([x, x]))
    assert rows.tolist() == [want, want]
