"""Reductions by segment: rows of data with the same id become one row."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.dims import number
from calque.core.errors import explain
from calque.core.tables import from_row
from calque.dispatch.sharded.placing import resharded
from calque.lax.make import full
from calque.lax.operands import as_size
from calque.numpy import creation, ranges, util
from calque.numpy import reductions as rd
from calque.numpy.logic import where

_DOC = """{sentence} of the rows of data with the same segment id.

    Args:
      data: array.
      segment_ids: int array whose shape is a prefix of data's; ids outside [0, num_segments) are
        left out.
      num_segments: number of rows of the result; by default the largest id + 1, which must be
        known outside jit.
      indices_are_sorted: accepted; no promise is relied on.
      unique_indices: accepted; no promise is relied on.
      bucket_size: reduce so many rows at a time first, which loses fewer digits in long sums.
      mode: what happens to ids out of bounds ('drop', 'clip', ...), as of x.at[...].
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of shape (num_segments, ...); {empty} for segments without rows.

    Raises:
      ValueError: num_segments is negative, or the shapes do not fit.
      TypeError: an argument is not an array, or the ids are no integers.
      ConcretizationTypeError: num_segments is left out and the ids are traced.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.ops.{name}(jnp.array([1, 2, 3]), jnp.array([0, 0, 1]))
      {result}
    """


def _segments(name: str, method: str, identity: Callable[[Any], Any], reduce: Any, data: Any,
              ids: Any, num_segments: Any, bucket_size: Any, mode: Any) -> Any:
    data = util.one_array(name, data)
    data = util.array(data)
    ids = util.one_array(name, ids if hasattr(ids, "shape") else creation.asarray(ids))
    if not dtypes.is_integer(dtype_of(ids)):
        raise TypeError(explain(f"{name}: segment_ids must be integers, got dtype "
                                f"{dtype_of(ids).name}.", fix="use astype(int)."))
    lead = shape_of(ids)
    if shape_of(data)[:len(lead)] != lead:
        raise ValueError(explain(
            f"{name}: Incompatible shapes for broadcasting: segment_ids have shape {lead}, data "
            f"has shape {shape_of(data)}.", fix="give one id for every row of data."))
    if num_segments is None:
        known = util.needed(name, ids, "the number of segments depends on the ids.",
                               "pass num_segments.")
        num_segments = int(known.max(initial=-1)) + 1
    count = as_size(name, num_segments)
    if count < 0:
        raise ValueError(explain(f"num_segments must be non-negative. Got {count}."))
    dtype = dtype_of(data)
    rows = shape_of(data)[len(lead):]
    with util.lazy_eval(name):
        ids = util.array(ids)
        if mode is None:  # no counting from the end
            ids = where(ids < 0, number(count, dtype_of(ids)), ids)
        how = "drop" if mode is None else mode
        if bucket_size is None:
            out = full((count, *rows), identity(dtype), dtype)
            return getattr(out.at[ids], method)(data, mode=how)
        if bucket_size < 1:
            raise ValueError(explain(f"bucket_size must be positive. Got {bucket_size}."))
        buckets = -(-lead[0] // bucket_size) if lead else 1
        out = full((buckets, count, *rows), identity(dtype), dtype)
        place = (ranges.arange(lead[0]) // bucket_size if lead else 0)
        return reduce(getattr(out.at[place, ids], method)(data, mode=how), axis=0).astype(dtype)


def _segment_function(name: str, sentence: str, method: str, identity: Callable[[Any], Any],
                      reduce: Any, empty: str, result: str) -> Any:
    def f(data: Any, segment_ids: Any, num_segments: int | None = None,
          indices_are_sorted: bool = False, unique_indices: bool = False,
          bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return resharded(name, out_sharding, f, data, segment_ids, num_segments,
                             bucket_size=bucket_size, mode=mode)
        return _segments(name, method, identity, reduce, data, segment_ids, num_segments,
                         bucket_size, mode)

    return from_row(f, "calque.ops", name, _DOC, sentence=sentence, empty=empty, result=result)


segment_sum = _segment_function("segment_sum", "Sums", "add", lambda d: d.type(0), rd.sum, "0",
                                "Array([3, 3], dtype=int32)")
segment_prod = _segment_function("segment_prod", "Products", "multiply", lambda d: d.type(1),
                                 rd.prod, "1", "Array([2, 3], dtype=int32)")
segment_max = _segment_function("segment_max", "Maxima", "max", rd.lowest, rd.max,
                                "the dtype's smallest value (-inf)", "Array([2, 3], dtype=int32)")
segment_min = _segment_function("segment_min", "Minima", "min", rd.highest, rd.min,
                                "the dtype's largest value (inf)", "Array([1, 3], dtype=int32)")

# ---- names of old tutorials: changed copies, today x.at[...].set and its kin
_INDEX_DOC = """x with y {verb} at an index (today: x.at[idx].{method}(y)).

    Args:
      x: array.
      idx: what x[...] takes; index or a tuple of them, slices included.
      y: array that broadcasts to x[idx].
      indices_are_sorted: accepted; no promise is relied on.
      unique_indices: accepted; no promise is relied on.

    Returns:
      A changed copy of x.

    Raises:
      TypeError: an argument is not an array, or the index is none.
      IndexError: a static index is out of bounds.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.ops.{name}(jnp.array([1, 2, 3]), 1, 5)
      {result}
    """


def _index_function(name: str, verb: str, method: str, result: str) -> Any:
    def f(x: Any, idx: Any, y: Any, indices_are_sorted: bool = False,
          unique_indices: bool = False) -> Any:
        x = util.one_array(name, x)
        return getattr(util.array(x).at[idx], method)(y)

    return from_row(f, "calque.ops", name, _INDEX_DOC, verb=verb, method=method, result=result)


index_update = _index_function("index_update", "put", "set", "Array([1, 5, 3], dtype=int32)")
index_add = _index_function("index_add", "added", "add", "Array([1, 7, 3], dtype=int32)")
index_mul = _index_function("index_mul", "multiplied", "multiply",
                            "Array([ 1, 10,  3], dtype=int32)")
index_min = _index_function("index_min", "as upper bound", "min",
                            "Array([1, 2, 3], dtype=int32)")
index_max = _index_function("index_max", "as lower bound", "max",
                            "Array([1, 5, 3], dtype=int32)")


class _Index:
    """index[...] is what stands in the brackets (jnp.s_)."""

    def __getitem__(self, idx: Any) -> Any:
        return idx


index = _Index()

__all__ = ["index", "index_add", "index_max", "index_min", "index_mul", "index_update",
           "segment_max", "segment_min", "segment_prod", "segment_sum"]


def __dir__() -> list[str]:
    return __all__
