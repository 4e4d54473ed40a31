"""Attention: rows of the benchmark table.  softmax(q k^T / sqrt(d)) v by einsum, and
nn.dot_product_attention with a causal mask; forward, and with the gradient of all three.
"""
from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
from pairs import Row, compare

import calque
import calque.numpy as cnp

BAR, LONG = 0.35, 1024  # where a square does not stay in a cache
CASES = [(1, 12, 1024, 64), (1, 4, 4096, 64), (8, 8, 128, 64), (1, 8, 512, 128)]


def _function(module: Any, causal: bool, gradient: bool) -> Callable[..., Any]:
    def plain(q: Any, k: Any, v: Any) -> Any:
        s = module.np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
        return module.np.einsum("bhqk,bkhd->bqhd", module.nn.softmax(s), v)

    def masked(q: Any, k: Any, v: Any) -> Any:
        return module.nn.dot_product_attention(q, k, v, is_causal=True)

    f = masked if causal else plain
    if not gradient:
        return module.jit(f)
    return module.jit(module.grad(lambda *x: (f(*x) ** 2).sum(), (0, 1, 2)))


def _libraries() -> tuple[Any, Any]:
    return (SimpleNamespace(np=cnp, nn=calque.nn, jit=calque.jit, grad=calque.grad),
            SimpleNamespace(np=jax.numpy, nn=jax.nn, jit=jax.jit, grad=jax.grad))


def rows() -> list[Row]:
    rng, made = np.random.default_rng(0), []
    for batch, heads, length, width in CASES:
        x = [rng.standard_normal((batch, length, heads, width), np.float32) for _ in range(3)]
        for causal in (False, True):
            for gradient in (False, True):
                ours, theirs = (_function(m, causal, gradient) for m in _libraries())
                a, b = [calque.device_put(v) for v in x], [jax.device_put(v) for v in x]
                name = (f"{'causal ' * causal}attention{', gradient' * gradient}, {batch} x "
                        f"{heads} heads, length {length}, width {width}")
                made.append(compare(
                    name, lambda f=ours, a=a: calque.block_until_ready(f(*a)),
                    lambda f=theirs, b=b: jax.block_until_ready(f(*b)),
                    BAR if length >= LONG else None, 15, budget_s=30))
    return made
