"""Factors of primitives: which dimension of an operand is which dimension of a result, and which
are summed over.  One table for every use (transforms/propagate).

A row is a function of the operands' and results' avals and the parameters.  In Shardy's notation
dot_general is `([i, k], [k, j]) -> [i, j], reduced {k}`; here dimensions have tuples of numbers,
the major factor first, and () where a dimension may not be split with others.  A primitive without
a row has replicated results: never wrong, only slow.  Start reading at `_same`.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.types import Axes, Params
from calque.transforms.propagate import Rule

Avals = Sequence[ShapedArray]


def _own(a: ShapedArray) -> list[tuple[int, ...]]:
    """Each dimension is a factor."""
    return [(i,) for i in range(a.ndim)]


def _whole(avals: Avals) -> list[list[tuple[int, ...]]]:
    """Values that are not split."""
    return [[()] * a.ndim for a in avals]


def _shared(a: ShapedArray, b: ShapedArray) -> list[tuple[int, ...]]:
    """Dimensions of one size are factors, in both at the same places."""
    return [(i,) if m == n else () for i, (m, n) in enumerate(zip(a.shape, b.shape))]


def _same(ins: Avals, outs: Avals, params: Params) -> Rule:
    """Elementwise, and what keeps positions' number: ([i, j]) -> [i, j]; scalars have none."""
    rank = max(a.ndim for a in outs)
    every = [(i,) for i in range(rank)]
    return ([every if a.ndim == rank else [()] * a.ndim for a in ins],
            [every if a.ndim == rank else [()] * a.ndim for a in outs], {})


def _batch(core: int) -> Callable[..., Rule]:
    """Linear algebra: leading dimensions are a batch, `core` trailing ones are not split."""
    def row(ins: Avals, outs: Avals, params: Params) -> Rule:
        count = ins[0].ndim - core
        shape = ins[0].shape[:count]

        def dims(a: ShapedArray) -> list[Axes]:
            if a.shape[:count] != shape:
                return [()] * a.ndim
            return [(i,) if i < count else () for i in range(a.ndim)]

        return [dims(a) for a in ins], [dims(a) for a in outs], {}
    return row


def _reduced(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([i, k]) -> [i], reduced {k}"""
    every = _own(ins[0])
    kept = [d for i, d in enumerate(every) if i not in params["axes"]]
    return [every if a.ndim == ins[0].ndim else [] for a in ins], [kept for _ in outs], {}


def _transposed(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([i, j]) -> [j, i]"""
    return [_own(ins[0])], [[(i,) for i in params["permutation"]]], {}


def _broadcast(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([j]) -> [i, j]"""
    places = params["broadcast_dimensions"]
    dims = [(p,) if ins[0].shape[i] == outs[0].shape[p] else () for i, p in enumerate(places)]
    return ([dims, *_whole(ins[1:])],
            [[(i,) if (i,) in dims else () for i in range(outs[0].ndim)]], {})


def _squeezed(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([i, 1]) -> [i]"""
    gone = {d % ins[0].ndim for d in params["dimensions"]}
    dims = [() if i in gone else (i,) for i in range(ins[0].ndim)]
    return [dims], [[d for d in dims if d]], {}


def _reshaped(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([ij, k]) -> [i, jk]: dimensions fall into the factors that both sides have."""
    have, want = ins[0].shape, outs[0].shape
    if not all(isinstance(d, int) and d for d in (*have, *want)):
        return [[()] * ins[0].ndim], [[()] * outs[0].ndim], {}
    left: list[tuple[int, ...]] = []
    right: list[tuple[int, ...]] = []
    sizes: dict[int, int] = {}
    a, b = list(have), list(want)
    i = j = 0
    rest_a, rest_b = (a[0] if a else 1), (b[0] if b else 1)
    mine: list[int] = []
    yours: list[int] = []
    number = itertools.count()
    while i < len(a) or j < len(b):
        if i < len(a) and rest_a == 1:
            left.append(tuple(mine))
            mine, i = [], i + 1
            rest_a = a[i] if i < len(a) else 1
            continue
        if j < len(b) and rest_b == 1:
            right.append(tuple(yours))
            yours, j = [], j + 1
            rest_b = b[j] if j < len(b) else 1
            continue
        small, large = min(rest_a, rest_b), max(rest_a, rest_b)
        if large % small:  # no common factor: both sides' dimensions stay whole from here on
            left += [()] * (len(a) - len(left))
            right += [()] * (len(b) - len(right))
            break
        f = next(number)
        sizes[f] = small
        mine.append(f)
        yours.append(f)
        rest_a //= small
        rest_b //= small
    return [left, *_whole(ins[1:])], [right], sizes


def _product(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([b, i, k], [b, k, j]) -> [b, i, j], reduced {k}"""
    (lc, rc), (lb, rb) = params["dimension_numbers"]
    number = itertools.count()
    left: dict[int, int] = {}
    right: dict[int, int] = {}
    for p, q in (*zip(lb, rb), *zip(lc, rc)):
        left[p] = right[q] = next(number)
    for side, a in ((left, ins[0]), (right, ins[1])):
        for d in range(a.ndim):
            side.setdefault(d, next(number)) if d not in side else None
    out = [left[d] for d in lb]
    out += [left[d] for d in range(ins[0].ndim) if d not in lb and d not in lc]
    out += [right[d] for d in range(ins[1].ndim) if d not in rb and d not in rc]
    return ([[(left[d],) for d in range(ins[0].ndim)], [(right[d],) for d in range(ins[1].ndim)]],
            [[(f,) for f in out]], {})


def _convolved(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([n, c, ..], [o, c, ..]) -> [n, o, ..], reduced {c}; windows are not split"""
    numbers = params["dimension_numbers"]
    lhs, rhs, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    groups = params["feature_group_count"] != 1 or params["batch_group_count"] != 1
    factor = {"n": () if groups else (0,), "o": () if groups else (1,), "c": () if groups else (2,)}

    def dims(spec: Sequence[int], first: str, second: str) -> list[Axes]:
        return [factor[first] if d == spec[0] else factor[second] if d == spec[1] else ()
                for d in range(len(spec))]

    return [dims(lhs, "n", "c"), dims(rhs, "o", "c")], [dims(out, "n", "o")], {}


def _sliced(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([i, j]) -> [i, j'] : what is taken whole keeps its factor."""
    dims = _shared(ins[0], outs[0])
    return [dims, *_whole(ins[1:])], [dims], {}


def _gathered(ins: Avals, outs: Avals, params: Params) -> Rule:
    """Dimensions taken whole, batching dimensions and those of the indices keep their factors."""
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    operand, indices = ins[:2]
    offsets = numbers.offset_dims
    batching = tuple(getattr(numbers, "operand_batching_dims", ()))
    start_batching = tuple(getattr(numbers, "start_indices_batching_dims", ()))
    gone = {*numbers.collapsed_slice_dims, *batching}
    number = itertools.count()
    of_indices: list[tuple[int, ...]] = [*[(next(number),) for _ in range(indices.ndim - 1)], ()]
    of_operand: list[tuple[int, ...]] = [()] * operand.ndim
    for d, s in zip(batching, start_batching):
        of_operand[d] = of_indices[s]
    kept = iter([d for d in range(operand.ndim) if d not in gone])
    batch = iter(of_indices[:-1])
    result: list[tuple[int, ...]] = []
    for d in range(outs[0].ndim):
        if d in offsets:
            source = next(kept)
            if sizes[source] == operand.shape[source]:
                of_operand[source] = (next(number),)
            result.append(of_operand[source])
        else:
            result.append(next(batch))
    return [of_operand, of_indices], [result], {}


def _joined(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([i, j], [i, k]) -> [i, jk]: every dimension keeps its factor."""
    every = _own(outs[0])
    return [every for _ in ins], [every], {}


def _first(ins: Avals, outs: Avals, params: Params) -> Rule:
    """The result is split as the first operand is."""
    every = _own(ins[0])
    return [every, *_whole(ins[1:])], [every], {}


def _updated(ins: Avals, outs: Avals, params: Params) -> Rule:
    """([i, j], [i, k]) -> [i, j]: of an update what is as long as the operand has its factor."""
    every = _own(ins[0])
    dims = _shared(ins[0], ins[1])
    return [every, dims, *_whole(ins[2:])], [every], {}


def _scattered(ins: Avals, outs: Avals, params: Params) -> Rule:
    """The result is split as the operand; windows that cover a dimension, and batching dimensions,
    keep its factor."""
    numbers = params["dimension_numbers"]
    operand, indices, updates = ins
    every = _own(operand)
    batching = tuple(getattr(numbers, "operand_batching_dims", ()))
    start_batching = tuple(getattr(numbers, "scatter_indices_batching_dims", ()))
    of_indices: list[tuple[int, ...]] = [()] * indices.ndim
    for d, s in zip(batching, start_batching):
        of_indices[s] = (d,)
    gone = {*numbers.inserted_window_dims, *batching}
    kept = iter([d for d in range(operand.ndim) if d not in gone])
    batch = iter(of_indices[:-1])
    of_updates: list[tuple[int, ...]] = []
    for u in range(updates.ndim):
        if u in numbers.update_window_dims:
            d = next(kept)
            of_updates.append((d,) if updates.shape[u] == operand.shape[d] else ())
        else:
            of_updates.append(next(batch))
    return [every, of_indices, of_updates], [every], {}


_TABLE: dict[Callable[..., Rule], str] = {
    _same: (
        "abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp clz complex "
        "conj convert_element_type copy cos cosh div eq erf erf_inv erfc exp exp2 expm1 floor ge "
        "gt imag integer_pow is_finite le log log1p logistic lt max min mul ne neg nextafter not "
        "or population_count pow real rem round rsqrt select_n shift_left shift_right_arithmetic "
        "shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor "
        "bessel_i0e bessel_i1e digamma igamma igamma_grad_a igammac lgamma mulhi polygamma "
        "random_gamma_grad reduce_precision regularized_incomplete_beta zeta name "
        "cumlogsumexp cummax cummin cumprod cumsum rev sort fft random_fold_in pvary "
        "layout_constraint shard_alike "
        "preduced reduced_invary_cast reduced_vary_cast vary_unreduced_cast"),
    _reduced: ("reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor "
               "argmax argmin"),
    _transposed: "transpose", _broadcast: "broadcast_in_dim",
    _squeezed: "squeeze", _reshaped: "reshape", _product: "dot_general",
    _convolved: "conv_general_dilated", _sliced: "slice dynamic_slice", _gathered: "gather",
    _joined: "concatenate", _updated: "dynamic_update_slice",
    _scattered: "scatter scatter-add scatter-max scatter-min scatter-mul scatter-sub",
    _first: "pad top_k cholesky_update",
}
for _row, _names in _TABLE.items():
    for _name in _names.split():
        registry[_name].factors = _row
for _name in ("cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product",
              "lu", "pinv", "qr", "schur", "svd", "triangular_solve", "tridiagonal"):
    registry[_name].factors = _batch(2)
registry["dequantize"].factors = _batch(1)
registry["prefix_attention"].factors = _batch(3)


def _several(ins: Avals, outs: Avals, params: Params) -> Rule:
    """Values that have nothing to do with each other: each result is split as its operand."""
    operands, results, first = [], [], 0
    for a in ins:
        dims = [(first + i,) for i in range(a.ndim)]
        first += a.ndim
        operands.append(dims)
        results.append(dims)
    return operands, results, {}


registry["optimization_barrier"].factors = _several


def _two(ins: Avals, outs: Avals, params: Params) -> Rule:
    every = _own(ins[0])
    return [every], [every for _ in outs], {}


registry["top_k"].factors = _two
# What has no row, on purpose: the position in the whole decides (random bits, iota), windows,
# collectives (inside shard_map only), callbacks; and what is entered: calls, loops, branches.
