"""Steps of random programs: indexing with arrays, order, windows, loops, bits, linear algebra, fft.

Steps that jump at their operands' digits (sort, comparisons, indices) take exact values only.
Linear algebra gets matrices with a large diagonal, so that its errors stay those of the arithmetic.
See fuzz.py.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.lax import FftType
from calque.primitives.conv import ConvDimensionNumbers
from calque.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from calque.transforms.stage import stage
from support.fuzz_pool import Pool, Step, Value, bind, convert, reshape

MODES = [GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP,
         GatherScatterMode.PROMISE_IN_BOUNDS]


def _finite(x: Any) -> Any:
    """x within (-1, 1), 0 where it is NaN."""
    zero = np.zeros((), x.dtype)[()]
    wide = bind("broadcast_in_dim", zero, shape=tuple(x.shape), broadcast_dimensions=(),
                sharding=None)
    return bind("tanh", bind("select_n", bind("is_finite", x), wide, x))


# ---- gather and scatter, with positions far outside
def _positions(p: Pool, rank: int) -> tuple[Any, tuple[int, ...]] | None:
    """An index array [*batch, k] and the k axes of the operand that its vectors name."""
    i = p.pick(lambda v: v.kind in "iu" and v.exact and 0 < v.x.size <= 40) if p.number(0, 9) \
        else p.pick(lambda v: v.kind in "iu" and v.x.size == 0)
    if i is None:
        return None
    k = p.number(0 if p.number(0, 6) == 0 else 1, min(rank, 2) + 1)
    if k and i.x.size % k:
        k = 1
    batch: tuple[int, ...] = (i.x.size // k,) if k else (2,)
    if k and batch[0] % 2 == 0 and p.number(0, 2):
        batch = (2, batch[0] // 2)
    if batch == (1,) and p.number(0, 2):
        batch = ()
    x = reshape(i.x, (*batch, k)) if k else np.zeros((*batch, 0), np.int32)
    return x, tuple(int(a) for a in p.rng.permutation(rank)[:k])


def _window(p: Pool, shape: tuple[int, ...], named: tuple[int, ...]
            ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes of a window and the axes that the result lacks."""
    sizes = []
    for axis, n in enumerate(shape):
        if axis in named:
            sizes.append(p.one_of([1, 1, n, p.number(0, n + 1)]) if n else 0)
        else:
            sizes.append(p.one_of([n, n, min(n, 1)]))
    dropped = tuple(a for a, s in enumerate(sizes) if s == 1 and p.number(0, 3))
    return tuple(sizes), dropped


def _joined(p: Pool, batch: int, window: int) -> tuple[int, ...]:
    """Where the window's axes lie among all of the result."""
    return tuple(sorted(int(a) for a in p.rng.permutation(batch + window)[:window]))


def _gather(p: Pool) -> Value | None:
    v = p.pick(lambda v: len(v.shape) > 0)
    made = None if v is None else _positions(p, len(v.shape))
    if v is None or made is None:
        return None
    indices, named = made
    sizes, dropped = _window(p, v.shape, named)
    offset = _joined(p, indices.ndim - 1, len(sizes) - len(dropped))
    mode = p.one_of(MODES)
    fill = (True if v.kind == "b" else 7) if mode is GatherScatterMode.FILL_OR_DROP else None
    return Value(bind(
        "gather", v.x, indices, slice_sizes=sizes, mode=mode, fill_value=fill,
        indices_are_sorted=False, unique_indices=False,
        dimension_numbers=GatherDimensionNumbers(offset, dropped, named)), v.exact)


def _scatter(p: Pool) -> Value | None:
    v = p.pick(lambda v: len(v.shape) > 0)
    made = None if v is None else _positions(p, len(v.shape))
    if v is None or made is None:
        return None
    indices, named = made
    sizes, dropped = _window(p, v.shape, named)
    kept = iter(s for a, s in enumerate(sizes) if a not in dropped)
    batch = iter(indices.shape[:-1])
    rank = indices.ndim - 1 + len(sizes) - len(dropped)
    axes = _joined(p, indices.ndim - 1, len(sizes) - len(dropped))
    shape = tuple(next(kept) if a in axes else next(batch) for a in range(rank))
    updates = p.fitted(v.x.dtype, shape)
    if updates is None or math.prod(shape) > 400:
        return None
    name = "scatter" if v.kind in "bc" else p.one_of(
        ["scatter", "scatter", "scatter-add", "scatter-add", "scatter-sub", "scatter-mul",
         "scatter-min", "scatter-max"])
    moves = v.kind in "iub" or name in ("scatter", "scatter-min", "scatter-max")
    return Value(bind(
        name, v.x, indices, updates.x, mode=p.one_of(MODES), update_jaxpr=None, update_consts=(),
        indices_are_sorted=False, unique_indices=False,
        dimension_numbers=ScatterDimensionNumbers(axes, dropped, named)),
        v.exact and updates.exact and moves)


# ---- order
def _sort(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.exact and v.kind in "fiub" and len(v.shape) > 0)
    w = p.pick(lambda w: w.shape == v.shape) if v is not None else None
    if v is None or w is None:
        return None
    axis = p.number(0, len(v.shape))
    outs = bind("sort", v.x, w.x, dimension=axis, is_stable=True, num_keys=1)
    which = p.number(0, 2)
    return Value(outs[which], w.exact if which else True)


def _top_k(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.exact and v.kind in "fiu" and len(v.shape) > 0)
    if v is None:
        return None
    axis = p.number(0, len(v.shape))
    return Value(bind("top_k", v.x, k=p.number(0, v.shape[axis] + 1), axis=axis)[p.number(0, 2)],
                 True)


# ---- windows and running results
def _cumulative(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "fiu" and len(v.shape) > 0)
    if v is None:
        return None
    name = p.one_of(["cumsum", "cumsum", "cummax", "cummin", "cumprod"])
    x = _finite(v.x) if v.kind == "f" and name in ("cumsum", "cumprod") else v.x
    moves = v.kind in "iu" or name in ("cummax", "cummin")
    return Value(bind(name, x, axis=p.number(0, len(v.shape)), reverse=bool(p.number(0, 2))),
                 v.exact and moves)


def _reduce_window(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "fiu" and 0 < len(v.shape) < 3)
    if v is None:
        return None
    name = p.one_of(["reduce_window_sum", "reduce_window_max", "reduce_window_min"])
    axes = v.shape
    x = _finite(v.x) if v.kind == "f" and name == "reduce_window_sum" else v.x
    return Value(bind(
        name, x, window_dimensions=tuple(p.number(1, 4) for _ in axes),
        window_strides=tuple(p.number(1, 3) for _ in axes),
        padding=tuple((p.number(-1, 3) if n > 1 else p.number(0, 3), p.number(0, 3))
                      for n in axes),
        base_dilation=tuple(p.number(1, 3) for _ in axes),
        window_dilation=tuple(p.number(1, 3) for _ in axes)),
        v.exact and (v.kind in "iu" or name != "reduce_window_sum"))


def _conv(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "fi" and 0 < len(v.shape) < 4)
    if v is None:
        return None
    shape = (1,) * (3 - len(v.shape)) + v.shape
    features, size = p.number(1, 3), p.number(1, 4)
    kernel = p.fitted(v.x.dtype, (features, shape[1], size))
    if kernel is None:
        return None
    x, k = reshape(v.x, shape), kernel.x
    if v.kind == "f":
        x, k = _finite(x), _finite(k)
    axes = ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
    return Value(bind(
        "conv_general_dilated", x, k, window_strides=(p.number(1, 3),),
        padding=((p.number(0, 3), p.number(0, 3)),), lhs_dilation=(p.number(1, 3),),
        rhs_dilation=(p.number(1, 3),), dimension_numbers=axes, feature_group_count=1,
        batch_group_count=1, precision=None, preferred_element_type=None, out_sharding=None),
        v.exact and kernel.exact and v.kind == "i")


# ---- loops whose end depends on data
def _while(p: Pool) -> Value | None:
    """At most 9 steps, an update in place in each; the count comes from a value."""
    v = p.pick(lambda v: len(v.shape) == 1 and v.shape[0] > 0)
    n = p.pick(lambda n: n.exact and n.shape == () and n.x.dtype == np.dtype("i4"))
    if v is None:
        return None
    limit = bind("clamp", np.int32(0), n.x, np.int32(9)) if n is not None else np.int32(5)
    index, aval = ShapedArray((), np.dtype("i4")), ShapedArray(v.shape, v.x.dtype)

    def go(limit: Any, i: Any, x: Any) -> list[Any]:
        return [bind("lt", i, limit)]

    def body(i: Any, x: Any) -> list[Any]:
        row = bind("dynamic_slice", x, i, slice_sizes=(1,))
        last = bind("sub", np.int32(len_ - 1), bind("mul", i, np.int32(2)))
        return [bind("add", i, np.int32(1)), bind("dynamic_update_slice", x, row, last)]

    len_ = v.shape[0]
    outs = bind("while", limit, np.int32(p.number(-3, 3)), v.x,
                cond_jaxpr=stage(go, [index, index, aval], "go"), cond_nconsts=1,
                body_jaxpr=stage(body, [index, aval], "body"), body_nconsts=0)
    return Value(outs[1], v.exact)


# ---- bits and integers, division by zero and shifts too wide
def _integers(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "iu")
    w = p.like(v)
    if v is None or w is None or not (v.exact and w.exact):
        return None
    name = p.one_of(["div", "rem", "and", "or", "xor", "shift_left", "shift_right_arithmetic",
                     "shift_right_logical"])
    return Value(bind(name, v.x, w.x), True)


def _bits(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "iu" and v.exact)
    if v is None:
        return None
    name = p.one_of(["not", "population_count", "clz", "abs", "sign", "neg", "integer_pow"])
    if v.kind == "u" and name == "abs":
        name = "sign"
    return Value(bind(name, v.x, **({"y": p.number(0, 5)} if name == "integer_pow" else {})), True)


def _clamp(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "fiu")
    low = p.pick(lambda w: w.x.dtype == v.x.dtype and w.shape in (v.shape, ())) \
        if v is not None else None
    high = None if low is None else p.pick(
        lambda w: (w.x.dtype, w.shape) == (low.x.dtype, low.shape))
    if v is None or low is None or high is None:
        return None
    return Value(bind("clamp", low.x, v.x, high.x), v.exact and low.exact and high.exact)


def _rounded(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind == "f" and v.exact)
    if v is None:
        return None
    name = p.one_of(["floor", "ceil", "round", "is_finite", "sign"])
    return Value(bind(name, v.x, **({"rounding_method": p.number(0, 2)} if name == "round" else {})
                      ), True)


def _smooth(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind == "f" and v.x.dtype.itemsize > 2)
    if v is None:
        return None
    name = p.one_of(["exp", "log1p", "erf", "logistic", "cbrt", "atan", "sqrt", "lgamma"])
    x = _finite(v.x)
    if name in ("log1p", "sqrt", "lgamma"):
        x = bind("add", bind("abs", x), np.ones((), v.x.dtype)[()])
    return Value(bind(name, x), False)


def _relation(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.exact)
    w = p.like(v, lambda w: w.exact)
    if v is None or w is None:
        return None
    name = p.one_of(["eq", "ne"] if v.kind in "bc" else ["eq", "ne", "le", "gt", "ge"])
    return Value(bind(name, v.x, w.x), True)


def _fold(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "biu" and len(v.shape) > 0)
    if v is None:
        return None
    name = p.one_of(["reduce_and", "reduce_or", "reduce_xor"] +
                    (["reduce_prod"] if v.kind != "b" else []))
    axes = tuple(range(p.number(0, len(v.shape)), len(v.shape)))
    return Value(bind(name, v.x, axes=axes, out_sharding=None), v.exact)


# ---- linear algebra and fft
def _matrix(p: Pool) -> Any:
    """A square matrix with a large diagonal."""
    v = p.pick(lambda v: v.x.dtype in (np.dtype("f4"), np.dtype("f8")) and len(v.shape) > 0)
    if v is None:
        return None
    n = p.one_of([k for k in (0, 1, 2, 3, 4, 5) if k * k <= v.x.size])
    m = p.fitted(v.x.dtype, (n, n))
    return None if m is None else bind("add", _finite(m.x), (8 * np.eye(n)).astype(v.x.dtype))


def _linear(p: Pool) -> Value | None:
    m = _matrix(p)
    if m is None:
        return None
    name = p.one_of(["cholesky", "lu", "triangular_solve", "geqrf", "qr", "eigh", "svd"])
    if name == "triangular_solve":
        b = p.fitted(m.dtype, (m.shape[0], p.number(0, 3)))
        return None if b is None else Value(bind(
            name, m, _finite(b.x), left_side=True, lower=bool(p.number(0, 2)), conjugate_a=False,
            transpose_a=bool(p.number(0, 2)), unit_diagonal=False), False)
    params: dict[str, Any] = {
        "qr": {"full_matrices": False, "pivoting": False, "use_magma": None},
        "eigh": {"lower": True, "sort_eigenvalues": True, "compute_vectors": False,
                 "subset_by_index": None, "algorithm": None},
        "svd": {"full_matrices": False, "compute_uv": False, "subset_by_index": None,
                "algorithm": None}}.get(name, {})
    if name in ("cholesky", "eigh"):  # symmetric
        m = bind("add", m, bind("transpose", m, permutation=(1, 0)))
    out = bind(name, m, **params)
    if not registry[name].multiple_results:
        return Value(out, False)
    if name == "qr":  # the signs of rows are free
        return Value(bind("abs", out[1]), False)
    return Value(out[0], False)


def _fft(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.x.dtype in (np.dtype("f4"), np.dtype("f8"), np.dtype("c8"))
               and len(v.shape) > 0 and v.shape[-1] > 0)
    if v is None:
        return None
    kind = p.one_of(["FFT", "IFFT"]) if v.kind == "c" else "RFFT"
    count = p.number(1, min(len(v.shape), 3) + 1)
    if v.kind == "c":
        if count > len(v.shape) or p.number(0, 4) == 0:
            lengths = (*v.shape[len(v.shape) - count:-1], max(0, 2 * v.shape[-1] - 2))
            return Value(bind("fft", v.x, fft_type=FftType.IRFFT, fft_lengths=lengths), False)
        x = bind("complex", _finite(bind("real", v.x)), _finite(bind("imag", v.x)))
    else:
        x = _finite(v.x)
    return Value(bind("fft", x, fft_type=FftType[kind], fft_lengths=v.shape[-count:]), False)


def _complex(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.x.dtype in (np.dtype("f4"), np.dtype("f8")))
    w = p.like(v)
    c = p.pick(lambda c: c.kind == "c")
    if c is not None and p.number(0, 2):
        name = p.one_of(["real", "imag", "conj", "neg"])
        return Value(bind(name, c.x), c.exact)
    if v is None or w is None:
        return None
    return Value(bind("complex", v.x, w.x), v.exact and w.exact)


def _from_integers(p: Pool) -> Value | None:
    """Integers of every size as float32 within (-1, 1): operands for all that wants floats."""
    v = p.pick(lambda v: v.kind in "iu" and v.exact)
    return None if v is None else Value(_finite(convert(v.x, "f4")), False)


STEPS: list[Step] = [
    _gather, _gather, _gather, _scatter, _scatter, _scatter, _sort, _sort, _top_k, _cumulative,
    _cumulative, _reduce_window, _conv, _while, _while, _integers, _integers, _bits, _clamp,
    _rounded, _smooth, _relation, _fold, _linear, _fft, _complex, _from_integers]
