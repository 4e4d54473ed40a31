"""Derivatives where a function has a corner, a jump or a tie: as JAX 0.10.2 gives them.

data/kinks.txt has what the functions of `derivatives` printed there (`shown`), by name.  Programs
are interpreted by NumPy.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from support import oracle

import calque
import calque.numpy as jnp
from calque import lax, nn
from calque.scipy import special as sp

INF, NAN = np.inf, np.nan
F32 = np.float32
AT = np.array([0., -0., 1., -1., .5, 3., -3., 6., INF, -INF, NAN], F32)
A = np.array([0., 0., 0., 1., 1., -1., INF, -INF, NAN, 1., 3., -3., 2.], F32)
B = np.array([0., 1., -1., 1., 0., -1., INF, 1., 1., NAN, 3., 2., -3.], F32)

ONE: dict[str, Callable[[Any], Any]] = {
    "abs": jnp.abs, "fabs": jnp.fabs, "sign": jnp.sign, "square": jnp.square, "sqrt": jnp.sqrt,
    "cbrt": jnp.cbrt, "floor": jnp.floor, "sinc": jnp.sinc, "i0": jnp.i0,
    "nan_to_num": jnp.nan_to_num, "relu": nn.relu, "relu6": nn.relu6, "softplus": nn.softplus,
    "log_sigmoid": nn.log_sigmoid, "leaky_relu": nn.leaky_relu, "hard_sigmoid": nn.hard_sigmoid,
    "hard_tanh": nn.hard_tanh, "hard_silu": nn.hard_silu, "elu": nn.elu, "celu": nn.celu,
    "selu": nn.selu, "soft_sign": nn.soft_sign, "sparse_plus": nn.sparse_plus,
    "sparse_sigmoid": nn.sparse_sigmoid, "entr": sp.entr, "i1": sp.i1,
    "clip01": lambda x: jnp.clip(x, 0, 1), "clip11": lambda x: jnp.clip(x, 1, 1),
    "clip10": lambda x: jnp.clip(x, 1, 0), "x**0": lambda x: x ** 0, "x**2.": lambda x: x ** 2.,
    "x**.5": lambda x: x ** .5, "0**x": lambda x: F32(0) ** x,
    "where": lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.)}
TWICE = ("softplus", "log_sigmoid", "soft_sign", "elu", "celu", "relu", "square")
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": jnp.maximum, "minimum": jnp.minimum, "fmax": jnp.fmax, "fmin": jnp.fmin,
    "hypot": jnp.hypot, "logaddexp": jnp.logaddexp, "logaddexp2": jnp.logaddexp2,
    "copysign": jnp.copysign, "arctan2": jnp.arctan2, "mod": jnp.mod, "fmod": jnp.fmod,
    "divide": jnp.divide, "xlogy": sp.xlogy, "lax.max": lax.max, "lax.clamp":
    lambda x, y: lax.clamp(y, x, F32(2))}
VECTORS = [np.array(v, F32) for v in (
    [0, 0, 0], [1, 1, 0], [-1, 1, 0], [2, 1, 2], [NAN, 1, 1], [3., 4., 0.], [0.])]
WHOLE: dict[str, Callable[[Any], Any]] = {
    "max": jnp.max, "min": jnp.min, "nanmax": jnp.nanmax, "prod": jnp.prod, "std": jnp.std,
    "median": jnp.median, "ptp": jnp.ptp, "nanvar": jnp.nanvar, "norm": jnp.linalg.norm,
    "norm 1": lambda x: jnp.linalg.norm(x, 1), "norm inf": lambda x: jnp.linalg.norm(x, INF),
    "norm .5": lambda x: jnp.linalg.norm(x, .5), "norm 3": lambda x: jnp.linalg.norm(x, 3),
    "sort": lambda x: jnp.sort(x) @ np.arange(1, 1 + x.size, dtype=F32),
    "cummax": lambda x: lax.cummax(x) @ np.arange(1, 1 + x.size, dtype=F32),
    "top_k": lambda x: lax.top_k(x, 1)[0].sum(),
    "segment_max": lambda x: calque.ops.segment_max(x, np.zeros(x.size, int), 1).sum(),
    "at max": lambda x: jnp.ones(2).at[0].max(x[0]).sum(),
    "quantile": lambda x: jnp.quantile(x, .5, method="lower")}


def derivatives() -> dict[str, Any]:
    """All of them, by name: a function and its arguments."""
    made: dict[str, Any] = {}
    for name, f in ONE.items():
        made[name] = (calque.vmap(calque.grad(f)), (AT,))
        if name in TWICE:
            made[f"{name}''"] = (calque.vmap(calque.grad(calque.grad(f))), (AT,))
    for name, g in TWO.items():
        made[name] = (calque.vmap(calque.grad(g, (0, 1))), (A, B))
    for name, f in WHOLE.items():
        for i, v in enumerate(VECTORS):
            made[f"{name} of {i}"] = (calque.grad(f), (v,))
    return made


def shown(values: Sequence[Any]) -> str:
    return " ".join(f"{float(v) + 0.:.5g}" for a in values for v in np.asarray(a).ravel())


def test_derivatives_at_kinks() -> None:
    rows = (Path(__file__).parent / "data" / "kinks.txt").read_text().splitlines()
    want = dict(row.split(": ") for row in rows)
    wrong = []
    for name, (f, args) in derivatives().items():
        got = shown(oracle.interpret(calque.make_jaxpr(f)(*args), args))
        pairs = zip(map(float, got.split()), map(float, want.pop(name).split()), strict=True)
        if not all(np.isclose(g, w, rtol=1e-3, atol=1e-6, equal_nan=True) for g, w in pairs):
            wrong.append(f"{name}: {got}")
    assert not wrong, "\n".join(wrong)
    assert not want


def test_the_gradient_of_abs_at_zero() -> None:
    """Also as it is run, not interpreted."""
    grad = calque.vmap(calque.grad(jnp.abs))
    for run in (grad, calque.jit(grad)):
        np.testing.assert_array_equal(run(AT[:4]), [1, 1, 1, -1])
    np.testing.assert_array_equal(
        calque.jacfwd(lambda x: lax.fori_loop(0, 9, lambda i, x: jnp.abs(x), x))(F32(0)), 1)
