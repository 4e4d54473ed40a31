"""Rows of the benchmark table for linear algebra, against jax and against LAPACK.

The kernels are the same in a process and in an artifact, so one time stands for both; LAPACK's is
SciPy's (OpenBLAS).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from pairs import Row, compare

import calque
import calque.numpy as cnp

SIZES = (64, 128, 256, 512)
PYTHON = 1.3  # times jax's time, in a Python process
LAPACK: dict[str, tuple[float, Callable[..., Any]]] = {  # bars of artifacts
    "cholesky": (4.0, lambda a, b: scipy.linalg.cholesky(b, lower=True)),
    "lu": (4.0, lambda a, b: scipy.linalg.lu_factor(a)),
    "solve": (4.0, scipy.linalg.solve),
    "qr": (4.0, lambda a, b: scipy.linalg.qr(a, mode="economic")),
    "eigh": (8.0, lambda a, b: np.linalg.eigh(b)),
    "svd": (10.0, lambda a, b: np.linalg.svd(a)),
}
OURS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda m, n, a, b: m.lax.linalg.cholesky(b),
    "lu": lambda m, n, a, b: m.lax.linalg.lu(a),
    "solve": lambda m, n, a, b: n.linalg.solve(a, b),
    "qr": lambda m, n, a, b: m.lax.linalg.qr(a, full_matrices=False),
    "eigh": lambda m, n, a, b: m.lax.linalg.eigh(b),
    "svd": lambda m, n, a, b: m.lax.linalg.svd(a),
}


def rows() -> list[Row]:
    """f32 of each size; b is symmetric and positive definite."""
    rng, found = np.random.default_rng(0), []
    for n in SIZES:
        a = rng.standard_normal((n, n)).astype(np.float32)
        b = (a @ a.T / n + np.eye(n)).astype(np.float32)
        for name, f in OURS.items():
            ours = calque.jit(lambda x, y, f=f: f(calque, cnp, x, y))
            theirs = jax.jit(lambda x, y, f=f: f(jax, jnp, x, y))
            ca, cb, ja, jb = calque.device_put(a), calque.device_put(b), *map(jnp.asarray, (a, b))

            def run(ours: Any = ours, ca: Any = ca, cb: Any = cb) -> Any:
                return calque.block_until_ready(ours(ca, cb))

            def run_jax(theirs: Any = theirs, ja: Any = ja, jb: Any = jb) -> Any:
                return jax.block_until_ready(theirs(ja, jb))

            bar, lapack = LAPACK[name]
            found.append(compare(f"{name} {n}", run, run_jax, PYTHON))
            found.append(compare(f"{name} {n} (against LAPACK)", run,
                                 lambda lapack=lapack, a=a, b=b: lapack(a, b), bar))
    return found
