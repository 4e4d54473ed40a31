"""Running sums, products, extrema and logsumexps along an axis, and the scan by pairs behind their
derivatives.

Start reading at `_cumulative`; `associative_scan` takes any associative function of lists of
arrays.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, is_complex, shape_of
from calque.core.errors import explain
from calque.core.lists import inserted, replaced
from calque.core.primitive import Primitive, registry
from calque.core.zeros import is_zero, zero_like
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.transforms.jvp import jvp_flat

Combine = Callable[[list[Any], list[Any]], Sequence[Any]]


def _cumulative(name: str, accepts: str, combine: Callable[[Any, Any], Any],
                **facts: Any) -> Primitive:
    """combine: of two elements, with derivatives of all orders."""
    p = Primitive(name, **facts)

    def abstract(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        ew.check_dtypes(name, accepts, [x])
        if axis < 0:
            raise ValueError(explain(
                f"{name}: XLA operations do not allow negative axes, got {axis}.",
                fix=f"use an axis from 0 to {x.ndim - 1}, or jnp.{name}."))
        if axis >= x.ndim:
            raise ValueError(explain(
                f"{name}: axis {axis} is out of bounds for array of shape {x.shape}",
                fix=f"use an axis from 0 to {x.ndim - 1}." if x.ndim else "the array is a scalar."))
        return ShapedArray(x.shape, x.dtype, x.weak_type)

    def batch(size: int, args: Sequence[Any], dims: Sequence[int], *, axis: int,
              reverse: bool) -> Any:
        (d,) = dims
        return p.bind(args[0], axis=axis + (axis >= d), reverse=reverse), d

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axis: int, reverse: bool) -> Any:
        """The derivative of the scan by pairs: products of neighbours never divide by zero."""
        out = p.bind(primals[0], axis=axis, reverse=reverse)
        if is_zero(tangents[0]):
            return out, zero_like(out)
        _, (t,) = jvp_flat(lambda x: associative_scan(
            lambda a, b: [combine(a[0], b[0])], [x], reverse, axis), primals, tangents)
        return out, t

    p.abstract, p.batch, p.jvp = abstract, batch, jvp
    return p


def logaddexp(x: Any, y: Any) -> Any:
    """log(e^x + e^y) of two arrays of one shape; infinities of one sign give themselves."""
    largest = ew.max_(x, y)
    if is_complex(x):
        smallest = ew.min_(x, y)
        return ew.add(largest, registry["log1p"].bind(ew.exp(ew.sub(smallest, largest))))
    gap = ew.sub(x, y)
    zero = ew.match_shape(ew.const(gap, 0), shape_of(gap))
    # inf - inf: the gap does not count, and neither does its derivative
    same = ew.eq(x, y)
    safe = ew.select_n(same, gap, zero)
    part = registry["log1p"].bind(ew.exp(ew.neg(ew.abs_(safe))))
    return ew.add(largest, part)


def _smooth_logaddexp(x: Any, y: Any) -> Any:
    """logaddexp without the corner of |x - y|: ties have second derivatives, too."""
    if is_complex(x):
        return logaddexp(x, y)
    largest = ew.max_(x, y)
    zero, infinite = (ew.match_shape(ew.const(largest, v), shape_of(largest)) for v in (0, np.inf))
    fine = ew.ne(ew.abs_(largest), infinite)  # NaN, too: its derivatives are NaN
    shift = ew.stop_gradient(ew.select_n(fine, zero, largest))
    x, y = (ew.exp(ew.select_n(fine, zero, ew.sub(v, shift))) for v in (x, y))
    return ew.select_n(fine, largest, ew.add(shift, ew.log(ew.add(x, y))))


cumsum_p = _cumulative("cumsum", ew.NUMBER, ew.add)
cumprod_p = _cumulative("cumprod", ew.NUMBER, ew.mul)
cummax_p = _cumulative("cummax", ew.NUMBER, lambda x, y: ew.max_(x, y))
cummin_p = _cumulative("cummin", ew.NUMBER, lambda x, y: ew.min_(x, y))
cumlogsumexp_p = _cumulative("cumlogsumexp", ew.INEXACT, _smooth_logaddexp, function=True)


def _cumsum_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return cumsum_p.bind(*primals, **params), cumsum_p.bind(*tangents, **params)


def _cumsum_transpose(ct: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
    return [cumsum_p.bind(ct, axis=axis, reverse=not reverse)]


cumsum_p.jvp, cumsum_p.transpose = _cumsum_jvp, _cumsum_transpose


# ---- the scan by pairs
def associative_scan(combine: Combine, xs: Sequence[Any], reverse: bool, axis: int) -> list[Any]:
    """All prefixes of xs along an axis under an associative function of lists, in 2 log2(n) steps
    (Blelloch, "Prefix sums and their applications", 1990)."""
    xs = list(xs)
    if reverse:
        xs = [sh.rev(x, (axis,)) for x in xs]
    outs = _prefixes(combine, xs, axis)
    if reverse:
        outs = [sh.rev(x, (axis,)) for x in outs]
    return outs


def _prefixes(combine: Combine, xs: list[Any], axis: int) -> list[Any]:
    n = shape_of(xs[0])[axis]
    if n < 2:
        return xs

    def cut(x: Any, start: int, stop: int, step: int = 1) -> Any:
        return sh.slice_in_dim(x, start, stop, axis, step)

    pairs = list(combine([cut(x, 0, n - 1, 2) for x in xs], [cut(x, 1, n, 2) for x in xs]))
    odd = _prefixes(combine, pairs, axis)
    if n > 2:
        before = [cut(o, 0, (n - 1) // 2) for o in odd]
        rest = combine(before, [cut(x, 2, n, 2) for x in xs])
        even = [sh.concatenate([cut(x, 0, 1), r], axis) for x, r in zip(xs, rest)]
    else:
        even = [cut(x, 0, 1) for x in xs]
    return [_interleaved(e, o, axis) for e, o in zip(even, odd)]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """even[0], odd[0], even[1], ...: even may be longer by one."""
    shape = shape_of(even)
    m, n = shape[axis], shape[axis] + shape_of(odd)[axis]
    if shape_of(odd)[axis] < m:
        odd = sh.concatenate([odd, sh.slice_in_dim(even, 0, 1, axis)], axis)
    wide = inserted(shape, axis + 1, 1)
    both = sh.concatenate([sh.reshape(even, wide), sh.reshape(odd, wide)], axis + 1)
    flat = sh.reshape(both, replaced(shape, axis, 2 * m))
    return flat if n == 2 * m else sh.slice_in_dim(flat, 0, n, axis)


__all__ = ["associative_scan", "cumlogsumexp_p", "cummax_p", "cummin_p", "cumprod_p", "cumsum_p",
           "logaddexp"]
