"""What calque.export writes runs in JAX with the same answers (where jax is installed)."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.harness import compare, expected, function, words  # noqa: E402
from support.samples import ROWS  # noqa: E402

import calque  # noqa: E402
import calque.numpy as jnp  # noqa: E402
from calque import export, lax  # noqa: E402

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.slow

# XLA's Cholesky factor of a matrix with infinities is NaN where LAPACK's is infinite
DIFFERENT = {"cholesky": "special"}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_samples_run_in_jax(name: str, x64: None) -> None:
    row = ROWS[name]
    wrong = []
    with jax.enable_x64(True):
        for s in (*row.samples, *row.specials):
            if DIFFERENT.get(name) == s.label:
                continue
            params, arrays = s.parameters(row.main), row.arrays(s, row.main)
            args = [np.asarray(a) for a in words(row, s, arrays)]
            blob = export.export(calque.jit(function(row, s, params)))(*args).serialize()
            outs = jax.export.deserialize(blob).call(*args)
            text = compare(expected(row, params, arrays), row)([np.asarray(o) for o in outs])
            wrong += [f"{s.label}: {text}"] if text else []
    assert not wrong, "\n".join(wrong)


def _both(f: Any, *args: Any, order: int = 0, specs: Any = None) -> None:
    e = export.export(calque.jit(f))(*(args if specs is None else specs))
    other = jax.export.deserialize(e.serialize(vjp_order=order))
    want = calque.tree_util.tree_leaves(f(*args))
    got = jax.tree.leaves(other.call(*[np.asarray(a) for a in args]))
    for g, w in zip(got, want, strict=True):
        # two compilers' functions in float32
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
    assert other.has_vjp() == (order > 0)


def test_derivatives_in_jax() -> None:
    x = jnp.linspace(-1, 1, 6)
    e = export.export(calque.jit(lambda x: jnp.sin(x) * x))(x)
    other = jax.export.deserialize(e.serialize(vjp_order=2))
    first = jax.grad(lambda x: other.call(x).sum())
    np.testing.assert_allclose(first(np.asarray(x)), np.cos(x) * x + np.sin(x), rtol=1e-5)
    second = jax.grad(lambda x: first(x).sum())(np.asarray(x))
    np.testing.assert_allclose(second, 2 * np.cos(x) - np.sin(x) * x, rtol=1e-5, atol=1e-6)


B, = export.symbolic_shape("b")
SYMBOLIC = {
    "elementwise": lambda x: jnp.sin(x) * 2, "mean": lambda x: x.mean(0),
    "softmax": lambda x: calque.nn.softmax(x, 0), "product": lambda x: x @ x.T,
    "joined": lambda x: jnp.concatenate([x, x]).reshape(2 * x.shape[0], 2, 2).sum(1),
    "arange": lambda x: jnp.arange(x.shape[0]) * x.shape[0], "last": lambda x: x[-1],
    "strided": lambda x: x[::2], "rest": lambda x: x[:-1], "sorted": lambda x: jnp.sort(x, 0),
    "argmax": lambda x: jnp.argmax(x, 0), "update": lambda x: x.at[0].add(1.0),
    "cumulative": lambda x: (jnp.cumsum(x, 0), lax.cummax(x, 0, True)),
    "scan": lambda x: lax.scan(lambda c, r: (c + r.sum(), r * c), 0.0, x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    "loop": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(4)),
    "slices": lambda x: lax.dynamic_slice(x, (1, 0), (x.shape[0], 2)),
    "gradient": calque.grad(lambda x: (jnp.tanh(x) ** 2).mean()),
    "flat": lambda x: x.reshape(-1), "eye": lambda x: jnp.eye(x.shape[0]),
}


@pytest.mark.parametrize("name", sorted(SYMBOLIC))
def test_symbolic_sizes_in_jax(name: str) -> None:
    for n in (3, 5):
        x = jnp.linspace(-1, 2, n * 4).reshape(n, 4)
        _both(SYMBOLIC[name], x, specs=(calque.ShapeDtypeStruct((B, 4), "float32"),))


def test_trees_platforms_and_keys_in_jax() -> None:
    def f(p: Any, key: Any) -> Any:
        return {"z": p["a"][0] * 2, "u": calque.random.uniform(key, (3,))}, None

    key = calque.random.key(3)
    e = export.export(calque.jit(f), platforms=("cuda", "cpu"))({"a": [jnp.ones(2)]}, key)
    other = jax.export.deserialize(e.serialize())
    assert other.platforms == ("cuda", "cpu")
    out, none = other.call({"a": [np.ones(2, "f4")]}, jax.random.key(3))
    want, _ = f({"a": [jnp.ones(2)]}, key)
    assert none is None and sorted(out) == ["u", "z"]
    np.testing.assert_array_equal(out["u"], want["u"])
