"""Reductions over windows, what their derivatives need, reduction with any function, rounding to
fewer bits.

Windows slide over a padded, possibly dilated operand; padded places and holes hold the identity.
`general_window` and `general_reduce` take any associative function: they are compositions of
slices, log2(size) steps for each axis, so that every rule follows from those of slices.
Start reading at `Window`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, shape_of
from calque.core.dims import Dim, floordiv, max_dim
from calque.core.errors import InconclusiveDimensionOperation, explain
from calque.core.lists import inserted, without
from calque.core.primitive import Primitive, is_linear
from calque.core.types import Function, Params
from calque.core.zeros import is_zero, zero_like
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.transforms.jvp import linear_jvp
from calque.transforms.vmap import to_front

Sizes = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]
Combine = Callable[[list[Any], list[Any]], Sequence[Any]]


def dilated(n: int, step: int) -> int:
    """The size of an axis with step - 1 holes between its elements."""
    return n + (step - 1) * max_dim(0, n - 1) if step > 1 else n


def window_count(n: int, reach: int, stride: int) -> int:
    """How many windows that reach so far lie on an axis."""
    return max_dim(0, floordiv(n - reach, stride) + 1)


@dataclass(frozen=True, slots=True)
class Window:
    """How windows lie on an operand: one entry for each axis."""

    dimensions: Sizes
    strides: Sizes
    padding: Padding
    base: Sizes  # dilation of the operand
    dilation: Sizes  # of the window

    @staticmethod
    def of(params: Params) -> Window:
        ones = (1,) * len(params["window_dimensions"])
        return Window(params["window_dimensions"], params["window_strides"], params["padding"],
                      params.get("base_dilation", ones), params.get("window_dilation", ones))

    def params(self) -> Params:
        return {"window_dimensions": self.dimensions, "window_strides": self.strides,
                "padding": self.padding, "base_dilation": self.base,
                "window_dilation": self.dilation}

    def spans(self) -> Sizes:
        """How far a window reaches."""
        return tuple(dilated(k, d) for k, d in zip(self.dimensions, self.dilation))

    def padded(self, shape: Sizes) -> Sizes:
        return tuple(dilated(n, b) + low + high
                     for n, b, (low, high) in zip(shape, self.base, self.padding))

    def result(self, shape: Sizes) -> Sizes:
        """How many windows there are."""
        return tuple(map(window_count, self.padded(shape), self.spans(), self.strides))

    def batched(self, axis: int) -> Window:
        """With one more axis that windows do not reach along."""
        def insert(values: Sequence[Any], v: Any) -> Any:
            return inserted(values, axis, v)

        return Window(insert(self.dimensions, 1), insert(self.strides, 1),
                      insert(self.padding, (0, 0)), insert(self.base, 1),
                      insert(self.dilation, 1))

    def transposed(self, shape: Sizes) -> Window:
        """The windows that each element of an operand of this shape lies in, over the results."""
        padding = []
        for n, out, k, s, (low, _), b in zip(shape, self.result(shape), self.spans(),
                                             self.strides, self.padding, self.base):
            before = k - 1 - low
            padding.append((before, dilated(n, b) + k - 1 - before - dilated(out, s)))
        return Window(self.dimensions, self.base, tuple(padding), self.strides, self.dilation)

    def check(self, name: str, shape: Sizes) -> None:
        for what, values in (("window_dimensions", self.dimensions),
                             ("window_strides", self.strides), ("base_dilation", self.base),
                             ("window_dilation", self.dilation), ("padding", self.padding)):
            if len(values) != len(shape):
                raise TypeError(explain(
                    f"{name} got the wrong number of {what} for operand: got operand shape {shape} "
                    f"with {what} {values}.", fix="give one entry for each axis."))
            if what != "padding" and any(v < 1 for v in values):  # type: ignore[operator]
                raise TypeError(explain(
                    f"{name} {what} must have every element be strictly positive, got {values}."))
        if any(n < 0 for n in self.padded(shape)):
            raise TypeError(explain(
                f"{name}: the padding {self.padding} removes more than the operand of shape "
                f"{shape} has."))


def _only_shapes(name: str, accepts: str, x: ShapedArray, params: Params) -> ShapedArray:
    if x.dtype != dtypes.bool_ or accepts == ew.NUMBER:
        ew.check_dtypes(name, accepts, [x])
    w = Window.of(params)
    w.check(name, x.shape)
    return ShapedArray(w.result(x.shape), x.dtype, x.weak_type)


# ---- sum, max and min over windows
def _window_reduction(name: str, accepts: str) -> Primitive:
    p = Primitive(name)
    p.abstract = lambda x, **params: _only_shapes(name, accepts, x, params)

    def batch(size: int, args: Sequence[Any], dims: Sequence[int], **params: Any) -> Any:
        return p.bind(args[0], **Window.of(params).batched(dims[0]).params()), dims[0]

    p.batch = batch
    return p


reduce_window_sum_p = _window_reduction("reduce_window_sum", ew.NUMBER)
reduce_window_max_p = _window_reduction("reduce_window_max", "real")
reduce_window_min_p = _window_reduction("reduce_window_min", "real")


def window_sum(x: Any, w: Window) -> Any:
    return reduce_window_sum_p.bind(x, **w.params())


def _sum_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    return [window_sum(ct, Window.of(params).transposed(x.shape))]


reduce_window_sum_p.jvp = linear_jvp(reduce_window_sum_p)
reduce_window_sum_p.transpose = _sum_transpose


# ---- the tangent of the extremum of each window, and its transpose
# `select_prim` is ge for maxima and le for minima: the first element that no other beats.
select_and_gather_add_p = Primitive("select_and_gather_add")
select_and_scatter_add_p = Primitive("select_and_scatter_add")


def _gather_abstract(t: ShapedArray, x: ShapedArray, **params: Any) -> ShapedArray:
    if t.shape != x.shape:
        raise TypeError(explain(f"select_and_gather_add: tangents of shape {t.shape} do not fit "
                                f"the operand of shape {x.shape}."))
    ew.check_dtypes("select_and_gather_add", "real", [x])
    return _only_shapes("select_and_gather_add", ew.NUMBER, t, _window_only(params))


def _scatter_abstract(source: ShapedArray, x: ShapedArray, **params: Any) -> ShapedArray:
    ew.check_dtypes("select_and_scatter_add", "real", [x])
    ew.check_dtypes("select_and_scatter_add", ew.NUMBER, [source])
    w = Window.of(params)
    w.check("select_and_scatter_add", x.shape)
    if source.shape != w.result(x.shape):
        raise TypeError(explain(
            f"select_and_scatter_add: a source of shape {source.shape} does not fit the windows, "
            f"of which there are {w.result(x.shape)}."))
    return ShapedArray(x.shape, source.dtype, source.weak_type)


def _window_only(params: Params) -> dict[str, Any]:
    return {k: v for k, v in params.items() if k != "select_prim"}


def _selecting(p: Primitive) -> None:
    """Both are linear in the first operand; the second only selects."""
    def batch(size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        first, second = (to_front(a, d, size) for a, d in zip(args, dims))
        w = Window.of(params).batched(0)
        return p.bind(first, second, select_prim=params["select_prim"], **w.params()), 0

    p.jvp, p.batch = linear_jvp(p), batch


_selecting(select_and_gather_add_p)
_selecting(select_and_scatter_add_p)
select_and_gather_add_p.abstract = _gather_abstract
select_and_scatter_add_p.abstract = _scatter_abstract


def _gather_transpose(ct: Any, t: Any, x: Any, **params: Any) -> list[Any]:
    assert is_linear(t)
    return [select_and_scatter_add_p.bind(ct, x, **params), None]


def _scatter_transpose(ct: Any, source: Any, x: Any, **params: Any) -> list[Any]:
    assert is_linear(source)
    return [select_and_gather_add_p.bind(ct, x, **params), None]


select_and_gather_add_p.transpose = _gather_transpose
select_and_scatter_add_p.transpose = _scatter_transpose


def _extremum_jvp(p: Primitive, select: Primitive) -> Function:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = p.bind(x, **params)
        if is_zero(t):
            return out, zero_like(out)
        return out, select_and_gather_add_p.bind(t, x, select_prim=select, **params)
    return jvp


reduce_window_max_p.jvp = _extremum_jvp(reduce_window_max_p, ew.ge_p)
reduce_window_min_p.jvp = _extremum_jvp(reduce_window_min_p, ew.le_p)


# ---- any associative function
def general_reduce(xs: Sequence[Any], inits: Sequence[Any], combine: Combine,
                   axes: Sequence[int]) -> list[Any]:
    """inits combined with all elements along axes, in pairs of halves."""
    xs = list(xs)
    for axis in sorted(axes, reverse=True):
        while (n := shape_of(xs[0])[axis]) > 1:
            half = n // 2
            joined = combine([sh.slice_in_dim(x, 0, half, axis) for x in xs],
                             [sh.slice_in_dim(x, half, 2 * half, axis) for x in xs])
            if n % 2:
                xs = [sh.concatenate([j, sh.slice_in_dim(x, n - 1, n, axis)], axis)
                      for j, x in zip(joined, xs)]
            else:
                xs = list(joined)
        shape = shape_of(xs[0])
        rest = without(shape, [axis])
        if shape[axis] == 0:
            xs = [ew.match_shape(i, rest) for i in inits]
        else:
            xs = [sh.squeeze(x, (axis,)) for x in xs]
    shape = shape_of(xs[0])
    return list(combine([ew.match_shape(i, shape) for i in inits], xs))


def general_window(xs: Sequence[Any], inits: Sequence[Any], combine: Combine,
                   w: Window) -> list[Any]:
    """inits combined with all elements of each window, axis by axis."""
    shape = shape_of(xs[0])
    result = w.result(shape)
    if 0 in result:
        return [ew.match_shape(i, result) for i in inits]
    config = [(low, high, b - 1) for (low, high), b in zip(w.padding, w.base)]
    if any(c != (0, 0, 0) for c in config):
        xs = [sh.pad(x, i, config) for x, i in zip(xs, inits)]
    xs = list(xs)
    for axis, (k, d, s, n) in enumerate(zip(w.dimensions, w.dilation, w.strides, result)):
        xs = _along(xs, axis, k, d, combine)
        xs = [sh.slice_in_dim(x, 0, (n - 1) * s + 1, axis, s) for x in xs]
    return list(combine([ew.match_shape(i, result) for i in inits], xs))


def _along(xs: list[Any], axis: int, k: int, d: int, combine: Combine) -> list[Any]:
    """All windows of k elements, d apart, with stride 1: from windows of k // 2."""
    if k == 1:
        return xs
    if isinstance(k, Dim):
        raise InconclusiveDimensionOperation(explain(
            f"reduce_window: a window of a symbolic size ({k}) is joined in a number of steps "
            "that depends on it.", fix="give the window as a number, or use cumulative sums."))
    half = _along(xs, axis, k // 2, d, combine)
    n = shape_of(xs[0])[axis] - (k - 1) * d

    def cut(x: Any, start: int) -> Any:
        return sh.slice_in_dim(x, start, start + n, axis)

    out = combine([cut(h, 0) for h in half], [cut(h, (k // 2) * d) for h in half])
    if k % 2:
        out = combine(list(out), [cut(x, (k - 1) * d) for x in xs])
    return list(out)


# ---- reduce_precision
reduce_precision_p = Primitive("reduce_precision", elementwise=True)


def _precision_abstract(x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
    ew.check_dtypes("reduce_precision", ew.FLOAT, [x])
    if exponent_bits < 1:
        raise ValueError(explain(
            f"reduce_precision: exponent_bits must be positive; got {exponent_bits}"))
    if mantissa_bits < 0:
        raise ValueError(explain(
            f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}"))
    return x


reduce_precision_p.abstract = _precision_abstract
reduce_precision_p.jvp = linear_jvp(reduce_precision_p)  # the tangent is rounded, too
reduce_precision_p.transpose = lambda ct, x, **params: [reduce_precision_p.bind(ct, **params)]
reduce_precision_p.batch = ew.batch_elementwise(reduce_precision_p)

__all__ = ["Window", "dilated", "general_reduce", "general_window", "window_sum"]
