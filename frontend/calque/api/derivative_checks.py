"""Checks of derivatives against finite differences, for users' tests.

Each check goes along one random direction, so that large functions cost no more than small ones.
Start reading at `check_grads`.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calque.api.autodiff import jvp, vjp
from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of
from calque.core.errors import explain
from calque.core.types import Function, Ndarray
from calque.dispatch.array import to_array
from calque.trees import util as tree_util

__all__ = ["check_grads", "check_jvp", "check_vjp"]

# relative and absolute; of a central difference with the step of STEP: truncation step^2, rounding
# eps / step, with room for functions whose third derivative is ten times their first
TOLERANCE = {2: 1e-1, 4: 2e-3, 8: 1e-5}
STEP = {2: 1e-1, 4: 1e-2, 8: 1e-4}
FINE_STEP = 1e-4  # JAX's: what bends within the longer ones is asked once more


Tolerance = float | Mapping[Any, float] | None


def __dir__() -> list[str]:
    return __all__


def _real_size(x: Any) -> int:
    """Bytes of a real number of x's precision."""
    dtype = dtype_of(x)
    return int(dtype.itemsize) // (2 if dtypes.is_complex(dtype) else 1)


def _precision(tree: Any) -> int:
    """The coarsest precision among the inexact leaves of a tree, in bytes of a real number."""
    return min((_real_size(x) for x in tree_util.tree_leaves(tree) if _inexact(x)), default=8)


def _inexact(x: Any) -> bool:
    return bool(dtypes.is_inexact(dtype_of(x)))


def _wide(x: Any) -> Ndarray:
    """A value in float64 or complex128."""
    dtype = dtype_of(x)
    return np.asarray(to_array(x)).astype(
        np.complex128 if dtypes.is_complex(dtype) else np.float64)


def _direction(tree: Any, rng: np.random.RandomState) -> Any:
    """Random tangents; float0 for integers."""
    def one(x: Any) -> Any:
        a = aval_of(x)
        if not _inexact(x):
            return np.zeros(a.shape, dtypes.float0)
        value = rng.standard_normal(a.shape)
        if dtypes.is_complex(a.dtype):
            value = value + 1j * rng.standard_normal(a.shape)
        return to_array(np.asarray(value).astype(a.dtype))
    return tree_util.tree_map(one, tree)


def _moved(args: Any, direction: Any, step: float) -> Any:
    def one(x: Any, t: Any) -> Any:
        if not _inexact(x):
            return x
        return to_array(np.asarray(_wide(x) + step * _wide(t)).astype(dtype_of(x)))
    return tree_util.tree_map(one, args, direction)


def _slope(f: Function, args: Any, direction: Any, step: float) -> Any:
    """Central difference of f along a direction, in float64."""
    high, low = f(*_moved(args, direction, step)), f(*_moved(args, direction, -step))
    return tree_util.tree_map(lambda a, b: (_wide(a) - _wide(b)) / (2 * step), high, low)


def _inner(a: Any, b: Any) -> Any:
    """Sum of products over the leaves (no conjugate: the cotangent convention)."""
    return sum((np.sum(_wide(x) * _wide(y)) for x, y in
                zip(tree_util.tree_leaves(a), tree_util.tree_leaves(b))
                if np.dtype(getattr(x, "dtype", np.float64)) != dtypes.float0), np.float64(0))


def _tolerance(given: Tolerance, dtype: Any, precision: int) -> float:
    """A tolerance as it was given: of all results, of those of a dtype, or none."""
    if isinstance(given, Mapping):
        given = {np.dtype(d): v for d, v in given.items()}.get(np.dtype(dtype))
    return TOLERANCE[precision] if given is None else given


def _compare(what: str, got: Any, want: Any, atol: Tolerance, rtol: Tolerance,
             precision: int, err_msg: str) -> None:
    for i, (x, w) in enumerate(zip(tree_util.tree_leaves(got), tree_util.tree_leaves(want))):
        absolute, relative = (_tolerance(t, dtype_of(x), precision) for t in (atol, rtol))
        g, w = _wide(x), np.asarray(w)
        bad = np.abs(g - w) > absolute + relative * np.abs(w)
        bad |= np.isnan(g) != np.isnan(w)
        if bad.any():
            raise AssertionError(explain(
                f"{err_msg + ': ' if err_msg else ''}{what} is not what finite differences give "
                f"(output {i}, {int(bad.sum())} of {bad.size} elements, rtol={relative}, "
                f"atol={absolute}): "
                f"got {np.array2string(g[bad][:3])}, finite differences "
                f"{np.array2string(w[bad][:3])}.",
                fix="look at the rule of the function; or give a larger tolerance or another eps, "
                    "if the function is rough."))


def check_jvp(f: Function, f_jvp: Function, args: Sequence[Any],
              atol: Tolerance = None, rtol: Tolerance = None, eps: float | None = None,
              err_msg: str = "") -> None:
    """Compare f_jvp with f, and along a random direction with central differences.

    Args:
      f: function of args.
      f_jvp: function of (primals, tangents) that returns (output, output tangent).
      args: where to check.
      atol: absolute tolerance, or one for each dtype of results; default: by the precision of the
        arguments.
      rtol: relative tolerance, likewise.
      eps: step of the differences; default: by the precision, and then JAX's 1e-4 where that fails.
      err_msg: first words of the error.

    Returns:
      None.

    Raises:
      AssertionError: they differ.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from functools import partial
      >>> calque.test_util.check_jvp(jnp.sin, partial(calque.jvp, jnp.sin), (1.0,))
    """
    args = tuple(args)
    precision = _precision(args)
    direction = _direction(args, np.random.RandomState(0))
    out, tangent = f_jvp(args, direction)
    value = f(*args)
    precision = min(precision, _precision(value))
    _compare("the output of the JVP", _floats(value, out), _floats(value, value), atol, rtol,
             precision, err_msg)

    def compare(step: float) -> None:
        slope = _slope(f, args, direction, step)
        _compare("the tangent of the JVP", _floats(value, tangent), _floats(value, slope), atol,
                 rtol, precision, err_msg)

    _at_steps(compare, eps, precision)


def _at_steps(compare: Function, eps: float | None, precision: int) -> None:
    """compare(step) with the step that was given, else with ours, and JAX's where that differs."""
    if eps:
        return compare(eps)
    try:
        compare(STEP[precision])
    except AssertionError:
        try:
            compare(FINE_STEP)
        except AssertionError:
            pass
        else:
            return None
        raise


def _floats(like: Any, tree: Any) -> list[Any]:
    """The leaves of a tree where those of another are inexact."""
    pairs = zip(tree_util.tree_leaves(like), tree_util.tree_leaves(tree))
    return [x for a, x in pairs if _inexact(a)]


def check_vjp(f: Function, f_vjp: Function, args: Sequence[Any],
              atol: Tolerance = None, rtol: Tolerance = None, eps: float | None = None,
              err_msg: str = "") -> None:
    """Compare f_vjp with f, and in one random inner product with central differences.

    Args:
      f: function of args.
      f_vjp: function of args that returns (output, pullback), as `calque.vjp` of f does.
      args: where to check.
      atol: absolute tolerance, or one for each dtype of results; default: by the precision of the
        arguments.
      rtol: relative tolerance, likewise.
      eps: step of the differences; default: by the precision, and then JAX's 1e-4 where that fails.
      err_msg: first words of the error.

    Returns:
      None.

    Raises:
      AssertionError: they differ.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from functools import partial
      >>> calque.test_util.check_vjp(jnp.sin, partial(calque.vjp, jnp.sin), (1.0,))
    """
    args = tuple(args)
    precision = _precision(args)
    rng = np.random.RandomState(0)
    direction = _direction(args, rng)
    out, pullback = f_vjp(*args)
    value = f(*args)
    precision = min(precision, _precision(value))
    _compare("the output of the VJP", _floats(value, out), _floats(value, value), atol, rtol,
             precision, err_msg)
    cotangent = _direction(out, rng)
    got = _inner(_floats(args, pullback(cotangent)), _floats(args, direction))

    def compare(step: float) -> None:
        slope = _slope(f, args, direction, step)
        want = _inner(_floats(value, cotangent), _floats(value, slope))
        _compare("the inner product of cotangent and tangent", np.real(got), np.real(want), atol,
                 rtol, precision, err_msg)

    _at_steps(compare, eps, precision)


def check_grads(f: Function, args: Sequence[Any], order: int,
                modes: Sequence[str] = ("fwd", "rev"), atol: Tolerance = None,
                rtol: Tolerance = None, eps: float | None = None) -> None:
    """Compare derivatives of f up to an order with finite differences, along random directions.

    Args:
      f: function of args, to be checked at f(*args).
      args: tuple of arrays and trees of them.
      order: derivatives up to this order are checked.
      modes: "fwd" (jvp), "rev" (vjp), or both.
      atol: absolute tolerance, or one for each dtype of results; default: by the precision of the
        arguments.
      rtol: relative tolerance, likewise.
      eps: step of the differences; default: by the precision, and then JAX's 1e-4 where that fails.

    Returns:
      None.

    Raises:
      AssertionError: a derivative differs.
      ValueError: a mode is neither "fwd" nor "rev".

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.test_util.check_grads(lambda x: jnp.sin(x) * x, (0.7,), order=2)
    """
    args = tuple(args)
    unknown = set(modes) - {"fwd", "rev"}
    if unknown:
        raise ValueError(explain(f"check_grads: unknown mode {sorted(unknown)[0]!r}.",
                                 fix='modes are "fwd" and "rev".'))
    _check(f, args, order, modes, atol, rtol, eps, "")


def _check(f: Function, args: tuple[Any, ...], order: int, modes: Sequence[str],
           atol: Tolerance, rtol: Tolerance, eps: float | None, path: str) -> None:
    if "fwd" in modes:
        check_jvp(f, lambda p, t: jvp(f, p, t), args, atol, rtol, eps, f"{path}jvp of f")
        if order > 1:
            tangents = _direction(args, np.random.RandomState(order))
            _check(lambda *a: jvp(f, a, tangents), args, order - 1, modes, atol, rtol, eps,
                   f"{path}jvp of ")
    if "rev" in modes:
        check_vjp(f, lambda *a: vjp(f, *a), args, atol, rtol, eps, f"{path}vjp of f")
        if order > 1:
            out, _ = vjp(f, *args)
            cotangent = _direction(out, np.random.RandomState(order))

            def backward(*a: Any) -> Any:
                value, pullback = vjp(f, *a)
                return value, _floats(args, pullback(cotangent))
            _check(backward, args, order - 1, modes, atol, rtol, eps, f"{path}vjp of ")
