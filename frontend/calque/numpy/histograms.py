"""Counting values: bincount, histogram, histogram2d, histogramdd, histogram_bin_edges."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import as_size
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.arithmetic import choose
from calque.numpy.creation import asarray
from calque.numpy.join import diff
from calque.numpy.ranges import linspace
from calque.numpy.shapes import ravel
from calque.numpy.sorting import places
from calque.numpy.ufuncs import maximum, true_divide
from calque.numpy.util import needed
from calque.primitives import elementwise as ew
from calque.primitives import scatter as sc
from calque.primitives import shape as sh
from calque.primitives.gather import GatherScatterMode, ScatterDimensionNumbers


def _added(places: Any, weights: Any, length: int) -> Any:
    """Sums of weights per place; places outside [0, length) are left out."""
    dtype = dtype_of(weights)
    working = dtypes.int32 if dtype == dtypes.bool_ else dtype
    blank = sh.broadcast_in_dim(working.type(0), (length,), ())
    if not length or not aval_of(places).size:
        return blank
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    return sc.scatter(sc.scatter_add_p, blank, sh.reshape(places, (aval_of(places).size, 1)),
                      ew.convert(weights, working), numbers, mode=GatherScatterMode.FILL_OR_DROP)


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None,
             out_sharding: Any = None) -> Any:
    """How often each of 0, 1, 2, ... occurs (or the sum of its weights).

    Args:
      x: vector of integers; negative ones count as 0.
      weights: vector of x's length.
      minlength: the least length of the result.
      length: the length of the result (static; needed under jit); larger values are left out.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An int32 vector, or one of the weights' dtype.

    Raises:
      TypeError: x has no integer dtype.
      ValueError: x is no vector, or weights has another shape.
      ConcretizationTypeError: x is traced and length is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.bincount(jnp.array([1, 1, 3]))
      Array([0, 2, 0, 1], dtype=int32)
    """
    if out_sharding is not None:
        return resharded("jnp.bincount", out_sharding, bincount, x, weights, minlength,
                         length=length)
    values = util.one_array("bincount", x)
    dtype = dtype_of(values)
    if not (dtypes.is_integer(dtype) or dtype == dtypes.bool_):
        raise TypeError(explain(
            f"x argument to bincount must have an integer type; got {dtype.name}",
            fix="convert it with .astype(int)."))
    if ndim_of(values) != 1:
        raise ValueError(explain("only 1-dimensional input supported."))
    n = shape_of(values)[0]
    if length is None:
        known = needed("bincount", values, "The error occurred because of argument 'x' of "
                       "jnp.bincount. To avoid this error, pass a static `length` argument.",
                       "pass length=.")
        count = max(as_size("bincount", minlength), int(known.max()) + 1 if n else 0, 0)
    else:
        count = as_size("bincount", length)
    if weights is not None:
        weights = util.one_array("bincount", weights)
        if shape_of(weights) != (n,):
            raise ValueError(explain(
                f"type of weights must match type of x: shapes {shape_of(weights)} and "
                f"{(n,)} differ.", fix="pass one weight for each element."))
    with lazy_eval("bincount"):
        kind = dtypes.default_dtype(int)
        at = asarray(values)
        if not dtypes.is_unsigned(dtype):
            at = maximum(util.cast(at, dtypes.int32 if dtype == dtypes.bool_ else dtype), 0)
        w = (sh.broadcast_in_dim(kind.type(1), (n,), ()) if weights is None
             else asarray(weights))
        return util.array(_added(at, w, count))


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges between the bins of a histogram.

    Args:
      a: array.
      bins: the number of bins (static), or a vector of edges.
      range: (lowest, highest) edge; by default of a's smallest and largest element.
      weights: accepted.

    Returns:
      A vector of one more edge than bins.

    Raises:
      TypeError: bins is neither a number nor an array.
      ValueError: a is empty and range is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.histogram_bin_edges(jnp.array([0.0, 1.0, 4.0]), 2)
      Array([0., 2., 4.], dtype=float32)
    """
    util.check_arrays("histogram_bin_edges", a)
    if isinstance(bins, str):
        raise NotImplementedError(explain(
            "string values for `bins` not implemented.", fix="pass a number or an array of edges."))
    with lazy_eval("histogram_bin_edges"):
        return util.array(_edges(asarray(a), bins, range))


def _edges(x: Any, bins: Any, range: Any) -> Any:
    dtype = util.to_inexact(dtype_of(x))
    edges = asarray(bins)
    if ndim_of(edges) == 1:
        return util.cast(edges, dtype)
    count = as_size("histogram_bin_edges", bins)
    if isinstance(count, int) and count < 0:
        raise ValueError(explain(f"histogram_bin_edges: `bins` is {count}.",
                                 fix="pass how many bins there are, or their edges."))
    flat = util.cast(ravel(x), dtype)
    if range is None:
        if not aval_of(flat).size:
            raise ValueError(explain(
                "zero-size array to reduction operation min which has no identity",
                fix="pass range=."))
        low, high = rd.min(flat), rd.max(flat)
    else:
        low, high = (util.cast(asarray(r), dtype) for r in range)
    even = ew.eq(low, high)
    half = dtype.type(0.5)
    low = choose(even, util.array(ew.sub(low, half)), low)
    high = choose(even, util.array(ew.add(high, half)), high)
    return linspace(low, high, count + 1, dtype=dtype)


def histogram(a: Any, bins: Any = 10, range: Any = None, weights: Any = None,
              density: bool | None = None) -> tuple[Any, Any]:
    """How many elements lie in each bin; the last bin holds its right edge too.

    Args:
      a: array.
      bins: the number of bins (static), or a vector of ascending edges.
      range: (lowest, highest) edge; by default of a's smallest and largest element.
      weights: array of a's shape: sums of weights instead of counts.
      density: divide by the number of elements and the widths of the bins.

    Returns:
      (counts, edges), floats.

    Raises:
      ValueError: weights has another shape, or a is empty and range is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.histogram(jnp.array([0.0, 1.0, 4.0]), 2)
      (Array([2., 1.], dtype=float32), Array([0., 2., 4.], dtype=float32))
    """
    x = util.one_array("histogram", a)
    shape = shape_of(x)
    if isinstance(bins, str):
        raise TypeError(explain("asarray: expected ArrayLike, got a str for bins.",
                                fix="pass a number or an array of edges."))
    if weights is not None:
        weights = util.one_array("histogram", weights)
        if shape_of(weights) != shape:
            raise ValueError(explain("weights should have the same shape as a."))
    with lazy_eval("histogram"):
        if weights is None:
            (x,) = util.promote_inexact("histogram", x)
            w = sh.broadcast_in_dim(dtype_of(x).type(1), shape, ())
        else:
            x, w = util.promote_inexact("histogram", x, weights)
        x, w = ravel(asarray(x)), ravel(asarray(w))
        edges = _edges(x, bins, range)
        x, at = util.promote("histogram", x, edges)
        n = shape_of(edges)[0]
        counts = sh.slice_in_dim(_added(_bins(x, at), w, n), 1, n, 0) if n else w
        if density:
            widths = util.cast(diff(edges), dtype_of(counts))
            counts = true_divide(true_divide(counts, widths), rd.sum(counts))
        return util.array(counts), util.array(edges)


def _bins(x: Any, edges: Any) -> Any:
    """The bin of each value, from 1; 0 and the number of edges are outside; closed at the right."""
    n = shape_of(edges)[0]
    found = places(edges, x, "right")
    last = sh.reshape(sh.slice_in_dim(edges, n - 1, n, 0), ())
    return choose(ew.eq(x, last), np.int32(n - 1), found)


def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None,
                density: bool | None = None) -> tuple[Any, Any, Any]:
    """How many points (x, y) lie in each cell of a grid.

    Args:
      x, y: vectors of one length.
      bins: the number of bins, a vector of edges, or one of them for each axis.
      range: a pair (lowest, highest), or None, for each axis.
      weights: vector: sums of weights instead of counts.
      density: divide by the number of points and the areas of the cells.

    Returns:
      (counts, edges along x, edges along y).

    Raises:
      TypeError: x and y differ in length.
      ValueError: bins does not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.histogram2d(jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0]), 2)[0]
      Array([[1, 0],
             [0, 1]], dtype=int32)
    """
    values = [asarray(v) for v in util.promote("histogram2d", x, y)]
    sizes = [aval_of(v).size for v in values]
    if sizes[0] != sizes[1]:
        raise TypeError(explain(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one "
            f"being concatenated: x has {sizes[0]} elements and y {sizes[1]}."))
    parts = len(bins) if isinstance(bins, (list, tuple)) else 1
    if not isinstance(bins, (list, tuple)) and len(np.shape(bins) if not hasattr(
            bins, "shape") else bins.shape) == 1:
        parts = int(bins.shape[0])
    if parts not in (1, 2):
        edges = asarray(bins) if not isinstance(bins, (list, tuple)) else asarray(np.asarray(bins))
        bins = [edges, edges]
    sample = sh.concatenate([sh.reshape(v, (sizes[0], 1)) for v in values], 1)
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(sample: Any, bins: Any = 10, range: Sequence[Any] | None = None,
                weights: Any = None, density: bool | None = None) -> tuple[Any, list[Any]]:
    """How many points lie in each cell of a grid.

    Args:
      sample: (number of points, number of axes).
      bins: the number of bins, or for each axis a number or a vector of edges.
      range: a pair (lowest, highest), or None, for each axis.
      weights: vector: sums of weights instead of counts.
      density: divide by the number of points and the volumes of the cells.

    Returns:
      (counts, list of edges).

    Raises:
      ValueError: shapes, bins or range do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.histogramdd(jnp.array([[0.0], [1.0], [1.0]]), 2)[0]
      Array([1, 2], dtype=int32)
    """
    x = util.one_array("histogramdd", sample)
    shape = shape_of(x)
    if len(shape) != 2:
        raise ValueError(explain(
            f"not enough values to unpack (expected 2, got {len(shape)}): sample must have two "
            "axes.", fix="pass an array (points, axes)."))
    n, rank = shape
    if weights is not None:
        weights = util.one_array("histogramdd", weights)
        if shape_of(weights) != (n,):
            raise ValueError(explain("should have one weight for each sample."))
    if range is not None and (len(range) != rank or any(
            r is not None and np.shape(r) != (2,) for r in range)):
        raise ValueError(explain(f"For sample.shape={shape}, range must be a sequence of {rank} "
                                 f"pairs or Nones; got range={range}"))
    several = isinstance(bins, (list, tuple)) or ndim_of(asarray(bins)) == 1
    if several and len(bins) != rank:
        raise ValueError(explain("should be a bin for each dimension."))
    with lazy_eval("histogramdd"):
        (x,) = util.promote_inexact("histogramdd", x)
        x = asarray(x)
        edges, at, lengths = [], None, []
        for i in _count(rank):
            column = sh.reshape(sh.slice_in_dim(x, i, i + 1, 1), (n,))
            edge = _edges(column, bins[i] if several else bins, range[i] if range else None)
            place = _bins(*[asarray(v) for v in util.promote("histogramdd", column, edge)])
            size = shape_of(edge)[0] + 1
            at = place if at is None else at * size + place
            edges.append(util.array(edge))
            lengths.append(size)
        if weights is None:
            w = sh.broadcast_in_dim(dtypes.default_dtype(int).type(1), (n,), ())
        else:
            w = util.cast(asarray(weights), util.to_inexact(dtype_of(weights)))
        total = int(np.prod(lengths, dtype=np.int64))
        counts = sh.reshape(_added(at, w, total), tuple(lengths))
        counts = sh.slice_(counts, (1,) * rank, tuple(s - 1 for s in lengths))
        if density:
            counts = ew.convert(counts, util.to_inexact(dtype_of(w) if weights is not None
                                                        else dtype_of(x)))
            counts = true_divide(counts, rd.sum(counts))
            for i in _count(rank):
                widths = diff(edges[i])
                widths = sh.broadcast_in_dim(widths, shape_of(counts), (i,))
                counts = true_divide(counts, widths)
        return util.array(counts), edges


def _count(n: int) -> Any:
    """range(n), whose name an argument takes."""
    return iter(np.arange(n).tolist())


__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]
