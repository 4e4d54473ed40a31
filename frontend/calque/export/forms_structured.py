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
from calque.core.lists import types_of
from calque.core.program import Program
from calque.export.build import ints, number
from calque.export.forms import BOOL, I32, Outs, extremum, reduced
from calque.export.hlo import Enum
from calque.export.write import Writer, rule
from calque.lowering.builder import Value
from calque.primitives.contract import _common
from calque.primitives.scatter import window_sizes


def _scalars(indices: Sequence[Value]) -> list[Value]:
    """Start indices of one dtype."""
    if len({v.dtype for v in indices}) < 2:
        return list(indices)
    wide = np.dtype("i8") if any(v.dtype.itemsize == 8 for v in indices) else I32
    return [v.astype(wide) for v in indices]


@rule("dynamic_slice")
def _dynamic_slice(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    x, *starts = xs
    if not x.shape:
        return x
    starts, sizes = _scalars(starts), outs[0].shape
    return w.rows(x, starts, sizes)


@rule("dynamic_update_slice")
def _dynamic_update(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    x, update, *starts = xs
    if not x.shape:
        return update
    starts = _scalars(starts)
    starts += [w.b.splat(0, (), starts[0].dtype if starts else I32)] * (
        len(x.shape) - len(starts))
    return w.b.one("dynamic_update_slice", [x, update, *starts], x.shape, x.dtype)


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
            largest = b.splat(min(limit, np.iinfo(indices.dtype).max), (), indices.dtype)
        inside = inside & (column <= largest)
        if indices.dtype.kind == "i":
            inside = inside & (column >= 0)
    return inside


def _clamped(w: Writer, indices: Value, limits: Sequence[int]) -> Value:
    b, info = w.b, np.iinfo(indices.dtype)
    if not limits:
        return indices
    if is_static(limits):
        tops = b.constant(np.minimum(np.array(limits, "i8"), info.max).astype(indices.dtype))
    else:
        tops = b.vector(limits).astype(indices.dtype)
    top = b.broadcast(tops, indices.shape, [len(indices.shape) - 1])
    return b.minimum(b.maximum(indices, b.like(indices, 0)), top)


@rule("gather")
def _gather(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    b, (x, indices), out = w.b, xs, outs[0]
    d, sizes = params["dimension_numbers"], params["slice_sizes"]
    fixed = is_static(sizes)
    found = b.one(
        "gather" if fixed else "dynamic_gather", [x, indices] if fixed else [
            x, indices, b.vector(sizes)], out.shape, out.dtype, offset_dims=ints(d.offset_dims),
        collapsed_slice_dims=ints(d.collapsed_slice_dims), start_index_map=ints(d.start_index_map),
        operand_batching_dims=ints(d.operand_batching_dims),
        start_indices_batching_dims=ints(d.start_indices_batching_dims),
        index_vector_dim=number(len(indices.shape) - 1),
        indices_are_sorted=bool(params["indices_are_sorted"]),
        **({"slice_sizes": ints(sizes)} if fixed else {}))
    if params["mode"].name != "FILL_OR_DROP":
        return found
    inside = _inside(w, indices, [x.shape[a] - sizes[a] for a in d.start_index_map])
    places = [i for i in range(len(out.shape)) if i not in d.offset_dims]
    fill = 0 if params["fill_value"] is None else params["fill_value"]
    return b.select(b.broadcast(inside, out.shape, places), found,
                    b.splat(fill, out.shape, out.dtype))


@rule("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
def _scatter(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    b, (x, indices, updates), d = w.b, xs, params["dimension_numbers"]
    kind = w.equation.primitive.name.removeprefix("scatter").removeprefix("-")
    if params["mode"].name == "CLIP":
        sizes = window_sizes(x.shape, d, updates.shape)
        indices = _clamped(
            w, indices, [x.shape[a] - sizes[a] for a in d.scatter_dims_to_operand_dims])
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
        indices_are_sorted=bool(params["indices_are_sorted"]),
        unique_indices=bool(params["unique_indices"]))[0]


# ---- products
def _precision(params: dict[str, Any]) -> tuple[Enum, Enum]:
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
def _dot(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    b, (x, y), out = w.b, xs, outs[0]
    x, y = _in_common(x, y)
    (xc, yc), (xb, yb) = params["dimension_numbers"]
    dtype = out.dtype
    if x.dtype == BOOL and dtype != BOOL or x.dtype.kind == "c" != dtype.kind:
        dtype = x.dtype if dtype == BOOL else dtype
        x, y = x.astype(dtype), y.astype(dtype)
    made = b.one("dot_general", [x, y], out.shape, dtype, lhs_batching_dimensions=ints(xb),
                 rhs_batching_dimensions=ints(yb), lhs_contracting_dimensions=ints(xc),
                 rhs_contracting_dimensions=ints(yc), precision_config=_precision(params))
    return made if dtype == out.dtype else made.astype(out.dtype)


@rule("conv_general_dilated")
def _conv(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    b, (x, y), dn = w.b, xs, params["dimension_numbers"]
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
        "convolution", [x, y], outs[0].shape, outs[0].dtype,
        window_strides=ints(params["window_strides"]),
        padding=np.array(params["padding"], "i8").reshape(spatial, 2),
        lhs_dilation=ints(params["lhs_dilation"]), rhs_dilation=ints(params["rhs_dilation"]),
        window_reversal=np.zeros(spatial, bool),
        feature_group_count=number(params["feature_group_count"]),
        batch_group_count=number(params["batch_group_count"]),
        precision_config=_precision(params), **places)


@rule("fft")
def _fft(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    (x,), out = xs, outs[0]
    if 0 in x.shape or 0 in out.shape:
        return w.b.splat(0, out.shape, out.dtype)
    return w.b.one("fft", xs, out.shape, out.dtype, fft_length=ints(params["fft_lengths"]),
                   fft_type=Enum("fft_type", params["fft_type"].name))


# ---- windows
def _window(params: dict[str, Any]) -> dict[str, Any]:
    n = len(params["window_dimensions"])
    ones = (1,) * n
    return {"window_dimensions": ints(params["window_dimensions"]),
            "window_strides": ints(params["window_strides"]),
            "base_dilations": ints(params.get("base_dilation", ones)),
            "window_dilations": ints(params.get("window_dilation", ones)),
            "padding": np.array(params["padding"], "i8").reshape(n, 2)}


def _windows(name: str) -> None:
    @rule(f"reduce_window_{name}")
    def emit(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
        b, (x,) = w.b, xs
        start = 0 if name == "sum" else dtypes.extreme(x.dtype, largest=name == "min")

        def body(p: Value, q: Value) -> Value:
            if name == "sum":
                return p | q if x.dtype == BOOL else p + q
            return extremum(b, name, p, q)

        return b.make("reduce_window", [x, b.splat(start, (), x.dtype)],
                      [(outs[0].shape, x.dtype)], [b.region([((), x.dtype)] * 2, body)],
                      **_window(params))[0]


for _name in ("sum", "max", "min"):
    _windows(_name)


def _chosen(w: Writer, t: Value, x: Value, params: dict[str, Any], shape: tuple[int, ...],
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
def _select_and_gather(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    t, x = xs
    return _chosen(w, t, x, params, outs[0].shape, 0)


@rule("select_and_scatter_add")
def _select_and_scatter(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    b, (source, x) = w.b, xs
    if any(n != 1 for k in ("base_dilation", "window_dilation") for n in params.get(k, ())):
        return _scattered(w, source, x, params)
    if source.dtype.kind == "c":
        return b.complex(*[_picked(w, part(source), x, params) for part in (b.real, b.imag)])
    return _picked(w, source, x, params)


def _scattered(w: Writer, source: Value, x: Value, params: dict[str, Any]) -> Value:
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


def _picked(w: Writer, source: Value, x: Value, params: dict[str, Any]) -> Value:
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
    if x.dtype.kind == "V" and x.dtype.itemsize == 1:  # NaN of fnuz types has the bits of -0
        x, y = x.astype(np.float32), y.astype(np.float32)
    kind = "TOTALORDER" if x.dtype.kind in "fV" else ""
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
def _sort(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    return _sorted(w, xs, params["dimension"], params["num_keys"])


@rule("top_k")
def _top_k(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    b, (x,), axis = w.b, xs, params["axis"]
    made = _sorted(w, [x, b.iota(x.shape, I32, axis)], axis, 1, descending=True)
    return [b.slice(v, [0] * len(x.shape), outs[0].shape) for v in made]


# ---- linear algebra that StableHLO has
@rule("cholesky")
def _cholesky(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    b, (x,) = w.b, xs
    made = b.one("cholesky", xs, x.shape, x.dtype, lower=True)
    n = len(x.shape)
    kept = b.compare("GE", b.iota(x.shape, I32, n - 2), b.iota(x.shape, I32, n - 1))
    return b.select(kept, made, b.like(x, 0))


@rule("triangular_solve")
def _triangular(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> Value:
    b, (a, y) = w.b, xs
    transpose, conjugate = params["transpose_a"], params["conjugate_a"]
    if conjugate and not transpose and a.dtype.kind == "c":
        a = b.complex(b.real(a), -b.imag(a))
    kind = ("ADJOINT" if conjugate else "TRANSPOSE") if transpose else "NO_TRANSPOSE"
    return b.one("triangular_solve", [a, y], y.shape, y.dtype, left_side=bool(params["left_side"]),
                 lower=bool(params["lower"]), unit_diagonal=bool(params["unit_diagonal"]),
                 transpose_a=Enum("transpose", kind))


# ---- calls, branches, loops
@rule("jit")
def _jit(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    return w.call(params["jaxpr"], xs, params["name"])


@rule("checkpoint")
def _checkpoint(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    if params.get("differentiated") and params.get("prevent_cse") and xs:
        xs = w.b.optimization_barrier(*xs)
    return w.program(params["jaxpr"], xs)


@rule("optimization_barrier")
def _barrier(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    return w.b.optimization_barrier(*xs)


@rule("custom_linear_solve")
def _linear_solve(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    counts = params["counts"]
    first, end = sum(counts[:2]), sum(counts)
    return w.program(params["solve"], [*xs[first:first + counts[2]], *xs[end:]])


@rule("custom_lin")
def _linear(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    raise TypeError(explain(
        "can't apply forward-mode differentiation (jvp) to a custom_vjp function.",
        where=str(w.equation.source),
        fix="use reverse mode (grad, vjp), or give the function a custom_jvp rule instead."))


@rule("pure_callback", "io_callback", "debug_callback")
def _callback(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    raise NotImplementedError(explain(
        f"{w.equation.primitive.name}: serialization of host_callbacks is not yet implemented.",
        where=str(w.equation.source), fix="export the parts before and after the callback."))


@rule("ffi_call")
def _ffi_call(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    if params["plain"] is not None:
        return w.program(params["plain"], xs)
    raise NotImplementedError(explain(
        f"ffi_call: the kernel {params['kernels'].name!r} is code of one platform and cannot be "
        "exported.", where=str(w.equation.source),
        fix="make an artifact (calque.aot), which holds kernels, or register a function with "
            "platform='default', which is exported instead."))


@rule("cond")
def _cond(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    b, (index, *operands) = w.b, xs
    branches: tuple[Program, ...] = params["branches"]
    if len(branches) == 1:
        return w.program(branches[0], operands)
    regions = [b.region([], lambda p=p: w.program(p, operands)) for p in branches]
    index = b.minimum(b.maximum(index.astype(I32), 0), len(branches) - 1)
    return b.make("case", [index], types_of(outs), regions)


@rule("while")
def _while(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    k, n = params["cond_nconsts"], params["body_nconsts"]
    before, inside, state = xs[:k], xs[k:k + n], xs[k + n:]
    each = bool(params["cond_jaxpr"].out_avals[0].shape)  # one predicate per element of a batch

    def go(vs: list[Value]) -> Value:
        (pred,) = w.program(params["cond_jaxpr"], [*before, *vs])
        if not each:
            return pred
        return reduced(w, [pred], [False], range(len(pred.shape)), lambda p, q: p | q)[0]

    def step(vs: list[Value]) -> list[Value]:
        new = w.program(params["body_jaxpr"], [*inside, *vs])
        if not each:
            return new
        (pred,) = w.program(params["cond_jaxpr"], [*before, *vs])
        return [w.b.select(w.b.broadcast(pred, o.shape, range(len(pred.shape))), v, o)
                for v, o in zip(new, vs)]

    return _looped(w, state, go, step)


def _looped(w: Writer, state: list[Value], go: Any, step: Any) -> list[Value]:
    specs = types_of(state)
    regions = [w.b.region(specs, lambda *vs: go(list(vs))),
               w.b.region(specs, lambda *vs: step(list(vs)))]
    return w.b.make("while", state, specs, regions)


@rule("scan")
def _scan(w: Writer, xs: list[Value], params: dict[str, Any], outs: Outs) -> list[Value]:
    b, body, length = w.b, params["jaxpr"], params["length"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    consts, carry = xs[:n_consts], xs[n_consts:n_consts + n_carry]
    rows = xs[n_consts + n_carry:]
    made = [b.splat(0, a.shape, a.dtype) for a in outs[n_carry:]]

    def at(i: Value, x: Value) -> list[Value]:
        return [i, *[b.splat(0, (), I32)] * (len(x.shape) - 1)]

    def step(vs: list[Value]) -> list[Value]:
        i, inner, built = vs[0], vs[1:1 + n_carry], vs[1 + n_carry:]
        place = (b.number(length, I32) - 1) - i if params["reverse"] else i
        cut = []
        for x in rows:
            one = (1, *x.shape[1:])
            cut.append(b.reshape(w.rows(x, at(place, x), one), one[1:]))
        results = w.program(body, [*consts, *inner, *cut])
        new = [b.one("dynamic_update_slice",
                     [buffer, b.reshape(y, (1, *y.shape)), *at(place, buffer)], buffer.shape,
                     buffer.dtype) for buffer, y in zip(built, results[n_carry:])]
        return [i + 1, *results[:n_carry], *new]

    state = [b.splat(0, (), I32), *carry, *made]
    if isinstance(length, int) and length == 0:
        return state[1:]
    return _looped(w, state, lambda vs: vs[0] < b.number(length, I32), step)[1:]
