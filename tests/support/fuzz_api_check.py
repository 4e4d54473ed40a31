"""Comparisons of the API fuzzer: tolerances, sensitivity, reproducers (see fuzz_api.py)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from support import oracle
from support.oracle import difference, interpret, tolerance, wide

FACTOR = 30.0  # rounding errors of the operations of a line, or of a program
# JAX's own approximations (lgamma, betainc, igamma, zeta, erf_inv, matrix functions) are some 1e-5
# from the true value in f32, and XLA sums in another order; half precision is rounded once more
JAX_FACTOR = {"float16": 6.0, "bfloat16": 6.0, "float32": 200.0, "complex64": 200.0,
              "float64": 20000.0, "complex128": 20000.0}
# results that are moved, chosen or exactly rounded: nothing to shake
EXACT = frozenset((  # noqa: SIM905
    "reshape transpose broadcast_in_dim slice squeeze expand_dims rev concatenate pad gather "
    "scatter dynamic_slice dynamic_update_slice select_n neg abs sign floor ceil round max min "
    "copy copy_p "
    "convert_element_type iota real imag complex conj reduce_max reduce_min sort top_k clamp split "
    "stop_gradient jit pjit cond scan while custom_jvp_call custom_vjp_call checkpoint tile "
    "reduce_precision bitcast_convert_type nextafter is_finite cummax cummin random_wrap "
    "optimization_barrier").split())
# results that are sums: an element may be small by cancellation
SUMS = frozenset((  # noqa: SIM905
    "reduce_sum cumsum dot_general ragged_dot conv_general_dilated fft lu qr geqrf eigh eig svd "
    "schur cholesky triangular_solve tridiagonal tridiagonal_solve hessenberg householder_product "
    "reduce_prod reduce_window_sum scatter-add cumlogsumexp").split())


def shaken(program: Any, args: Sequence[Any], trial: int) -> list[Any]:
    """The interpreter's outputs where every float on the way is off by its dtype's tolerance."""
    plain = oracle.evaluate
    rng = np.random.default_rng(trial)

    def evaluate(name: str, avals: Any, params: Any, *xs: Any) -> Any:
        if trial == 1 and name in SUMS | {"cumprod", "reduce_prod", "mul"}:
            xs = tuple(_extreme(x, 2**-10) for x in xs)  # near overflow the order decides
        if trial == 2 and name in SUMS | {"cumprod", "reduce_prod", "mul"}:
            xs = tuple(_extreme(x, np.inf) for x in xs)
        outs = plain(name, avals, params, *xs)
        if trial == 0:  # compiled programs flush denormals
            return [_flushed(o) for o in outs]
        if name in EXACT:
            return outs
        size = max((_largest(x) for x in (*xs, *outs)), default=0.) if name in SUMS else 0.
        return [_moved(o, rng, (1, 1, 4, .3)[trial % 4], size) for o in outs]

    oracle.evaluate = evaluate
    try:
        with np.errstate(all="ignore"):
            return interpret(program, args)
    finally:
        oracle.evaluate = plain


def _extreme(x: Any, factor: float) -> Any:
    """x with its elements near overflow times a factor."""
    if x.dtype.kind not in "fcV" or x.dtype.name.startswith("float8"):
        return x
    most = float(ml_dtypes.finfo(x.dtype if x.dtype.kind != "c" else x.real.dtype).max)
    large = np.isfinite(x) & (np.abs(wide(x)) > most / 256)
    sign = np.sign(wide(x).real) if factor == np.inf else wide(x)  # (inf * complex is NaN)
    return np.where(large, np.asarray(sign * factor).astype(x.dtype), x)


def _largest(x: Any) -> float:
    if x.dtype.kind not in "fcV" or not x.size:
        return 0.
    sizes = np.abs(wide(x))
    return float(np.max(sizes, initial=0., where=np.isfinite(sizes)))


def _moved(o: Any, rng: Any, scale: float, size: float) -> Any:
    """Off by the tolerance, of the element or of `size`, where sums may cancel."""
    if o.dtype.kind not in "fcV" or o.dtype.name.startswith("float8"):
        return o
    by = rng.choice([-1, 1], o.shape) * tolerance(o.dtype) * scale
    return np.asarray(wide(o) * (1 + by) + by * size).astype(o.dtype)


def _flushed(o: Any) -> Any:
    if o.dtype.kind not in "fV" or o.dtype.name.startswith("float8"):
        return o
    tiny = float(ml_dtypes.finfo(o.dtype).tiny)
    return np.where(np.abs(wide(o)) < tiny, np.zeros((), o.dtype), o)


def sensitivity(program: Any, args: Sequence[Any], wants: Sequence[Any]) -> list[Any]:
    """How far each element of the outputs moves; infinite where an exact result jumps."""
    spread = [np.zeros(w.shape) for w in wants]
    for trial in range(7):
        for i, (m, w) in enumerate(zip(shaken(program, args, trial), wants)):
            with np.errstate(all="ignore"):
                if w.dtype.kind in "biuO":
                    moved = np.where(m != w, np.inf, 0.)
                else:
                    a, b = wide(m), wide(w)
                    moved = np.where((a == b) | ((a != a) & (b != b)), 0., np.abs(a - b))
                    moved = np.where(np.isnan(moved), np.inf, moved)
                    if trial in (1, 2):  # what overflow decides, by an order or another
                        moved = np.where(moved > .25 * np.abs(b), np.inf, moved)
                spread[i] = np.maximum(spread[i], moved)
    return spread


def differences(gots: Sequence[Any], wants: Sequence[Any], program: Any, args: Sequence[Any],
                jax: bool = False) -> str:
    """'' where all results are as near as rounding explains, else the first that is not."""
    found = []
    for g, w in zip(gots, wants):
        factor = JAX_FACTOR.get(np.dtype(w.dtype).name, 1.0) if jax else FACTOR
        found.append(difference(g, w, factor, normwise=True))
    if len(gots) != len(wants):
        return f"{len(gots)} results instead of {len(wants)}"
    if not any(found):
        return ""
    spread = sensitivity(program, args, wants)
    for k, (f, g, w, s) in enumerate(zip(found, gots, wants, spread)):
        if f and (np.shape(g) != w.shape or np.asarray(g).dtype != w.dtype):
            return f"result {k}: {f}"
        if f and not within(g, w, s, jax):
            return f"result {k}: {f}"
    return ""


def within(got: Any, want: Any, spread: Any, jax: bool) -> bool:
    """Whether got is as near to want as rounding errors in between explain."""
    g, w = wide(got), wide(want)
    factor = JAX_FACTOR.get(np.dtype(want.dtype).name, 1.0) if jax else FACTOR
    with np.errstate(all="ignore"):
        if w.dtype.kind in "biu":
            return bool(((g == w) | (spread > 0)).all())
        size = np.abs(w[np.isfinite(w)])
        # JAX's lgamma, betaln and others are off by some eps of 1 where they pass through 0
        least = 1. if jax else 0.
        slack = tolerance(want.dtype) * factor * max(size.max() if size.size else 0., least)
        near = (g == w) | ((g != g) & (w != w)) | (np.abs(g - w) <= FACTOR * spread + slack) | (
            ~np.isfinite(spread))
    return bool(near.all())


BUILTIN = ("TypeError", "ValueError", "IndexError", "KeyError", "NotImplementedError",
           "OverflowError", "ZeroDivisionError", "AttributeError", "AssertionError",
           "RuntimeError", "NameError")


def error_class(names: Sequence[str]) -> str:
    """The class of the language's own that an error is one of."""
    return next((n for n in names if n in BUILTIN), names[0] if names else "")


def classes_of(e: BaseException) -> list[str]:
    return [c.__name__ for c in type(e).__mro__]


def literal(x: Any, weak: bool = False) -> str:
    """An array as text."""
    x = np.asarray(x)
    items = ", ".join(_item(v) for v in x.reshape(-1)[:24].tolist())
    more = f", ... {x.size} elements" if x.size > 24 else ""
    flat = f"jnp.array([{items}{more}], '{x.dtype.name}')"
    if weak and x.ndim == 0:
        return _item(x.tolist())
    return flat if x.ndim == 1 else f"{flat}.reshape({x.shape})"


def _item(v: Any) -> str:
    if isinstance(v, complex):
        return f"complex({_item(v.real)}, {_item(v.imag)})"
    if isinstance(v, float) and v != v:
        return "jnp.nan"
    if isinstance(v, float) and v in (float("inf"), float("-inf")):
        return "jnp.inf" if v > 0 else "-jnp.inf"
    return repr(v)


def one_line(text: str, operands: Sequence[Any]) -> str:
    """A line with its operands as literals."""
    lead = "; ".join(f"{v.name} = {literal(v.x, v.weak)}" for v in operands)
    return f"{lead}; {text}" if lead else text
