"""Operations outside of loops whose rules put others around a kernel, written so that these are
equations: sorts by unsigned keys, draws from words, small windows, short running sums, scatters
by the numbers of rows.

A program that is kernels of ours alone skips most of the compiler's stages, and what a rule writes
around its kernel would be left to them; as equations it becomes kernels as well (what lowering asks
by `forms.outside`, lowering/passes/remainder).  The bits are those of the rules.  A sort is left as
one of unsigned keys, rows of them, with the positions, of which alone the result is read; top_k as
one of unsigned numbers.  Start reading at `OUTSIDE`.
"""
from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.lists import other_axes
from calque.core.primitive import Primitive
from calque.core.types import Dtype, Params, Shape
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.conv import conv_general_dilated_p, spatial_result
from calque.primitives.conv_phases import around, by_phase, has_phases
from calque.primitives.expansions import EXPANSIONS, NoExpansion, outside
from calque.primitives.gather import GatherScatterMode
from calque.primitives.reduce import reduce_sum
from calque.primitives.scatter import FAMILY, KNOWN, ROWS
from calque.primitives.sort import sort_p, take_along, top_k_p
from calque.primitives.window import Window, select_and_scatter_add_p

MOST_SORTED = 1 << 16  # elements: of more, IREE moves rows on several cores
MOST_RUN = 4096  # numbers of a running sum, of which a kernel takes one step after another
MOST_TAPS = 9  # places of a window
MOST_WINDOWS = 4  # that see an element, where each asks for itself
INT = np.dtype("int32")


# ---- order
def _rising(x: Any, canonical: bool) -> Any:
    """Unsigned numbers in the order of x; canonical: NaN last whatever its bits, -0 equal to 0."""
    dtype = dtype_of(x)
    if dtype == dtypes.bool_:
        return ew.convert(x, np.dtype("uint8"))
    if dtype.kind == "u":
        return x
    if dtype.kind == "c" or dtype.itemsize not in (1, 2, 4, 8):
        raise NoExpansion(f"order of {dtype.name}")
    bits = ew.bitcast_convert_type(x, new_dtype=np.dtype(f"u{dtype.itemsize}"))

    def number(n: int) -> Any:
        return sh.broadcast_in_dim(dtype_of(bits).type(n), shape_of(bits), ())

    sign = 1 << (8 * dtype.itemsize - 1)
    if dtype.kind == "i":
        return ew.xor(bits, number(sign))
    if dtype.itemsize < 2:
        raise NoExpansion(f"order of {dtype.name}")
    if canonical:
        infinity = int(np.array(np.inf, dtype).view(dtype_of(bits)))
        size = ew.and_(bits, number(sign - 1))
        bits = ew.select_n(ew.eq(size, number(0)), bits, size)
        bits = ew.select_n(ew.gt(size, number(infinity)), bits, number(sign - 1))
    return ew.select_n(ew.ne(ew.and_(bits, number(sign)), number(0)),
                       ew.or_(bits, number(sign)), ew.not_(bits))


class _Rows:
    """Elements along an axis as rows, and back."""

    def __init__(self, shape: Sequence[int], axis: int) -> None:
        self.order = [*[i for i in range(len(shape)) if i != axis], axis]
        self.lead = tuple(shape[i] for i in self.order[:-1])
        self.n = shape[axis]
        self.moved = self.order != sorted(self.order)

    def split(self, x: Any) -> Any:
        x = sh.transpose(x, self.order) if self.moved else x
        return sh.reshape(x, (math.prod(self.lead), self.n))

    def join(self, x: Any) -> Any:
        x = sh.reshape(x, (*self.lead, shape_of(x)[1]))
        return sh.transpose(x, [int(i) for i in np.argsort(self.order)]) if self.moved else x


def _few(shape: Sequence[int]) -> None:
    if math.prod(shape) > MOST_SORTED:
        raise NoExpansion(f"order of {math.prod(shape)} numbers")


def _sort(*xs: Any, dimension: int, num_keys: int, is_stable: bool) -> list[Any]:
    shape = shape_of(xs[0])
    _few(shape)
    if shape[dimension] == 1:
        return list(xs)
    rows = _Rows(shape, dimension)
    keys = [rows.split(_rising(x, True)) for x in xs[:num_keys]]
    at = sh.iota(INT, shape_of(keys[0]), 1)
    order = sort_p.bind(*keys, at, dimension=1, is_stable=True, num_keys=num_keys)[-1]
    return [rows.join(take_along(rows.split(x), order, 1)) for x in xs]


def _top_k(x: Any, *, k: int, axis: int) -> list[Any]:
    shape = shape_of(x)
    _few((*shape[:axis], k, *shape[axis + 1:]))  # that is all that is moved
    if shape[axis] == 1:
        raise NoExpansion("one number")
    rows = _Rows(shape, axis)
    key = rows.split(_rising(x, False))
    if dtype_of(key).itemsize < 4:
        key = ew.convert(key, np.dtype("uint32"))
    order = top_k_p.bind(key, k=k, axis=1)[1]
    return [rows.join(take_along(rows.split(x), order, 1)), rows.join(order)]


# ---- windows
def _spread(x: Any, w: Window, start: Any) -> Any:
    """Windows that each see one element, between holes: elements repeated."""
    counts = shape_of(x)
    wide = tuple(itertools.chain(*zip(counts, w.dimensions)))
    made = sh.reshape(sh.broadcast_in_dim(x, wide, range(0, len(wide), 2)),
                      [n * k for n, k in zip(counts, w.dimensions)])
    rest = [(0, high - k + 1, 0) for (_, high), k in zip(w.padding, w.dimensions)]
    return sh.pad(made, start, rest) if any(map(any, rest)) else made


def _windows(combine: Callable[[Any, Any], Any], identity: Callable[[Dtype], Any]
             ) -> Callable[..., list[Any]]:
    def expand(x: Any, **params: Any) -> list[Any]:
        dtype, w = dtype_of(x), Window.of(params)
        if dtype.kind not in "fiu" or dtype.itemsize < 4:
            raise NoExpansion(f"windows of {dtype.name}")
        if w.base == w.dimensions and {*w.strides, *w.dilation} == {1} and all(
                low == k - 1 <= high for (low, high), k in zip(w.padding, w.dimensions)):
            return [_spread(x, w, np.asarray(identity(dtype), dtype)[()])]
        if math.prod(w.dimensions) > MOST_TAPS or any(b != 1 for b in w.base):
            raise NoExpansion(f"windows of {math.prod(w.dimensions)} places")
        result = w.result(shape_of(x))
        start = np.asarray(identity(dtype), dtype)[()]
        if any(map(any, w.padding)):
            x = sh.pad(x, start, [(low, high, 0) for low, high in w.padding])
        made = None
        for at in itertools.product(*map(range, w.dimensions)):
            first = [i * d for i, d in zip(at, w.dilation)]
            end = [i + (n - 1) * s + 1 for i, n, s in zip(first, result, w.strides)]
            seen = sh.slice_(x, first, end, w.strides)
            made = seen if made is None else combine(made, seen)
        return [made]
    return expand


def _select_and_scatter_add(source: Any, x: Any, **params: Any) -> list[Any]:
    """Each element asks the windows that see it whether they chose it."""
    w, shape, dtype = Window.of(params), shape_of(x), dtype_of(x)
    seen_by = [-(-k // s) for k, s in zip(w.dimensions, w.strides)]  # windows along each axis
    if (dtype.kind not in "fi" or dtype.itemsize < 4 or dtype_of(source) != dtype
            or math.prod(w.dimensions) > MOST_TAPS or math.prod(seen_by) > MOST_WINDOWS
            or {*w.dilation, *w.base} != {1} or 0 in shape_of(source)):
        return [select_and_scatter_add_p.bind(source, x, **params)]
    # tap t of an axis is element t of windows of so many, a multiple of the stride
    bases = [m * s for m, s in zip(seen_by, w.strides)]
    apart = [math.prod(bases[i + 1:]) for i in range(len(bases))]
    largest = params["select_prim"] is ew.ge_p
    padded = around(x, np.asarray(dtypes.extreme(dtype, not largest), dtype)[()],
                    range(len(shape)), w.padding)
    chosen = _chosen(padded, w, shape_of(source), params["select_prim"], apart)
    rows = [-(-(low + n) // s) for (low, _), n, s in zip(w.padding, shape, w.strides)]
    wide = tuple(itertools.chain(*zip(rows, w.strides)))
    zero = sh.broadcast_in_dim(dtype.type(0), wide, ())
    total = zero
    for before in itertools.product(*map(range, seen_by)):
        ends = [(b, q - n - b) for b, q, n in zip(before, rows, shape_of(source))]
        own, of = (sh.broadcast_in_dim(around(v, fill, range(len(shape)), ends), wide,
                                       range(0, len(wide), 2))
                   for v, fill in ((chosen, INT.type(-1)), (source, dtype.type(0))))
        first = sum(b * s * n for b, s, n in zip(before, w.strides, apart))
        number = sh.broadcast_in_dim(INT.type(first), wide, ())
        for i, (stride, n) in enumerate(zip(w.strides, apart)):
            if stride > 1:
                number = ew.add(number, ew.mul(sh.iota(INT, wide, 2 * i + 1), sh.broadcast_in_dim(
                    INT.type(n), wide, ())))
        total = ew.add(total, ew.select_n(ew.eq(own, number), zero, of))
    made = sh.reshape(total, [q * s for q, s in zip(rows, w.strides)])
    low = [a for a, _ in w.padding]
    return [made if shape_of(made) == shape else sh.slice_(
        made, low, [a + n for a, n in zip(low, shape)])]


def _chosen(x: Any, w: Window, counts: Shape, select: Primitive, apart: Sequence[int]) -> Any:
    """The number of the tap of each window of a padded array that no other beats, the first one."""
    best, chosen = None, sh.broadcast_in_dim(INT.type(0), counts, ())
    for at in itertools.product(*map(range, w.dimensions)):
        end = [i + (n - 1) * s + 1 for i, n, s in zip(at, counts, w.strides)]
        seen = sh.slice_(x, at, end, w.strides)
        if best is None:
            best = seen
            continue
        stays, number = select.bind(best, seen), sum(map(operator.mul, at, apart))
        chosen = ew.select_n(stays, sh.broadcast_in_dim(INT.type(number), counts, ()), chosen)
        best = ew.select_n(stays, seen, best)
    return chosen


def _running(name: str) -> Callable[..., list[Any]]:
    def expand(x: Any, *, axis: int, reverse: bool) -> list[Any]:
        if math.prod(shape_of(x)) > MOST_RUN or len(shape_of(x)) > 1:
            raise NoExpansion("long running sums")
        return outside(EXPANSIONS[name])(x, axis=axis, reverse=reverse)
    return expand


def _conv(x: Any, y: Any, **params: Any) -> list[Any]:
    dtype, p = dtype_of(x), params
    plain = (dtype.kind == "f" and dtype.itemsize >= 4 and dtype == dtype_of(y)
             and p["preferred_element_type"] in (None, dtype))
    if plain and p["feature_group_count"] == p["batch_group_count"] == 1 and has_phases(p):
        return [by_phase(x, y, p)]
    if plain and {*p["lhs_dilation"]} == {1} and _is_of_each(shape_of(x), shape_of(y), p):
        return [_kernel_of_each(x, y, p)]
    return [conv_general_dilated_p.bind(x, y, **p)]


def _is_of_each(x: Shape, y: Shape, p: Params) -> bool:
    """Whether a convolution is the gradient of a small kernel for each feature, features lying side
    by side."""
    d, last, whole = p["dimension_numbers"], len(x) - 1, _result(x, y, p)
    return (p["batch_group_count"] == x[d.lhs_spec[0]] == y[d.rhs_spec[0]] > 1
            and d.lhs_spec[0] == d.rhs_spec[0] == last
            and 1 < math.prod(whole[i] for i in d.out_spec[2:]) <= MOST_TAPS)


def _result(x: Shape, y: Shape, p: Params) -> Shape:
    d, shape = p["dimension_numbers"], [0] * len(x)
    places = spatial_result(
        tuple(x[i] for i in d.lhs_spec[2:]), tuple(y[i] for i in d.rhs_spec[2:]),
        p["window_strides"], p["padding"], p["lhs_dilation"], p["rhs_dilation"])
    shape[d.out_spec[0]] = x[d.lhs_spec[0]] // p["batch_group_count"]
    shape[d.out_spec[1]] = y[d.rhs_spec[0]]
    for axis, n in zip(d.out_spec[2:], places):
        shape[axis] = n
    return tuple(shape)


def _kernel_of_each(x: Any, y: Any, p: Params) -> Any:
    """The gradient of a kernel for each feature: for each place of it a sum of products."""
    d, whole = p["dimension_numbers"], _result(shape_of(x), shape_of(y), p)
    places = [whole[i] for i in d.out_spec[2:]]
    (c, n, *space), (o, i, *taps) = d.lhs_spec, d.rhs_spec
    x, y = sh.transpose(x, (n, *space, c)), sh.transpose(y, (i, *taps, o))
    zero, rank = dtype_of(x).type(0), len(space)
    x = sh.pad(x, zero, [(0, 0, 0), *[(low, high, 0) for low, high in p["padding"]], (0, 0, 0)])
    own, sums = shape_of(y), []
    for at in itertools.product(*map(range, places)):
        first = [0, *[a * s for a, s in zip(at, p["window_strides"])], 0]
        end = [own[0], *[f + (m - 1) * r + 1 for f, m, r in zip(
            first[1:-1], own[1:-1], p["rhs_dilation"])], own[-1]]
        seen = sh.slice_(x, first, end, (1, *p["rhs_dilation"], 1))
        sums.append(sh.reshape(reduce_sum(ew.mul(seen, y), range(rank + 1)), (1, own[-1])))
    made = sh.reshape(sh.concatenate(sums, 0), (*places, 1, own[-1]))
    order = {d.out_spec[0]: rank, d.out_spec[1]: rank + 1,
             **{axis: k for k, axis in enumerate(d.out_spec[2:])}}
    return sh.transpose(made, [order[axis] for axis in range(rank + 2)])


# ---- scatters
def _scatter(p: Primitive) -> Callable[..., list[Any]]:
    def expand(x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        found = _row_numbers(shape_of(x), indices, shape_of(updates), params) if (
            dtype_of(x) in KNOWN and dtype_of(indices) == INT) else None
        if found is None:
            return [p.bind(x, indices, updates, **params)]
        ids, width = found
        d, rank = params["dimension_numbers"], len(shape_of(updates))
        order = (*other_axes(rank, d.update_window_dims), *d.update_window_dims)
        if order != tuple(range(rank)):
            updates = sh.transpose(updates, order)
        made = p.bind(
            sh.reshape(x, (math.prod(shape_of(x)) // width, width)), ids,
            sh.reshape(updates, (shape_of(ids)[0], width)),
            **{**params, "dimension_numbers": ROWS, "mode": GatherScatterMode.FILL_OR_DROP,
               "indices_are_sorted": False, "unique_indices": False})
        return [sh.reshape(made, shape_of(x))]
    return expand


def _row_numbers(shape: Shape, indices: Any, updates: Shape, params: Params
                 ) -> tuple[Any, int] | None:
    """(count, 1) numbers of the rows that a scatter writes, the operand seen as rows of trailing
    whole axes, -1 for those outside; and their width.  None where it is one window, or the numbers
    are no int32."""
    d, batch = params["dimension_numbers"], shape_of(indices)[:-1]
    inserted = {*d.inserted_window_dims, *d.operand_batching_dims}
    window = iter(updates[i] for i in d.update_window_dims)
    sizes = [1 if a in inserted else next(window) for a in range(len(shape))]
    limits = {a: shape[a] - sizes[a] for a in d.scatter_dims_to_operand_dims}
    lead = max((a + 1 for a, (n, s) in enumerate(zip(shape, sizes))
                if n != s or a in d.operand_batching_dims), default=0)
    width = math.prod(shape[lead:])
    if (math.prod(batch) <= 1 or not lead or 0 in updates or not 1 < math.prod(shape) < 1 << 31
            or min(limits.values(), default=0) < 0):
        return None

    def number(n: int) -> Any:
        return sh.broadcast_in_dim(INT.type(n), batch, ())

    asks = params["mode"] is not GatherScatterMode.CLIP
    ids, inside = number(0), None
    for k, axis in enumerate(d.scatter_dims_to_operand_dims):
        own = sh.reshape(sh.slice_in_dim(indices, k, k + 1, len(batch)), batch)
        safe = ew.min_(ew.max_(own, number(0)), number(limits[axis]))
        if asks:
            there = ew.eq(own, safe)
            inside = there if inside is None else ew.and_(inside, there)
        if axis < lead:
            ids = ew.add(ids, ew.mul(safe, number(math.prod(shape[axis + 1:lead]))))
    for axis, along in zip(d.operand_batching_dims, d.scatter_indices_batching_dims):
        ids = ew.add(ids, ew.mul(sh.iota(INT, batch, along),
                                 number(math.prod(shape[axis + 1:lead]))))
    for axis in range(lead):
        if sizes[axis] != 1:
            own = shape_of(ids)
            batch = (*own, sizes[axis])
            ids = ew.add(sh.broadcast_in_dim(ids, batch, range(len(own))),
                         ew.mul(sh.iota(INT, batch, len(own)),
                                number(math.prod(shape[axis + 1:lead]))))
    if inside is not None:
        inside = sh.broadcast_in_dim(inside, batch, range(len(shape_of(inside))))
        ids = ew.select_n(inside, number(-1), ids)
    return sh.reshape(ids, (math.prod(batch), 1)), width


OUTSIDE: dict[str, Callable[..., list[Any]]] = {
    **{name: outside(EXPANSIONS[name]) for name in (
        "random_bits", "random_split", "random_fold_in", "random_seed")},
    "random_wrap": EXPANSIONS["random_wrap"], "random_unwrap": EXPANSIONS["random_unwrap"],
    **{p.name: _scatter(p) for p in FAMILY},
    "sort": _sort, "top_k": _top_k, "conv_general_dilated": _conv,
    "reduce_window_sum": _windows(ew.add, lambda dtype: 0),
    "reduce_window_max": _windows(ew.max_, lambda dtype: dtypes.extreme(dtype, False)),
    "reduce_window_min": _windows(ew.min_, lambda dtype: dtypes.extreme(dtype, True)),
    "select_and_scatter_add": _select_and_scatter_add,
    **{name: _running(name) for name in ("cumsum", "cumprod", "cummax", "cummin")}}

__all__ = ["OUTSIDE"]
