"""Calls at the edges, as functions of the namespaces: test_margins.py makes them with calque.

Run with JAX 0.10.2, this file records what they give there:
python tests/semantics/edge_calls.py > tests/semantics/data/margins.txt
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

F32 = np.float32
Calls = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


def weights(x: Any) -> Any:
    return np.cos(np.arange(x.size) * 1.7 + 0.3).reshape(x.shape).astype(F32)


def calls(jax: Any, jnp: Any, lax: Any, linalg: Any, special: Any) -> tuple[Calls, Calls]:
    """By name: a function and its arguments.  The second half is run, the first interpreted."""
    made: Calls = {}

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        def total(*args: Any) -> Any:
            sums = [(weights(x) * (x if x.dtype.kind == "f" else x.real + 0.5 * x.imag)).sum()
                    for x in jax.tree_util.tree_leaves(f(*args)) if x.dtype.kind in "fc"]
            return sum(sums)
        return jax.grad(total)

    rng = np.random.default_rng(0)
    tall, general = rng.standard_normal((4, 2)), rng.standard_normal((3, 3))
    turned = rng.standard_normal((3, 3)) * 1j
    for name, dtype in (("f32", F32), ("c64", np.complex64)):
        a = (general + (turned if dtype is np.complex64 else 0)).astype(dtype)
        t = (tall + (tall[::-1] * 1j if dtype is np.complex64 else 0)).astype(dtype)
        spd = (a @ a.conj().T / 3 + np.eye(3)).astype(dtype)
        each: dict[str, tuple[Callable[..., Any], Any]] = {
            "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), spd),
            "upper cholesky": (lambda x: jnp.linalg.cholesky(
                x, upper=True, symmetrize_input=False), spd + np.triu(a, 1)),
            "eigh": (lambda x: jnp.abs(lax.linalg.eigh(x, symmetrize_input=False)[0]), spd),
            "eigenvalues": (lambda x: lax.linalg.eigh(x, symmetrize_input=False)[1], spd),
            "qr": (lambda x: lax.linalg.qr(x, full_matrices=True), t),
            "pinv": (lambda x: jnp.linalg.pinv(x, hermitian=True), spd),
            "expm": (linalg.expm, a)}
        made.update({f"{k} {name}": (loss(f), (x,)) for k, (f, x) in each.items()})
    made["slogdet"] = (loss(lambda x: jnp.linalg.slogdet(x, method="qr")), (general.astype(F32),))
    ties = np.array([1, 1, 0, 1, 1, 2], F32)
    for reverse in (False, True):
        def running(x: Any, reverse: bool = reverse) -> Any:
            return lax.cumlogsumexp(x, reverse=reverse)

        def twice(x: Any, f: Any = running) -> Any:
            return jax.jvp(lambda x: jax.jvp(f, (x,), (weights(x),))[1], (x,), (weights(x),))[1]
        made[f"cumlogsumexp {reverse}"] = (twice, (ties,))
    p, q = np.array([np.inf, 1, 0, 2, np.inf], F32), np.array([1, 1, 1, 0, 0.5], F32)
    for f in (special.rel_entr, special.kl_div):
        made[f.__name__] = (jax.vmap(jax.grad(f, (0, 1))), (p, q))
    run: Calls = {"solve": (loss(lambda x: linalg.solve(
        x, general.astype(F32), assume_a="pos")), ((general @ general.T + np.eye(3)).astype(F32),))}
    return made, run


def shown(values: Sequence[Any]) -> str:
    flat = [v for a in values for v in np.asarray(a).ravel()]
    return " ".join(f"{v + 0.0:.5g}" for v in flat)


def main() -> None:
    import jax
    import jax.scipy.linalg
    import jax.scipy.special

    for part in calls(jax, jax.numpy, jax.lax, jax.scipy.linalg, jax.scipy.special):
        for name, (f, args) in part.items():
            print(f"{name}: {shown(jax.tree_util.tree_leaves(f(*args)))}")


if __name__ == "__main__":
    main()
