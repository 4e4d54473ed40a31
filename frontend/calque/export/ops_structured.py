"""How operations of StableHLO are read: reductions, gather and scatter, products, sorting, loops.

ops.py has the elementwise ones, custom_calls.py what JAX calls by name.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque import lax
from calque.core import dtypes
from calque.core.avals import dtype_of, is_complex, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.types import Axes, Params, Shape
from calque.export import regions
from calque.export.errors import UnsupportedOperationError
from calque.export.hlo import Block, Op
from calque.export.ops import _total_order
from calque.export.read import (
    Reader,
    bind,
    case,
    concrete_value,
    handles,
    integer,
    ints,
    pairs,
    static_shape,
    used,
)
from calque.export.sizes import Sizes
from calque.export.stream import damaged
from calque.lax.window import is_identity
from calque.primitives.elementwise import ge_p, le_p
from calque.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)

BOOL = np.dtype(bool)


def unsupported(op: Op, what: str, fix: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(explain(f"{op.name}: {what}", where="deserialize", fix=fix))


# ---- reductions
_REDUCE = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "and": "and",
           "or": "or", "xor": "xor"}
_FOLDS = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min", "and": "and",
          "or": "or", "xor": "xor"}


def _is_identity(fold: str, start: Any) -> bool:
    value = concrete_value(start)
    return value is not None and not value.ndim and is_identity(_FOLDS[fold], value)


@handles("reduce")
def _reduce(r: Reader, op: Op, xs: list[Any]) -> Any:
    n = len(xs) // 2
    operands, starts, axes = xs[:n], xs[n:], ints(op, "dimensions")
    body = op.regions[0]
    fold = regions.fold_of(body) if n == 1 else ""
    if fold in _REDUCE:
        return _folded(operands[0], starts[0], axes, fold)
    which = regions.arg_of(body) if n == 2 and len(axes) == 1 else ""
    if which and _is_positions(r, op, axes[0]) and not np.any(concrete_value(starts[1])):
        x = used(operands[0])
        if shape_of(x)[axes[0]]:
            at = bind(which, x, axes=axes, index_dtype=op.results[1].dtype)
            return [bind(f"reduce_{which[3:]}", x, axes=axes, out_sharding=None), at]
    combine = r.function(body)
    made = lax.reduce(tuple(map(used, operands)), tuple(map(used, starts)),
                      lambda a, b: tuple(combine(*a, *b)), axes)
    return list(made)


def _is_positions(r: Reader, op: Op, axis: int) -> bool:
    """Whether the second operand is the position on the axis."""
    maker = r.makers.get(op.operands[1])
    return maker is not None and maker.name == "iota" and integer(
        maker, "iota_dimension") == axis and op.results[1].dtype.kind == "i"


def _folded(x: Any, start: Any, axes: Axes, fold: str) -> Any:
    x, dtype = used(x), dtype_of(x)
    if dtype == BOOL:
        fold = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}.get(fold, fold)
    made = bind(f"reduce_{_REDUCE[fold]}", x, axes=tuple(sorted(axes)), out_sharding=None) \
        if axes else x
    if _is_identity(fold, start):
        return made
    shape = shape_of(made)
    return bind(_FOLDS[fold], made, lax.broadcast_in_dim(used(start), shape, ()))


_CUMULATIVE = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}


@handles("reduce_window")
def _reduce_window(r: Reader, op: Op, xs: list[Any]) -> Any:
    window = {name: ints(op, k) for name, k in (
        ("window_dimensions", "window_dimensions"), ("window_strides", "window_strides"),
        ("base_dilation", "base_dilations"), ("window_dilation", "window_dilations"))}
    return windows(r, op.regions[0], xs, {**window, "padding": pairs(op, "padding")})


def windows(r: Reader, body: Block, xs: list[Any], window: Params) -> Any:
    """Operands and their start values, folded over windows."""
    n = len(xs) // 2
    fold = regions.fold_of(body) if n == 1 else ""
    plain = set(window["window_strides"]) | set(window["base_dilation"]) | set(
        window["window_dilation"]) <= {1}
    if fold in _CUMULATIVE and plain and _is_identity(fold, xs[1]) and (
            dtype_of(xs[0]) != BOOL):
        made = _cumulative(xs[0], fold, window["window_dimensions"], window["padding"])
        if made is not None:
            return made
    rest = [window[k] for k in ("window_dimensions", "window_strides", "padding", "base_dilation",
                                "window_dilation")]
    if fold in _FOLDS:
        f = getattr(lax, {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}.get(
            fold, _FOLDS[fold]))
        return lax.reduce_window(used(xs[0]), used(xs[1]), f, *rest)
    picked = _picked_windows(body, xs, window) if n == 2 else None
    if picked is not None:
        return picked
    combine = r.function(body)
    made = lax.reduce_window(tuple(map(used, xs[:n])), tuple(map(used, xs[n:])),
                             lambda a, b: tuple(combine(*a, *b)), *rest)
    return list(made) if isinstance(made, tuple | list) else made


_PICKED = "v4=compare(a0,a2){%s %s}; v5=select(v4,a0,a2); v6=select(v4,a1,a3); =return(v5,v6)"


def _picked_windows(body: Block, xs: list[Any], window: Params) -> Any:
    """The element of each window that is largest, and what goes with it, as JAX writes it."""
    text = regions.text_of(body)
    for direction, prim, extreme in (("GE", ge_p, "max"), ("LE", le_p, "min")):
        if text in [_PICKED % (kind, direction) for kind in ("FLOAT", "SIGNED", "UNSIGNED")]:
            return [bind(f"reduce_window_{extreme}", xs[0], **window),
                    bind("select_and_gather_add", xs[1], xs[0], select_prim=prim, **window)]
    return None


def _cumulative(x: Any, fold: str, sizes: Shape, padding: Any) -> Any:
    shape = shape_of(x)
    axes = [i for i, n in enumerate(sizes) if n != 1]
    if len(axes) != 1 or any(padding[i] != (0, 0) for i in range(len(shape)) if i != axes[0]):
        return None
    (axis,) = axes
    n = shape[axis]
    if sizes[axis] != n or padding[axis] not in ((n - 1, 0), (0, n - 1)):
        return None
    return bind(_CUMULATIVE[fold], x, axis=axis, reverse=padding[axis] == (0, n - 1))


@handles("select_and_scatter")
def _select_and_scatter(r: Reader, op: Op, xs: list[Any]) -> Any:
    x, source, start = xs
    name, fold = regions.picks(op.regions[0]), regions.fold_of(op.regions[1])
    if not name or fold != "add" or not _is_identity("add", start):
        raise unsupported(op, "only sums at the largest or smallest elements can be read.",
                          "export the derivative of reduce_window with max or min.")
    return bind("select_and_scatter_add", source, x, select_prim=ge_p if name == "ge" else le_p,
                window_dimensions=ints(op, "window_dimensions"),
                window_strides=ints(op, "window_strides"), padding=pairs(op, "padding"))


# ---- slices, gather, scatter
@handles("dynamic_slice")
def _dynamic_slice(r: Reader, op: Op, xs: list[Any]) -> Any:
    return bind("dynamic_slice", *xs, slice_sizes=ints(op, "slice_sizes"))


@handles("dynamic_update_slice")
def _dynamic_update(r: Reader, op: Op, xs: list[Any]) -> Any:
    return bind("dynamic_update_slice", *xs)


def _vectors_last(indices: Any, axis: int) -> Any:
    """Index vectors along the last axis; indices without such an axis get one."""
    shape = shape_of(indices)
    if axis == len(shape):
        return lax.reshape(used(indices), (*shape, 1))
    if axis == len(shape) - 1:
        return used(indices)
    return lax.transpose(used(indices), [i for i in range(len(shape)) if i != axis] + [axis])


@handles("gather", "dynamic_gather")
def _gather(r: Reader, op: Op, xs: list[Any]) -> Any:
    x, indices = xs[:2]
    if op.name == "gather":
        sizes = ints(op, "slice_sizes")
    else:
        value = concrete_value(xs[2])
        if value is None and not isinstance(xs[2], Sizes):
            raise unsupported(op, "windows of unknown size cannot be read.",
                              "export with other shapes.")
        sizes = tuple(map(int, value)) if value is not None else xs[2].tuple()
    has = op.attributes
    numbers = GatherDimensionNumbers(
        ints(op, "offset_dims"), ints(op, "collapsed_slice_dims"), ints(op, "start_index_map"),
        ints(op, "operand_batching_dims") if "operand_batching_dims" in has else (),
        ints(op, "start_indices_batching_dims") if "start_indices_batching_dims" in has else ())
    return bind("gather", x, _vectors_last(indices, integer(op, "index_vector_dim")),
                dimension_numbers=numbers, slice_sizes=sizes, mode=GatherScatterMode.CLIP,
                indices_are_sorted=False, unique_indices=False, fill_value=None)


_SCATTER = {"second": "scatter", "add": "scatter-add", "subtract": "scatter-sub",
            "multiply": "scatter-mul", "maximum": "scatter-max", "minimum": "scatter-min"}


@handles("scatter")
def _scatter(r: Reader, op: Op, xs: list[Any]) -> Any:
    fold = regions.fold_of(op.regions[0])
    if len(xs) != 3 or fold not in _SCATTER:
        raise unsupported(op, "only updates that replace, add, subtract, multiply or take the "
                          "larger or smaller can be read.", "write the update as one of these.")
    x, indices, updates = xs
    has = op.attributes
    numbers = ScatterDimensionNumbers(
        ints(op, "update_window_dims"), ints(op, "inserted_window_dims"),
        ints(op, "scatter_dims_to_operand_dims"),
        ints(op, "input_batching_dims") if "input_batching_dims" in has else (),
        ints(op, "scatter_indices_batching_dims") if "scatter_indices_batching_dims" in has
        else ())
    name = _SCATTER[fold]
    if dtype_of(x) == BOOL:
        name = {"scatter-add": "scatter-max", "scatter-mul": "scatter-min"}.get(name, name)
    return bind(name, x, _vectors_last(indices, integer(op, "index_vector_dim")), updates,
                dimension_numbers=numbers, mode=GatherScatterMode.FILL_OR_DROP,
                indices_are_sorted=False, unique_indices=False, update_jaxpr=None,
                update_consts=())


# ---- products
def _precision(op: Op) -> Any:
    found = op.attributes.get("precision_config", ())
    names = [e.case for e in found] if isinstance(found, tuple) else []
    if not names or set(names) == {"DEFAULT"}:
        return None
    return tuple(lax.Precision[n] for n in names)


@handles("dot_general")
def _dot(r: Reader, op: Op, xs: list[Any]) -> Any:
    numbers = ((ints(op, "lhs_contracting_dimensions"), ints(op, "rhs_contracting_dimensions")),
               (ints(op, "lhs_batching_dimensions"), ints(op, "rhs_batching_dimensions")))
    dtype = op.results[0].dtype
    same = dtype_of(xs[0]) == dtype_of(xs[1]) == dtype
    return bind("dot_general", *xs, dimension_numbers=numbers, precision=_precision(op),
                preferred_element_type=None if same else dtype, out_sharding=None)


@handles("convolution")
def _convolution(r: Reader, op: Op, xs: list[Any]) -> Any:
    x, y = xs
    spatial = ints(op, "kernel_spatial_dimensions")
    flipped = [d for d, back in zip(spatial, op.attributes["window_reversal"].tolist(),
                                    strict=True) if back]
    if flipped:
        y = lax.rev(used(y), flipped)
    numbers = lax.ConvDimensionNumbers(*(
        (integer(op, f"{name}_{first}_dimension"), integer(op, f"{name}_{second}_dimension"),
         *ints(op, f"{name}_spatial_dimensions"))
        for name, first, second in (("input", "batch", "feature"),
                                    ("kernel", "output_feature", "input_feature"),
                                    ("output", "batch", "feature"))))
    dtype = op.results[0].dtype
    same = dtype_of(x) == dtype_of(y) == dtype
    return bind("conv_general_dilated", x, y, window_strides=ints(op, "window_strides"),
                padding=pairs(op, "padding"), lhs_dilation=ints(op, "lhs_dilation"),
                rhs_dilation=ints(op, "rhs_dilation"), dimension_numbers=numbers,
                feature_group_count=integer(op, "feature_group_count"),
                batch_group_count=integer(op, "batch_group_count"), precision=_precision(op),
                preferred_element_type=None if same else dtype, out_sharding=None)


@handles("fft")
def _fft(r: Reader, op: Op, xs: list[Any]) -> Any:
    return bind("fft", *xs, fft_type=lax.FftType[case(op, "fft_type")],
                fft_lengths=ints(op, "fft_length"))


@handles("rng_bit_generator")
def _bits(r: Reader, op: Op, xs: list[Any]) -> Any:
    algorithm = lax.RandomAlgorithm[{"DEFAULT": "RNG_DEFAULT", "THREE_FRY": "RNG_THREE_FRY",
                                     "PHILOX": "RNG_PHILOX"}[case(op, "rng_algorithm")]]
    return list(bind("rng_bit_generator", *xs, shape=static_shape(op, 1),
                     dtype=op.results[1].dtype, algorithm=algorithm, out_sharding=None))


# ---- sorting
@handles("sort")
def _sort(r: Reader, op: Op, xs: list[Any]) -> Any:
    keys = regions.order_of(op.regions[0])
    axis, xs = integer(op, "dimension"), [used(x) for x in xs]
    if keys is None or any(k.operand >= len(xs) for k in keys):
        raise unsupported(op, "a comparison of this form cannot be read.",
                          "sort by keys in ascending or descending order.")
    if len(keys) == 1 and (k := _top_k_axis(r, op, keys[0])) is not None:
        return list(bind("top_k", xs[0], k=k, axis=axis))
    whole = _whole_keys(keys, xs)
    if whole is not None:
        return list(bind("sort", *xs, dimension=axis, is_stable=True, num_keys=whole))
    derived = [_derived(k, xs[k.operand]) for k in keys]
    made = bind("sort", *derived, *xs, dimension=axis, is_stable=True, num_keys=len(derived))
    return list(made)[len(derived):]


def _top_k_axis(r: Reader, op: Op, key: regions.Key) -> int | None:
    """The length of the axis, if this is the sort by which top_k is written."""
    maker = r.makers.get(op.operands[1]) if len(op.operands) == 2 else None
    axis = integer(op, "dimension")
    if maker is None or maker.name != "iota" or integer(maker, "iota_dimension") != axis:
        return None
    x = op.operands[0].type
    ok = key.operand == 0 and key.descending and (key.total or dtypes.is_whole(x.dtype))
    return x.shape[axis] if ok and op.operands[1].dtype == np.dtype("i4") else None


def _whole_keys(keys: list[regions.Key], xs: list[Any]) -> int | None:
    """How many first operands are the keys, as the primitive orders them; None otherwise."""
    expected: list[tuple[int, str]] = []
    count = 0
    while len(expected) < len(keys) and count < len(xs):
        parts = ("re", "im") if is_complex(xs[count]) else ("",)
        expected += [(count, p) for p in parts]
        count += 1
    found = [(k.operand, k.part) for k in keys]
    usual = all(not k.descending and (k.plain or not k.total) for k in keys)
    return count if found == expected and usual else None


def _derived(key: regions.Key, x: Any) -> Any:
    """An operand whose ascending order is the key's."""
    if key.part:
        x = bind({"re": "real", "im": "imag"}[key.part], x)
    dtype = dtype_of(x)
    if dtypes.is_float(dtype) and (key.total and not key.plain or key.descending):
        x = _total_order(x)
    if not key.descending:
        return x
    return bind("not", x)


# ---- linear algebra
@handles("cholesky")
def _cholesky(r: Reader, op: Op, xs: list[Any]) -> Any:
    (x,) = xs
    if op.attributes["lower"]:
        return bind("cholesky", x)
    from calque.lax.linalg import cholesky
    adjoint = lax.conj(x) if is_complex(x) else used(x)
    order = list(range(ndim_of(x)))
    order[-2:] = order[:-3:-1]
    made = cholesky(lax.transpose(adjoint, order), symmetrize_input=False)
    made = lax.transpose(made, order)
    return lax.conj(made) if is_complex(made) else made


@handles("triangular_solve")
def _triangular(r: Reader, op: Op, xs: list[Any]) -> Any:
    kind = case(op, "transpose_a")
    return bind("triangular_solve", *xs, left_side=bool(op.attributes["left_side"]),
                lower=bool(op.attributes["lower"]), transpose_a=kind in ("TRANSPOSE", "ADJOINT"),
                conjugate_a=kind == "ADJOINT",
                unit_diagonal=bool(op.attributes["unit_diagonal"]))


# ---- branches and loops
@handles("case", "if")
def _case(r: Reader, op: Op, xs: list[Any]) -> Any:
    branches = [r.function(block) for block in op.regions]
    index = concrete_value(xs[0])
    if op.name == "if":
        branches.reverse()  # false is 0
    if not branches:
        raise damaged("a choice without branches")
    n = len(branches)
    if index is not None:
        i = int(index)
        return branches[i if 0 <= i < n else n - 1]()
    if n == 1:
        return branches[0]()
    at = used(xs[0])
    if op.name == "if":
        at = lax.convert_element_type(at, np.int32)
    else:  # what is no branch is the last one
        out = lax.bitwise_or(lax.lt(at, np.int32(0)), lax.ge(at, np.int32(n)))
        at = lax.select(out, np.int32(n - 1), at)
    return list(lax.switch(at, [lambda f=f: tuple(map(used, f())) for f in branches]))


@handles("while")
def _while(r: Reader, op: Op, xs: list[Any]) -> Any:
    go, step = (r.function(block) for block in op.regions)
    made = lax.while_loop(lambda s: go(*s)[0], lambda s: tuple(map(used, step(*s))),
                          tuple(map(used, xs)))
    return list(made)


@handles("map")
def _map(r: Reader, op: Op, xs: list[Any]) -> Any:
    f = r.function(op.regions[0])
    shape = shape_of(xs[0])
    import calque
    flat = calque.vmap(lambda *v: f(*v)[0])(*[lax.reshape(used(x), (-1,)) for x in xs])
    return lax.reshape(flat, shape)
