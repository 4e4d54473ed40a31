"""The portable forms of primitives: gather and scatter, products, windows, sorting, linear algebra,
loops and calls.  forms.py has the elementwise ones.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.dims import Dim, is_static
from calque.core.errors import explain
from calque.core.lists import split_list, types_of
from calque.core.program import Program
from calque.core.types import Params, Shape
from calque.export.build import ints, number
from calque.export.forms import BOOL, I32, extremum, reduced
from calque.export.hlo import Enum
from calque.export.write import Use, Writer, rule
from calque.lowering.emit.builder import Value
from calque.primitives.contract import _common
from calque.primitives.scatter import window_sizes


def _scalars(indices: Sequence[Value]) -> list[Value]:
    """Start indices of one dtype."""
    if len({v.dtype for v in indices}) < 2:
        return list(indices)
    wide = np.dtype("i8") if any(v.dtype.itemsize == 8 for v in indices) else I32
    return [v.astype(wide) for v in indices]


@rule("dynamic_slice")
def _dynamic_slice(use: Use) -> Value:
    x, *starts = use.operands
    if not x.shape:
        return x
    starts, sizes = _scalars(starts), use.out.shape
    return use.w.rows(x, starts, sizes)


@rule("dynamic_update_slice")
def _dynamic_update(use: Use) -> Value:
    x, update, *starts = use.operands
    if not x.shape:
        return update
    starts = _scalars(starts)
    starts += [use.b.splat(0, (), starts[0].dtype if starts else I32)] * (
        len(x.shape) - len(starts))
    return use.b.one("dynamic_update_slice", [x, update, *starts], x.shape, x.dtype)


# ---- gather and scatter
def _inside(w: Writer, indices: Value, limits: Sequence[int]) -> Value:
    """For each index vector whether its window lies inside."""
    b, batch = w.b, indices.shape[:-1]
    inside = b.splat(True, batch, BOOL)
    for k, limit in enumerate(limits):
        first = [0] * len(batch)
        column = b.reshape(b.slice(indices, [*first, k], [*batch, k + 1]), batch)
        if isinstance(limit, Dim):
            largest = b.number(limit, indices.dtype)
        else:
            largest = b.splat(min(limit, dtypes.iinfo(indices.dtype).max), (), indices.dtype)
        inside = inside & (column <= largest)
        if dtypes.is_signed(indices.dtype):
            inside = inside & (column >= 0)
    return inside


def _clamped(w: Writer, indices: Value, limits: Sequence[int]) -> Value:
    b, info = w.b, dtypes.iinfo(indices.dtype)
    if not limits:
        return indices
    if is_static(limits):
        tops = b.constant(np.minimum(np.array(limits, "i8"), info.max).astype(indices.dtype))
    else:
        tops = b.vector(limits).astype(indices.dtype)
    top = b.broadcast(tops, indices.shape, [len(indices.shape) - 1])
    return b.minimum(b.maximum(indices, b.like(indices, 0)), top)


@rule("gather")
def _gather(use: Use) -> Value:
    b, (x, indices), out = use.b, use.operands, use.out
    d, sizes = use["dimension_numbers"], use["slice_sizes"]
    fixed = is_static(sizes)
    found = b.one(
        "gather" if fixed else "dynamic_gather", [x, indices] if fixed else [
            x, indices, b.vector(sizes)], out.shape, out.dtype, offset_dims=ints(d.offset_dims),
        collapsed_slice_dims=ints(d.collapsed_slice_dims), start_index_map=ints(d.start_index_map),
        operand_batching_dims=ints(d.operand_batching_dims),
        start_indices_batching_dims=ints(d.start_indices_batching_dims),
        index_vector_dim=number(len(indices.shape) - 1),
        indices_are_sorted=bool(use["indices_are_sorted"]),
        **({"slice_sizes": ints(sizes)} if fixed else {}))
    if use["mode"].name != "FILL_OR_DROP":
        return found
    inside = _inside(use.w, indices, [x.shape[a] - sizes[a] for a in d.start_index_map])
    places = [i for i in range(len(out.shape)) if i not in d.offset_dims]
    fill = 0 if use["fill_value"] is None else use["fill_value"]
    return b.select(b.broadcast(inside, out.shape, places), found,
                    b.splat(fill, out.shape, out.dtype))


@rule("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
def _scatter(use: Use) -> Value:
    b, (x, indices, updates), d = use.b, use.operands, use["dimension_numbers"]
    kind = use.w.equation.name.removeprefix("scatter").removeprefix("-")
    if use["mode"].name == "CLIP":
        sizes = window_sizes(x.shape, d, updates.shape)
        indices = _clamped(
            use.w, indices, [x.shape[a] - sizes[a] for a in d.scatter_dims_to_operand_dims])
    op = {"add": "add", "sub": "subtract", "mul": "multiply"}.get(kind, "")

    def body(old: Value, new: Value) -> Value:
        if not kind:
            return new
        return b.binary(op, old, new) if op else extremum(b, kind, old, new)

    scalar = ((), x.dtype)
    return b.make(
        "scatter", [x, indices, updates], [(x.shape, x.dtype)], [b.region([scalar, scalar], body)],
        update_window_dims=ints(d.update_window_dims),
        inserted_window_dims=ints(d.inserted_window_dims),
        input_batching_dims=ints(d.operand_batching_dims),
        scatter_indices_batching_dims=ints(d.scatter_indices_batching_dims),
        scatter_dims_to_operand_dims=ints(d.scatter_dims_to_operand_dims),
        index_vector_dim=number(len(indices.shape) - 1),
        indices_are_sorted=bool(use["indices_are_sorted"]),
        unique_indices=bool(use["unique_indices"]))[0]


# ---- products
def _precision(params: Params) -> tuple[Enum, Enum]:
    given = params.get("precision")
    pair = given if isinstance(given, tuple) else (given, given)
    names = [getattr(p, "name", "DEFAULT") for p in pair]
    first, second = (n if n in ("HIGH", "HIGHEST") else "DEFAULT" for n in names)
    return Enum("precision", first), Enum("precision", second)


def _in_common(x: Value, y: Value) -> tuple[Value, Value]:
    """Operands in the dtype that they have in common."""
    common = x.dtype if x.dtype == y.dtype else _common(x.dtype, y.dtype)
    return x.astype(common), y.astype(common)


@rule("dot_general")
def _dot(use: Use) -> Value:
    b, (x, y), out = use.b, use.operands, use.out
    x, y = _in_common(x, y)
    (xc, yc), (xb, yb) = use["dimension_numbers"]
    dtype = out.dtype
    if x.dtype == BOOL and dtype != BOOL or x.dtype.kind == "c" != dtype.kind:
        dtype = x.dtype if dtype == BOOL else dtype
        x, y = x.astype(dtype), y.astype(dtype)
    made = b.one("dot_general", [x, y], out.shape, dtype, lhs_batching_dimensions=ints(xb),
                 rhs_batching_dimensions=ints(yb), lhs_contracting_dimensions=ints(xc),
                 rhs_contracting_dimensions=ints(yc), precision_config=_precision(use.params))
    return made if dtype == out.dtype else made.astype(out.dtype)


@rule("conv_general_dilated")
def _conv(use: Use) -> Value:
    b, (x, y), dn = use.b, use.operands, use["dimension_numbers"]
    x, y = _in_common(x, y)
    spatial = len(x.shape) - 2
    places: dict[str, Any] = {}
    for name, spec, first, second in (
            ("input", dn.lhs_spec, "batch", "feature"),
            ("kernel", dn.rhs_spec, "output_feature", "input_feature"),
            ("output", dn.out_spec, "batch", "feature")):
        places[f"{name}_{first}_dimension"] = number(spec[0])
        places[f"{name}_{second}_dimension"] = number(spec[1])
        places[f"{name}_spatial_dimensions"] = ints(spec[2:])
    return b.one(
        "convolution", [x, y], use.out.shape, use.out.dtype,
        window_strides=ints(use["window_strides"]),
        padding=np.array(use["padding"], "i8").reshape(spatial, 2),
        lhs_dilation=ints(use["lhs_dilation"]), rhs_dilation=ints(use["rhs_dilation"]),
        window_reversal=np.zeros(spatial, bool),
        feature_group_count=number(use["feature_group_count"]),
        batch_group_count=number(use["batch_group_count"]),
        precision_config=_precision(use.params), **places)


@rule("fft")
def _fft(use: Use) -> Value:
    x, out = use.x, use.out
    if 0 in x.shape or 0 in out.shape:
        return use.b.splat(0, out.shape, out.dtype)
    return use.b.one("fft", use.operands, out.shape, out.dtype, fft_length=ints(use["fft_lengths"]),
                   fft_type=Enum("fft_type", use["fft_type"].name))


@rule("fft_axis")
def _fft_axis(use: Use) -> list[Value]:
    """Of parts, along one axis, which comes last for it."""
    b, kind, axis = use.b, use["kind"], use["axis"]
    x = use.operands[0] if kind == "RFFT" else b.complex(*use.operands)
    order = list(range(x.ndim))
    order[axis], order[-1] = order[-1], order[axis]
    x = b.transpose(x, order)
    n, dtype = use["n"], use.outs[0].dtype
    if kind != "IRFFT":
        dtype = dtypes.complex_dtype(dtype)
    last = {"RFFT": n // 2 + 1, "IRFFT": n}.get(kind, x.shape[-1])
    made = b.transpose(b.one("fft", [x], (*x.shape[:-1], last), dtype, fft_length=ints([n]),
                             fft_type=Enum("fft_type", kind)), order)
    return [made] if kind == "IRFFT" else [b.real(made), b.imag(made)]


# ---- windows
def _window(params: Params) -> dict[str, Any]:
    n = len(params["window_dimensions"])
    ones = (1,) * n
    return {"window_dimensions": ints(params["window_dimensions"]),
            "window_strides": ints(params["window_strides"]),
            "base_dilations": ints(params.get("base_dilation", ones)),
            "window_dilations": ints(params.get("window_dilation", ones)),
            "padding": np.array(params["padding"], "i8").reshape(n, 2)}


def _windows(name: str) -> None:
    @rule(f"reduce_window_{name}")
    def emit(use: Use) -> Value:
        b, x = use.b, use.x
        start = 0 if name == "sum" else dtypes.extreme(x.dtype, largest=name == "min")

        def body(p: Value, q: Value) -> Value:
            if name == "sum":
                return p | q if x.dtype == BOOL else p + q
            return extremum(b, name, p, q)

        return b.make("reduce_window", [x, b.splat(start, (), x.dtype)],
                      [(use.out.shape, x.dtype)], [b.region([((), x.dtype)] * 2, body)],
                      **_window(use.params))[0]


for _name in ("sum", "max", "min"):
    _windows(_name)


def _chosen(w: Writer, t: Value, x: Value, params: Params, shape: Shape,
            none: Any) -> Value:
    """Of t what goes with the first element of each window of x that no other beats."""
    b = w.b
    largest = params["select_prim"].name == "ge"
    there = b.splat(1, x.shape, I32)
    kinds = (x.dtype, t.dtype, I32)
    values = (dtypes.extreme(x.dtype, not largest), none, 0)
    starts = [b.splat(v, (), d) for v, d in zip(values, kinds)]

    def body(p: Value, tp: Value, np_: Value, q: Value, tq: Value, nq: Value) -> list[Value]:
        stays = (b.compare("GE" if largest else "LE", p, q) & np_.ne(0)) | nq.eq(0)
        return [b.select(stays, p, q), b.select(stays, tp, tq), b.select(stays, np_, nq)]

    return b.make("reduce_window", [x, t, there, *starts], [(shape, d) for d in kinds],
                  [b.region([((), d) for d in (*kinds, *kinds)], body)], **_window(params))[1]


@rule("select_and_gather_add")
def _select_and_gather(use: Use) -> Value:
    t, x = use.operands
    return _chosen(use.w, t, x, use.params, use.out.shape, 0)


@rule("select_and_scatter_add")
def _select_and_scatter(use: Use) -> Value:
    b, (source, x) = use.b, use.operands
    if any(n != 1 for k in ("base_dilation", "window_dilation") for n in use.params.get(k, ())):
        return _scattered(use.w, source, x, use.params)
    if source.dtype.kind == "c":
        parts = (b.real(source), b.imag(source))
        return b.complex(*[_picked(use.w, part, x, use.params) for part in parts])
    return _picked(use.w, source, x, use.params)


def _scattered(w: Writer, source: Value, x: Value, params: Params) -> Value:
    """With dilated windows: the position that each window takes, then a scatter."""
    b, size = w.b, math.prod(x.shape)
    positions = b.reshape(b.iota((size,), I32, 0), x.shape)
    found = _chosen(w, positions, x, params, source.shape, -1)
    count = math.prod(source.shape)
    empty, scalar = b.splat(0, (size,), source.dtype), ((), source.dtype)
    made = b.make(
        "scatter", [empty, b.reshape(found, (count, 1)), b.reshape(source, (count,))],
        [((size,), source.dtype)], [b.region([scalar, scalar], lambda p, q: p + q)],
        update_window_dims=ints(()), inserted_window_dims=ints((0,)),
        input_batching_dims=ints(()), scatter_indices_batching_dims=ints(()),
        scatter_dims_to_operand_dims=ints((0,)), index_vector_dim=number(1),
        indices_are_sorted=False, unique_indices=False)[0]
    return b.reshape(made, x.shape)


def _picked(w: Writer, source: Value, x: Value, params: Params) -> Value:
    b, of = w.b, source.dtype
    if of != x.dtype:
        x = x.astype(of) if of.itemsize >= x.dtype.itemsize else x
        source = source.astype(x.dtype)
    direction = params["select_prim"].name.upper()
    scalars = [((), x.dtype)] * 2
    window = _window(params)
    made = b.make(
        "select_and_scatter", [x, source, b.splat(0, (), x.dtype)], [(x.shape, x.dtype)],
        [b.region(scalars, lambda p, q: b.compare(direction, p, q)),
         b.region(scalars, lambda p, q: p + q)],
        **{k: window[k] for k in ("window_dimensions", "window_strides", "padding")})[0]
    return made.astype(of)


# ---- sorting
def _sorting_keys(w: Writer, x: Value) -> Value:
    """A float with one zero and one NaN."""
    b = w.b
    x = b.select(x.eq(0), b.like(x, 0), x)
    return b.select(b.isnan(x), b.like(x, np.nan), x)


def _before(w: Writer, x: Value, y: Value, descending: bool = False) -> tuple[Value, Value]:
    """x before y, x the same as y.

    Ascending floats have one zero and one NaN, which is last; descending ones (of top_k) are in
    total order, NaN by its sign.
    """
    b = w.b
    if x.dtype.kind == "c":
        less, same = _before(w, b.real(x), b.real(y), descending)
        less_im, same_im = _before(w, b.imag(x), b.imag(y), descending)
        return less | (same & less_im), same & same_im
    if x.dtype in dtypes.SMALL_FLOATS:  # NaN of fnuz types has the bits of -0
        x, y = x.astype(np.float32), y.astype(np.float32)
    kind = "TOTALORDER" if dtypes.is_float(x.dtype) else ""
    if kind and not descending:
        x, y = _sorting_keys(w, x), _sorting_keys(w, y)
    return b.compare("GT" if descending else "LT", x, y, kind), b.compare("EQ", x, y, kind)


def _sorted(w: Writer, xs: Sequence[Value], axis: int, keys: int,
            descending: bool = False) -> list[Value]:
    b = w.b

    def body(*pairs: Value) -> Value:
        result = None
        for i in reversed(range(keys)):
            less, same = _before(w, pairs[2 * i], pairs[2 * i + 1], descending)
            result = less if result is None else less | (same & result)
        assert result is not None
        return result

    scalars = [((), x.dtype) for x in xs for _ in (0, 1)]
    return b.make("sort", xs, types_of(xs), [b.region(scalars, body)],
                  dimension=number(axis), is_stable=True)


@rule("sort")
def _sort(use: Use) -> list[Value]:
    return _sorted(use.w, use.operands, use["dimension"], use["num_keys"])


@rule("top_k")
def _top_k(use: Use) -> list[Value]:
    b, x, axis = use.b, use.x, use["axis"]
    made = _sorted(use.w, [x, b.iota(x.shape, I32, axis)], axis, 1, descending=True)
    return [b.slice(v, [0] * len(x.shape), use.out.shape) for v in made]


# ---- linear algebra that StableHLO has
@rule("cholesky")
def _cholesky(use: Use) -> Value:
    b, x = use.b, use.x
    made = b.one("cholesky", use.operands, x.shape, x.dtype, lower=True)
    n = len(x.shape)
    kept = b.compare("GE", b.iota(x.shape, I32, n - 2), b.iota(x.shape, I32, n - 1))
    return b.select(kept, made, b.like(x, 0))


@rule("triangular_solve")
def _triangular(use: Use) -> Value:
    b, (a, y) = use.b, use.operands
    transpose, conjugate = use["transpose_a"], use["conjugate_a"]
    if conjugate and not transpose and a.dtype.kind == "c":
        a = b.complex(b.real(a), -b.imag(a))
    kind = ("ADJOINT" if conjugate else "TRANSPOSE") if transpose else "NO_TRANSPOSE"
    return b.one("triangular_solve", [a, y], y.shape, y.dtype, left_side=bool(use["left_side"]),
                 lower=bool(use["lower"]), unit_diagonal=bool(use["unit_diagonal"]),
                 transpose_a=Enum("transpose", kind))


# ---- calls, branches, loops
@rule("jit")
def _jit(use: Use) -> list[Value]:
    return use.w.call(use["jaxpr"], use.operands, use["name"])


@rule("checkpoint")
def _checkpoint(use: Use) -> list[Value]:
    xs = use.operands
    if use.params.get("differentiated") and use.params.get("prevent_cse") and xs:
        xs = use.b.optimization_barrier(*xs)
    return use.w.program(use["jaxpr"], xs)


@rule("optimization_barrier")
def _barrier(use: Use) -> list[Value]:
    return use.b.optimization_barrier(*use.operands)


@rule("custom_linear_solve")
def _linear_solve(use: Use) -> list[Value]:
    counts, xs = use["counts"], use.operands
    first, end = sum(counts[:2]), sum(counts)
    return use.w.program(use["solve"], [*xs[first:first + counts[2]], *xs[end:]])


@rule("custom_lin")
def _linear(use: Use) -> list[Value]:
    raise TypeError(explain(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function.",
        where=str(use.w.equation.source),
        fix="use reverse mode (grad, vjp), or give the function a custom_jvp rule instead."))


@rule("pure_callback", "io_callback", "debug_callback")
def _callback(use: Use) -> list[Value]:
    raise NotImplementedError(explain(
        f"{use.w.equation.name}: serialization of host_callbacks is not yet implemented.",
        where=str(use.w.equation.source), fix="export the parts before and after the callback."))


@rule("ffi_call")
def _ffi_call(use: Use) -> list[Value]:
    if use["plain"] is not None:
        return use.w.program(use["plain"], use.operands)
    raise NotImplementedError(explain(
        f"ffi_call: the kernel {use['kernels'].name!r} is code of one platform and cannot be "
        "exported.", where=str(use.w.equation.source),
        fix="make an artifact (calque.aot), which holds kernels, or register a function with "
            "platform='default', which is exported instead."))


@rule("cond")
def _cond(use: Use) -> list[Value]:
    b, (index, *operands) = use.b, use.operands
    branches: tuple[Program, ...] = use["branches"]
    if len(branches) == 1:
        return use.w.program(branches[0], operands)
    regions = [b.region([], lambda p=p: use.w.program(p, operands)) for p in branches]
    index = b.minimum(b.maximum(index.astype(I32), 0), len(branches) - 1)
    return b.make("case", [index], types_of(use.outs), regions)


@rule("while")
def _while(use: Use) -> list[Value]:
    before, inside, state = split_list(use.operands, use["cond_nconsts"], use["body_nconsts"])
    each = bool(use["cond_jaxpr"].out_avals[0].shape)  # one predicate per element of a batch

    def go(vs: list[Value]) -> Value:
        (pred,) = use.w.program(use["cond_jaxpr"], [*before, *vs])
        if not each:
            return pred
        return reduced(use.w, [pred], [False], range(len(pred.shape)), lambda p, q: p | q)[0]

    def step(vs: list[Value]) -> list[Value]:
        new = use.w.program(use["body_jaxpr"], [*inside, *vs])
        if not each:
            return new
        (pred,) = use.w.program(use["cond_jaxpr"], [*before, *vs])
        return [use.b.select(use.b.broadcast(pred, o.shape, range(len(pred.shape))), v, o)
                for v, o in zip(new, vs)]

    return _looped(use.w, state, go, step)


def _looped(w: Writer, state: list[Value], go: Any, step: Any) -> list[Value]:
    specs = types_of(state)
    regions = [w.b.region(specs, lambda *vs: go(list(vs))),
               w.b.region(specs, lambda *vs: step(list(vs)))]
    return w.b.make("while", state, specs, regions)


@rule("scan")
def _scan(use: Use) -> list[Value]:
    b, body, length = use.b, use["jaxpr"], use["length"]
    n_carry = use["num_carry"]
    consts, carry, rows = split_list(use.operands, use["num_consts"], n_carry)
    made = [b.splat(0, a.shape, a.dtype) for a in use.outs[n_carry:]]

    def at(i: Value, x: Value) -> list[Value]:
        return [i, *[b.splat(0, (), I32)] * (len(x.shape) - 1)]

    def step(vs: list[Value]) -> list[Value]:
        i, inner, built = vs[0], vs[1:1 + n_carry], vs[1 + n_carry:]
        place = (b.number(length, I32) - 1) - i if use["reverse"] else i
        cut = []
        for x in rows:
            one = (1, *x.shape[1:])
            cut.append(b.reshape(use.w.rows(x, at(place, x), one), one[1:]))
        results = use.w.program(body, [*consts, *inner, *cut])
        new = [b.one("dynamic_update_slice",
                     [buffer, b.reshape(y, (1, *y.shape)), *at(place, buffer)], buffer.shape,
                     buffer.dtype) for buffer, y in zip(built, results[n_carry:])]
        return [i + 1, *results[:n_carry], *new]

    state = [b.splat(0, (), I32), *carry, *made]
    if isinstance(length, int) and length == 0:
        return state[1:]
    return _looped(use.w, state, lambda vs: vs[0] < b.number(length, I32), step)[1:]
