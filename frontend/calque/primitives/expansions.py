"""Operations without a form in kernels, written in those that have one: what loops are rewritten in
(words.py).

A key is its words, uint32[..., 2], of threefry2x32.  Each function takes an equation's operands and
parameters and gives its results, the same bits as its rule in lowering/rules.  Sorting is by
merging runs (Knuth, The Art of Computer Programming 3, 5.2.4), a number a step.
Start reading at `EXPANSIONS`.
"""
from __future__ import annotations

import contextvars
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of
from calque.core.types import Dtype, Shape
from calque.primitives import control, while_loop
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.primitives.contract import dot_general
from calque.primitives.cumulative import logaddexp
from calque.primitives.index import dynamic_slice, dynamic_update_slice
from calque.primitives.random import threefry2x32_p
from calque.primitives.window import Window, general_window, window_count
from calque.transforms.stage import closed, stage

U32, U64, INT = np.dtype("uint32"), np.dtype("uint64"), np.dtype("int32")
SIGNED: dict[int, Dtype] = {2: np.dtype("int16"), 4: INT, 8: np.dtype("int64")}
MOST_SELECTED = 8  # of them that top_k finds one by one
MOST_MERGED = 8192  # steps of merging by which a loop sorts itself: 40 us, as a sort from the host
MOST_TAPS = 49  # places of a convolution's kernel, each a few equations: 7 x 7
MOST_DRAWN = 1024  # numbers of one key: of more the cores' vectors are worth a step from the host
MOST_DRAWN_OUTSIDE = 8192  # of more, several cores share what IREE makes of it


class NoExpansion(Exception):
    """An equation that cannot be written in others, with the reason."""


def _convert(x: Any, dtype: Any) -> Any:
    return ew.convert(x, np.dtype(dtype))


def _full(value: Any, shape: Shape, dtype: Any) -> Any:
    number = np.dtype(dtype).type(value)
    return sh.broadcast_in_dim(number, shape, ()) if shape else number


def _like(x: Any, value: Any) -> Any:
    return _full(value, shape_of(x), dtype_of(x))


# ---- random bits
_inside = contextvars.ContextVar("inside", default=True)


def outside(expand: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """An expansion outside of loops: it may draw more, and its scans stay loops."""
    def expanded(*xs: Any, **params: Any) -> list[Any]:
        token = _inside.set(False)
        try:
            return expand(*xs, **params)
        finally:
            _inside.reset(token)
    return expanded


def _drawn(count: int) -> int:
    if count > (MOST_DRAWN if _inside.get() else MOST_DRAWN_OUTSIDE):
        raise NoExpansion(f"{count} numbers of one key")
    return count


def _words(keys: Any, full: Shape) -> list[Any]:
    """The two words of each key, spread over the trailing axes of `full`."""
    lead = shape_of(keys)[:-1]
    found = []
    for i in range(2):
        word = sh.reshape(sh.slice_in_dim(keys, i, i + 1, len(lead)), lead)
        found.append(word if lead == full else sh.broadcast_in_dim(word, full, range(len(lead))))
    return found


def _counted(keys: Any, shape: Shape) -> Any:
    """Threefry's two words, in one of 64 bits, of each position within `shape` under each key."""
    size = _drawn(math.prod(shape))
    lead = shape_of(keys)[:-1]
    full = (*lead, *shape)
    low = _full(0, full, U32)
    if size > 1:
        low = sh.reshape(sh.iota(U32, (size,)), shape)
        low = low if not lead else sh.broadcast_in_dim(low, full, range(len(lead), len(full)))
    return threefry2x32_p.bind(*_words(keys, full), _full(0, full, U32), low)


def _flat(keys: Any, count: int) -> Any:
    """The original stream: counts 0..count-1 are cut in two halves, each a word of the counter."""
    lead, half = shape_of(keys)[:-1], (_drawn(count) + 1) // 2
    full, axis = (*lead, half), len(shape_of(keys)) - 1
    low = sh.iota(U32, full, axis)
    high = ew.add(low, _like(low, half))
    if count % 2:  # the padded last count is 0
        high = ew.select_n(ew.lt(high, _like(high, count)), _like(high, 0), high)
    t = threefry2x32_p.bind(*_words(keys, full), low, high)
    if count == 1:
        return _high(t)
    second = _convert(t, U32)
    if count % 2:
        second = sh.slice_in_dim(second, 0, half - 1, axis)
    return sh.concatenate([_high(t), second], axis)


def _flat_bits(keys: Any, width: int, size: int) -> Any:
    """`size` numbers of 8, 16, 32 or 64 bits of that stream, in one flat axis."""
    lead = shape_of(keys)[:-1]
    axis, words = len(lead), -(-width * size // 32)
    bits = _flat(keys, words)
    if width == 32:
        return bits
    if width == 64:
        high, low = (_convert(sh.slice_in_dim(bits, i * size, (i + 1) * size, axis), U64)
                     for i in range(2))
        return ew.or_(ew.shift_left(high, _like(high, 32)), low)
    spread = (*lead, words, 32 // width)
    shift = sh.broadcast_in_dim(ew.mul(sh.iota(U32, spread[-1:]), _full(width, spread[-1:], U32)),
                                spread, (axis + 1,))
    parts = ew.shift_right_logical(sh.broadcast_in_dim(bits, spread, range(axis + 1)), shift)
    parts = ew.and_(parts, _like(parts, (1 << width) - 1))
    flat = sh.reshape(_convert(parts, f"uint{width}"), (*lead, words * spread[-1]))
    return sh.slice_in_dim(flat, 0, size, axis)


def _high(t: Any) -> Any:
    return _convert(ew.shift_right_logical(t, _like(t, 32)), U32)


def _pair(t: Any) -> Any:
    """A key from each number of 64 bits."""
    shape = (*shape_of(t), 1)
    return sh.concatenate([sh.reshape(_high(t), shape), sh.reshape(_convert(t, U32), shape)],
                          len(shape) - 1)


def _bits(keys: Any, *, bit_width: int, shape: Shape, partitionable: bool) -> list[Any]:
    if not partitionable:
        flat = _flat_bits(keys, bit_width, math.prod(shape))
        return [sh.reshape(flat, (*shape_of(keys)[:-1], *shape))]
    t = _counted(keys, shape)
    if bit_width == 64:
        return [t]
    mixed = ew.xor(_high(t), _convert(t, U32))
    return [mixed if bit_width == 32 else _convert(
        ew.and_(mixed, _like(mixed, (1 << bit_width) - 1)), f"uint{bit_width}")]


def _split(keys: Any, *, shape: Shape, partitionable: bool) -> list[Any]:
    if partitionable:
        return [_pair(_counted(keys, shape))]
    return [sh.reshape(_flat(keys, 2 * math.prod(shape)), (*shape_of(keys)[:-1], *shape, 2))]


def _fold_in(keys: Any, data: Any) -> list[Any]:
    full = max(shape_of(keys)[:-1], shape_of(data), key=len)
    if shape_of(keys)[:-1] != full:
        keys = sh.broadcast_in_dim(keys, (*full, 2), (len(full),))
    data = data if shape_of(data) == full else sh.broadcast_in_dim(data, full, ())
    return [_pair(threefry2x32_p.bind(*_words(keys, full), _full(0, full, U32), data))]


def _seed(x: Any, *, impl: str = "fry") -> list[Any]:
    dtype = dtype_of(x)
    if dtype.itemsize == 8:
        wide = _convert(x, U64)
        high, low = _high(wide), _convert(wide, U32)
    else:
        low = _convert(_convert(x, INT) if dtype.kind == "i" else x, U32)
        high = _full(0, shape_of(x), U32)
    shape = (*shape_of(x), 1)
    return [sh.concatenate([sh.reshape(high, shape), sh.reshape(low, shape)], len(shape) - 1)]


# ---- positions of extrema
def _argument(how: str) -> Callable[..., list[Any]]:
    def expand(x: Any, *, axes: Sequence[int], index_dtype: Any) -> list[Any]:
        (axis,), shape = axes, shape_of(x)
        if dtype_of(x) == dtypes.bool_:
            x = _convert(x, "uint8")
        best = rd.__dict__[f"reduce_{how}_p"].bind(x, axes=(axis,), out_sharding=None)
        best = sh.broadcast_in_dim(best, shape, [i for i in range(len(shape)) if i != axis])
        found = ew.eq(x, best)
        if dtype_of(x).kind not in "iu":  # the first NaN is the extremum
            found = ew.or_(found, ew.ne(x, x))
        at = sh.iota(np.dtype(index_dtype), shape, axis)
        last = _full(shape[axis] - 1, shape, index_dtype)
        return [rd.reduce_min_p.bind(ew.select_n(found, last, at), axes=(axis,),
                                     out_sharding=None)]
    return expand


# ---- running sums
_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "cumsum": ew.add, "cumprod": ew.mul, "cummax": ew.max_, "cummin": ew.min_,
    "cumlogsumexp": logaddexp}


def _running(name: str) -> Callable[..., list[Any]]:
    def expand(x: Any, *, axis: int, reverse: bool) -> list[Any]:
        n, dtype = shape_of(x)[axis], dtype_of(x)
        if dtype.itemsize < 4 and dtype.kind not in "iu" and name not in ("cummax", "cummin"):
            raise NoExpansion("halves, whose running sums are in float32")
        if n == 1:
            return [x]
        order = [axis, *[i for i in range(ndim_of(x)) if i != axis]]
        back = list(np.argsort(order))
        rows = sh.transpose(x, order) if axis else x
        first = n - 1 if reverse else 0
        start = sh.reshape(sh.slice_in_dim(rows, first, first + 1, 0), shape_of(rows)[1:])
        rest = sh.slice_in_dim(rows, 0 if reverse else 1, n - 1 if reverse else n, 0)
        one = aval_of(start)
        body = stage(lambda c, r: (lambda m: [m, m])(_COMBINE[name](c, r)), [one, one], name)
        inside, consts = closed(body)
        outs = control.scan(inside, consts, [start], [rest], length=n - 1, reverse=reverse,
                            unroll=1 if _inside.get() else 0)
        ends = [outs[1], sh.reshape(start, (1, *shape_of(start)))]
        made = sh.concatenate(ends if reverse else ends[::-1], 0)
        return [sh.transpose(made, back) if axis else made]
    return expand


# ---- order
def _before(a: Any, b: Any) -> tuple[Any, Any]:
    """(whether a number stands before another one, whether they are equal), NaN last."""
    less, same = ew.lt(a, b), ew.eq(a, b)
    if dtype_of(a).kind not in "iub":
        a_nan, b_nan = ew.ne(a, a), ew.ne(b, b)
        less = ew.or_(less, ew.and_(ew.not_(a_nan), b_nan))
        same = ew.or_(same, ew.and_(a_nan, b_nan))
    return less, same


def _earlier(xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """Whether xs stand before ys, the first operand counting most."""
    less, same = _before(xs[0], ys[0])
    for a, b in zip(xs[1:], ys[1:]):
        further, equal = _before(a, b)
        less = ew.or_(less, ew.and_(same, further))
        same = ew.and_(same, equal)
    return less


def _at(x: Any, i: Any) -> Any:
    return sh.reshape(dynamic_slice(x, [i], (1,)), ())


def _loop(times: Any, start: Sequence[Any], step: Callable[..., Sequence[Any]],
          more: Sequence[Any] = ()) -> list[Any]:
    """step(i, *more, *state) for i from 0 to times."""
    avals = [aval_of(x) for x in (np.int32(0), *start)]
    ins = [aval_of(x) for x in more]
    k = len(more)
    body = stage(lambda *a: [ew.add(a[k], np.int32(1)), *step(a[k], *a[:k], *a[k + 1:])],
                 [*ins, *avals], "merge")
    test = stage(lambda n, i, *rest: [ew.lt(i, n)], [aval_of(times), *avals], "merge")
    return while_loop.while_loop(test, [times], body, list(more), [np.int32(0), *start])[1:]


def _sort(*xs: Any, dimension: int, num_keys: int, is_stable: bool) -> list[Any]:
    shape = shape_of(xs[0])
    n, total = shape[dimension], math.prod(shape)
    levels = (n - 1).bit_length()
    if total * levels > MOST_MERGED or any(dtype_of(x).kind == "c" for x in xs):
        raise NoExpansion(f"sort of {total} numbers")
    last = len(shape) - 1
    order = [*[i for i in range(len(shape)) if i != dimension], dimension]
    back = list(np.argsort(order))
    flat = [sh.reshape(sh.transpose(x, order) if dimension != last else x, (total,)) for x in xs]
    for level in range(levels):
        flat = _merged(flat, n, total, 1 << level, num_keys)
    moved = tuple(shape[i] for i in order)
    made = [sh.reshape(x, moved) for x in flat]
    return [sh.transpose(x, back) if dimension != last else x for x in made]


def _merged(xs: Sequence[Any], n: int, total: int, run: int, num_keys: int) -> list[Any]:
    """Each two neighbouring sorted runs of each n numbers as one."""
    def step(t: Any, *state: Any) -> list[Any]:
        source, (i, j, *made) = state[:len(xs)], state[len(xs):]
        at = ew.rem(t, np.int32(n))
        first = ew.eq(ew.rem(at, np.int32(2 * run)), np.int32(0))  # of two runs
        low = ew.sub(t, ew.rem(at, np.int32(2 * run)))
        row_end = ew.add(ew.sub(t, at), np.int32(n))
        i = ew.select_n(first, i, low)
        middle = ew.min_(ew.add(ew.sub(t, ew.rem(at, np.int32(2 * run))), np.int32(run)), row_end)
        j = ew.select_n(first, j, middle)
        end = ew.min_(ew.add(middle, np.int32(run)), row_end)
        left = [_at(x, ew.min_(i, np.int32(total - 1))) for x in source]
        right = [_at(x, ew.min_(j, np.int32(total - 1))) for x in source]
        takes = ew.and_(ew.lt(j, end), ew.or_(
            ew.ge(i, middle), _earlier(right[:num_keys], left[:num_keys])))
        made = [dynamic_update_slice(m, sh.reshape(ew.select_n(takes, a, b), (1,)), [t])
                for m, a, b in zip(made, left, right)]
        one, none = np.int32(1), np.int32(0)
        return [ew.add(i, ew.select_n(takes, one, none)), ew.add(j, ew.select_n(takes, none, one)),
                *made]

    start = [np.int32(0), np.int32(0), *[_full(0, (total,), dtype_of(x)) for x in xs]]
    return _loop(np.int32(total), start, step, xs)[2:]


def _top_k(x: Any, *, k: int, axis: int) -> list[Any]:
    key, at = _falling(x), sh.iota(INT, shape_of(x), axis)
    if k <= MOST_SELECTED:
        return _selected(key, at, dtype_of(x), k, axis)
    _, positions, values = _sort(key, at, x, dimension=axis, num_keys=1, is_stable=True)
    return [sh.slice_in_dim(values, 0, k, axis), sh.slice_in_dim(positions, 0, k, axis)]


def _falling(x: Any) -> Any:
    """Integers that fall as x rises in the total order of its bits."""
    dtype = dtype_of(x)
    if dtype.kind in "iu":
        return ew.not_(x)
    if dtype == dtypes.bool_:
        return _convert(ew.not_(x), "uint8")
    if dtype.itemsize not in SIGNED or dtype.kind == "c":
        raise NoExpansion(f"top_k of {dtype.name}")
    return ew.not_(_turned(ew.bitcast_convert_type(x, new_dtype=SIGNED[dtype.itemsize])))


def _turned(bits: Any) -> Any:
    """Bits of floats as integers of their order, and back."""
    whole = dtype_of(bits)
    sign = ew.shift_right_arithmetic_p.bind(bits, _like(bits, whole.itemsize * 8 - 1))
    return ew.xor(bits, ew.and_(sign, _like(bits, np.iinfo(whole).max)))


def _risen(key: Any, dtype: Dtype) -> Any:
    """What `_falling` made the integers of."""
    if dtype == dtypes.bool_:
        return ew.eq(key, _like(key, 0))
    key = ew.not_(key)
    return key if dtype.kind in "iu" else ew.bitcast_convert_type(_turned(key), new_dtype=dtype)


def _selected(key: Any, at: Any, dtype: Dtype, k: int, axis: int) -> list[Any]:
    """The first k, one after the other: each is the least of what is left."""
    shape = shape_of(key)
    others = [i for i in range(len(shape)) if i != axis]
    last, end = _full(shape[axis] - 1, shape, INT), _like(key, np.iinfo(dtype_of(key)).max)

    def least(x: Any) -> tuple[Any, Any]:
        found = rd.reduce_min_p.bind(x, axes=(axis,), out_sharding=None)
        row = sh.reshape(found, tuple(1 if i == axis else n for i, n in enumerate(shape)))
        return row, sh.broadcast_in_dim(found, shape, others)

    gone, values, positions = _full(False, shape, dtypes.bool_), [], []
    for _ in range(k):
        value, spread = least(ew.select_n(gone, key, end))
        found = ew.and_(ew.eq(key, spread), ew.not_(gone))
        position, spread = least(ew.select_n(found, last, at))
        gone = ew.or_(gone, ew.eq(at, spread))
        values.append(_risen(value, dtype))
        positions.append(position)
    return [sh.concatenate(values, axis), sh.concatenate(positions, axis)]


# ---- windows
def _windows(combine: Callable[[Any, Any], Any], identity: Callable[[Dtype], Any]
             ) -> Callable[..., list[Any]]:
    def expand(x: Any, **params: Any) -> list[Any]:
        dtype = dtype_of(x)
        if dtype.kind not in "biu" and dtype.itemsize < 4:
            raise NoExpansion("windows of halves")
        start = np.asarray(identity(dtype), dtype)[()]
        return general_window([x], [start], lambda a, b: [combine(a[0], b[0])], Window.of(params))
    return expand


def _convolution(x: Any, y: Any, *, window_strides: Sequence[int], padding: Any,
                 lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: Any,
                 feature_group_count: int, batch_group_count: int, preferred_element_type: Any,
                 precision: Any, **params: Any) -> list[Any]:
    """A sum over the kernel's places, each of a product of what it sees and its weights there."""
    dn, dtype, rank = dimension_numbers, dtype_of(x), ndim_of(x)
    last = dn.lhs_spec[1] == rank - 1  # features lie side by side, not places

    def order(batch: Any, features: Any, space: Sequence[Any]) -> tuple[Any, ...]:
        return (batch, *space, features) if last else (batch, features, *space)

    (outputs, inputs, *kernel), (batch, features, *_) = (
        [shape_of(v)[i] for i in spec] for v, spec in ((y, dn.rhs_spec), (x, dn.lhs_spec)))
    if dtype.kind not in "fiu" or dtype.itemsize < 4 or preferred_element_type not in (None, dtype):
        raise NoExpansion(f"convolutions of {dtype.name}")
    if batch_group_count > 1 or 1 not in (feature_group_count, inputs):
        raise NoExpansion("convolutions in groups")
    if math.prod(kernel) > MOST_TAPS:
        raise NoExpansion(f"kernels of {math.prod(kernel)} places")
    x = sh.transpose(x, order(dn.lhs_spec[0], dn.lhs_spec[1], dn.lhs_spec[2:]))
    y = sh.transpose(y, dn.rhs_spec)
    holes = [(low, high, d - 1) for (low, high), d in zip(padding, lhs_dilation)]
    x = sh.pad(x, dtype.type(0), order((0, 0, 0), (0, 0, 0), holes))
    sizes = shape_of(x)[1:-1] if last else shape_of(x)[2:]
    space = [window_count(n, (k - 1) * d + 1, s)
             for n, k, d, s in zip(sizes, kernel, rhs_dilation, window_strides)]
    each = outputs // features  # kernels of a feature, where it has some of its own
    places = range(1, rank - 1) if last else range(3, rank + 1)
    spread = (batch, *space, features, each) if last else (batch, features, each, *space)
    found = None
    for at in np.ndindex(*kernel):
        first = [i * d for i, d in zip(at, rhs_dilation)]
        end = [i + (n - 1) * s + 1 for i, n, s in zip(first, space, window_strides)]
        seen = sh.slice_(x, order(0, 0, first), order(batch, features, end),
                         order(1, 1, window_strides))
        weights = sh.reshape(sh.slice_(y, (0, 0, *at), (outputs, inputs, *[i + 1 for i in at])),
                             (outputs, inputs))
        if outputs == 1 and inputs == 1:
            made = ew.mul(seen, sh.broadcast_in_dim(
                sh.reshape(weights, ()), shape_of(seen), ()))
        elif inputs == 1:
            own = (rank - 1, rank) if last else (1, 2)
            made = ew.mul(
                sh.broadcast_in_dim(seen, spread, order(0, own[0], places)),
                sh.broadcast_in_dim(sh.reshape(weights, (features, each)), spread, own))
        elif last:
            made = dot_general(seen, weights, (((rank - 1,), (1,)), ((), ())), precision)
        else:
            made = dot_general(weights, seen, (((1,), (1,)), ((), ())), precision)
        found = made if found is None else ew.add(found, made)
    if inputs == 1:
        found = sh.reshape(found, order(batch, outputs, space))
    elif not last:
        found = sh.transpose(found, (1, 0, *range(2, rank)))
    spec = order(dn.out_spec[0], dn.out_spec[1], dn.out_spec[2:])
    return [sh.transpose(found, [int(i) for i in np.argsort(spec)])]


# ---- what keeps its operand
def _same(*xs: Any, **params: Any) -> list[Any]:
    return list(xs)


EXPANSIONS: dict[str, Callable[..., list[Any]]] = {
    "random_bits": _bits, "random_split": _split, "random_fold_in": _fold_in, "random_seed": _seed,
    "random_wrap": _same, "random_unwrap": _same, "optimization_barrier": _same, "name": _same,
    "argmax": _argument("max"), "argmin": _argument("min"), "sort": _sort, "top_k": _top_k,
    "conv_general_dilated": _convolution,
    "reduce_window_sum": _windows(ew.add, lambda dtype: 0),
    "reduce_window_max": _windows(ew.max_, lambda dtype: dtypes.extreme(dtype, False)),
    "reduce_window_min": _windows(ew.min_, lambda dtype: dtypes.extreme(dtype, True)),
    **{name: _running(name) for name in _COMBINE}}

__all__ = ["EXPANSIONS", "NoExpansion", "outside"]
