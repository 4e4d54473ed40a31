"""Numbers of fewer bits than hardware computes in: Programs over bytes, before they are emitted.

An element of int4, float8_e4m3 and so on is a byte, its carrier: int8 or uint8, in range.  What
moves elements moves carriers; what computes takes integers as carriers, and wraps its results to
their width, floats in float32, and rounds its results.  Callbacks and others' kernels get the
dtypes themselves, whose bytes have 0 where they need no bits.  So rules and kernels see no such
dtype but in `same_byte` and conversions of small floats (lowering/math/convert).
Start reading at `narrowed`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.primitive import Primitive, registry
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Dtype, Params

I8, U8, F32 = np.dtype("i1"), np.dtype("u1"), np.dtype("f4")

# The same bytes as another dtype of one byte.
same_byte_p = Primitive("same_byte", moves=True, memory="view", client=True)


def _same_abstract(x: ShapedArray, *, new_dtype: Dtype) -> ShapedArray:
    return x.update(dtype=new_dtype)


same_byte_p.abstract = _same_abstract

MOVES = frozenset((
    "all_gather", "all_gather_reduced", "all_to_all", "message_exchange", "message_gather",
    "message_permute", "message_scatter", "message_shift", "ppermute", "select_n"))
EXTREMA = frozenset((
    "reduce_max", "reduce_min", "reduce_window_max", "reduce_window_min"))
KEPT = frozenset((  # they get the dtypes themselves
    "debug_callback", "ffi_call", "io_callback", "nextafter", "pure_callback"))


def carrier(dtype: Any) -> Dtype:
    """The dtype of the bytes that numbers of a dtype are; that itself where it is not small."""
    if not dtypes.is_small(dtype):
        found: Dtype = dtype
        return found
    return I8 if dtypes.is_signed(dtype) else U8


def narrowed(p: Program) -> Program:
    """p, between inputs and outputs of the dtypes that it has, over bytes."""
    return p.derived("narrowed", lambda: over_bytes(p)) if has_small(p) else p


def over_bytes(p: Program) -> Program:
    """The same, made anew and not checked."""
    return _Writer().outermost(p)


def has_small(p: Program) -> bool:
    """Whether a value, at any depth, has such a dtype."""
    return any(map(dtypes.is_small, p.dtypes()))


def _inner(p: Program) -> Program:
    """p with the carriers of its inputs and outputs."""
    return p.derived("carried", lambda: _Writer().inner(p)) if has_small(p) else p


class _Writer:
    """The equations of a Program over bytes; of values of small dtypes the forms that were asked
    for: "own", of their dtype; "bytes", their carriers; "wide", floats in float32."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.forms: dict[tuple[Var, str], Atom] = {}
        self.at: Equation | None = None

    # ---- Programs
    def outermost(self, p: Program) -> Program:
        self.forms.update({(v, "own"): v for v in (*p.const_vars, *p.inputs)})
        self.write(p)
        outputs = [self.own(o) for o in p.outputs]
        return p.replace(equations=self.equations, outputs=outputs)

    def inner(self, p: Program) -> Program:
        inputs = []
        for v in p.inputs:
            small = dtypes.is_small(v.aval.dtype)
            inputs.append(Var(_with(v.aval, carrier(v.aval.dtype))) if small else v)
            self.forms[v, "bytes"] = inputs[-1]
        self.write(p)
        outputs = [self.bytes_of(o) for o in p.outputs]
        return p.replace(inputs=inputs, equations=self.equations, outputs=outputs)

    def write(self, p: Program) -> None:
        for e in p.equations:
            self.at = e
            small = [a for a in (*e.inputs, *e.outputs) if dtypes.is_small(a.aval.dtype)]
            if e.inner and e.name not in KEPT:
                self.bound(e.with_inner(_inner), [self.bytes_of(a) for a in e.inputs], "bytes")
            elif not small:
                self.equations.append(e)
            else:
                self.equation(e)

    # ---- equations
    def equation(self, e: Equation) -> None:
        special = _SPECIAL.get(e.name)
        if special is not None:
            special(self, e)
        elif e.name in KEPT or e.primitive.client:
            self.bound(e.with_inner(narrowed), [self.own(a) for a in e.inputs], "own")
        elif (e.primitive.moves or e.name in MOVES) and any(
                dtypes.is_small(a.aval.dtype) for a in e.inputs):
            self.bound(e, [self.bytes_of(a) for a in e.inputs], "bytes")
        else:
            self.computed(e)

    def bound(self, e: Equation, inputs: Sequence[Atom], form: str) -> None:
        """The equation on other inputs; its results are of a form ("wide": integers in bytes)."""
        outputs = []
        for v in e.outputs:
            dtype = v.aval.dtype
            if not dtypes.is_small(dtype):
                outputs.append(v)
                continue
            wanted = _working(dtype) if form == "wide" else (
                carrier(dtype) if form == "bytes" else dtype)
            outputs.append(Var(_with(v.aval, wanted)))
        working = _working if form == "wide" else carrier
        params = e.params if form == "own" else {
            k: working(v) if isinstance(v, np.dtype) else v for k, v in e.params.items()}
        self.equations.append(e.replace(inputs=tuple(inputs), outputs=tuple(outputs),
                                        params=params))
        if form == "wide":
            for v, made in zip(e.outputs, outputs):
                if dtypes.is_small(v.aval.dtype):
                    self.rounded(v, made, e.name in EXTREMA)
        else:
            self.forms.update({(v, form): made for v, made in zip(e.outputs, outputs)})

    def computed(self, e: Equation) -> None:
        """In working dtypes: integers in their carriers, floats in float32."""
        self.bound(e, [self.worked(a) for a in e.inputs], "wide")

    def rounded(self, v: Var, made: Atom, extremum: bool = False) -> None:
        """v is what was computed in its working dtype, rounded, or wrapped."""
        dtype = v.aval.dtype
        if extremum and dtype.name != "float8_e8m0fnu" and (
                dtypes.is_integer(dtype) or dtypes.is_finite_only(dtype)):
            made = self.clamped(made, dtype)  # of nothing: the ends of the working dtype
        if dtypes.is_integer(dtype):
            self.forms[v, "bytes"] = self.wrapped(made, dtype)
        else:
            self.forms[v, "own"] = self.converted(made, dtype)

    # ---- values
    def own(self, a: Atom) -> Atom:
        """A value in its own dtype: of signed integers the low bits, as ml_dtypes has them."""
        def make() -> Atom:
            x, dtype = self.bytes_of(a), a.aval.dtype
            if dtypes.is_signed(dtype):
                x = self.on("and", x, 2**dtypes.itemsize_bits(dtype) - 1)
            return self.emit(same_byte_p, [x], _with(a.aval, dtype), new_dtype=dtype)
        return self.form(a, "own", make)

    def bytes_of(self, a: Atom) -> Atom:
        """A value as its carriers."""
        dtype = a.aval.dtype

        def make() -> Atom:
            if isinstance(a, Literal):
                kind, value = carrier(dtype), np.asarray(a.value)
                whole = value.astype(kind) if dtypes.is_integer(dtype) else value.view(kind)
                return Literal(whole[()], _with(a.aval, kind))
            made = self.emit(same_byte_p, [self.own(a)], _with(a.aval, carrier(dtype)),
                             new_dtype=carrier(dtype))
            return self.wrapped(made, dtype)
        return self.form(a, "bytes", make)

    def worked(self, a: Atom) -> Atom:
        """A value in the dtype in which it is computed with."""
        if not dtypes.is_float(a.aval.dtype):
            return self.bytes_of(a)

        def make() -> Atom:
            if isinstance(a, Literal):
                return Literal(np.asarray(a.value).astype(F32)[()], _with(a.aval, F32))
            return self.converted(self.own(a), F32)
        return self.form(a, "wide", make)

    def form(self, a: Atom, form: str, make: Any) -> Atom:
        if not dtypes.is_small(a.aval.dtype) or isinstance(a, Literal) and form == "own":
            return a
        if isinstance(a, Literal):
            made: Atom = make()
            return made
        if (a, form) not in self.forms:
            self.forms[a, form] = make()
        return self.forms[a, form]

    # ---- what is emitted
    def emit(self, primitive: Primitive | str, inputs: Sequence[Atom], aval: ShapedArray,
             **params: Any) -> Atom:
        made = Var(aval)
        prim = registry[primitive] if isinstance(primitive, str) else primitive
        where: Params = {} if self.at is None else {
            "source": self.at.source, "scope": self.at.scope}
        self.equations.append(Equation(prim, tuple(inputs), (made,), params, **where))
        return made

    def on(self, primitive: str, x: Atom, *numbers: Any) -> Atom:
        """An elementwise primitive of x and numbers of its dtype."""
        return self.emit(primitive, [x, *[_number(n, x.aval.dtype) for n in numbers]], x.aval)

    def converted(self, x: Atom, dtype: Dtype) -> Atom:
        if x.aval.dtype == dtype:
            return x
        return self.emit("convert_element_type", [x], _with(x.aval, dtype), new_dtype=dtype,
                         weak_type=False, sharding=None)

    def wrapped(self, x: Atom, dtype: Dtype) -> Atom:
        """Bytes with no bits but those of the dtype; of signed integers the sign is repeated."""
        bits = dtypes.itemsize_bits(dtype)
        if bits == 8:
            return x
        if not dtypes.is_signed(dtype):
            return self.on("and", x, 2**bits - 1)
        return self.on("shift_right_arithmetic", self.on("shift_left", x, 8 - bits), 8 - bits)

    def clamped(self, x: Atom, dtype: Dtype) -> Atom:
        """x, between the least and the largest number of a dtype."""
        info: Any = dtypes.iinfo(dtype) if dtypes.is_integer(dtype) else dtypes.finfo(dtype)
        low, high = (_number(float(n) if x.aval.dtype.kind not in "iu" else int(n), x.aval.dtype)
                     for n in (info.min, info.max))
        return self.emit("clamp", [low, x, high], x.aval)

    def pattern(self, a: Atom) -> Atom:
        """The bits of small integers as unsigned numbers, of one byte."""
        x, dtype = self.bytes_of(a), a.aval.dtype
        if x.aval.dtype == I8:
            x = self.emit(same_byte_p, [x], _with(x.aval, U8), new_dtype=U8)
        return self.on("and", x, 2**dtypes.itemsize_bits(dtype) - 1)

    def of_pattern(self, x: Atom, dtype: Dtype) -> Atom:
        """Such bits as carriers of a dtype."""
        if carrier(dtype) == I8:
            x = self.emit(same_byte_p, [x], _with(x.aval, I8), new_dtype=I8)
        return self.wrapped(x, dtype)


def _with(aval: ShapedArray, dtype: Any) -> ShapedArray:
    made: ShapedArray = aval.update(dtype=dtype, weak_type=False)
    return made


def _working(dtype: Any) -> Dtype:
    return F32 if dtypes.is_small(dtype) and dtypes.is_float(dtype) else carrier(dtype)


def _number(n: Any, dtype: Dtype) -> Literal:
    return Literal(np.asarray(n, dtype)[()], ShapedArray((), dtype))


# ---- what depends on how many bits there are
def _convert(w: _Writer, e: Equation) -> None:
    (a,), (v,) = e.inputs, e.outputs
    old, new = a.aval.dtype, v.aval.dtype
    x = w.worked(a)
    if not dtypes.is_small(new):
        w.equations.append(e.replace(inputs=(x,)))
    elif dtypes.is_float(new):
        w.rounded(v, x)
    else:
        if dtypes.is_complex(old):
            x = w.emit("real", [x], _with(a.aval, dtypes.real_dtype(old)))
        if not dtypes.is_integer(old) and old != dtypes.bool_:  # floats saturate, integers wrap
            x = w.clamped(x, new)
        w.rounded(v, w.converted(x, carrier(new)))


def _on_pattern(w: _Writer, e: Equation) -> None:
    """Shifts and counts of the bits that there are."""
    (v,), dtype = e.outputs, e.inputs[0].aval.dtype
    xs = [w.pattern(a) for a in e.inputs]
    made = w.emit(e.primitive, xs, _with(v.aval, U8), **e.params)
    if e.name == "clz":
        made = w.on("sub", made, 8 - dtypes.itemsize_bits(dtype))
    w.forms[v, "bytes"] = w.of_pattern(made, dtype)


def _gather(w: _Writer, e: Equation) -> None:
    """What lies outside is filled with a number of the dtype."""
    fill, dtype = e.params["fill_value"], e.outputs[0].aval.dtype
    if dtypes.is_small(dtype) and fill is not None:
        with np.errstate(all="ignore"):
            number = np.asarray(fill).astype(dtype)
        kind = carrier(dtype)
        given = (number.astype(kind) if kind == I8 else number.view(kind)).item()
        e = e.replace(params={**e.params, "fill_value": given})
    w.bound(e, [w.bytes_of(a) for a in e.inputs], "bytes")


def _bitcast(w: _Writer, e: Equation) -> None:
    """Elements as parts of wider ones, the first in the lowest bits, and the reverse."""
    (a,), (v,) = e.inputs, e.outputs
    old, new = a.aval.dtype, v.aval.dtype
    bits = [dtypes.itemsize_bits(d) for d in (old, new)]
    x = w.pattern(a) if dtypes.is_small(old) else _unsigned(w, a)
    word = x.aval.dtype if bits[0] > bits[1] else np.dtype(f"u{max(1, bits[1] // 8)}")
    if bits[0] > bits[1]:
        shape = v.aval.shape
        x = w.emit("broadcast_in_dim", [x], ShapedArray(shape, word), shape=shape, sharding=None,
                   broadcast_dimensions=tuple(range(len(shape) - 1)))
        x = w.emit("shift_right_logical", [x, _places(w, shape, word, bits[1])], x.aval)
        x = w.on("and", x, 2**bits[1] - 1)
    elif bits[0] < bits[1]:
        x = w.converted(x, word)
        x = w.emit("shift_left", [x, _places(w, a.aval.shape, word, bits[0])], x.aval)
        x = w.emit("reduce_or", [x], ShapedArray(v.aval.shape, word), out_sharding=None,
                   axes=(len(a.aval.shape) - 1,))
    if dtypes.is_small(new):
        w.forms[v, "bytes"] = w.of_pattern(w.converted(x, U8), new)
    elif new == word:
        w.equations.append(Equation(registry["copy"], (x,), (v,), {}))
    else:
        w.equations.append(e.replace(inputs=(x,)))


def _unsigned(w: _Writer, a: Atom) -> Atom:
    """The bits of numbers as unsigned integers of their width."""
    kind = np.dtype(f"u{a.aval.dtype.itemsize}")
    return a if a.aval.dtype == kind else w.emit(
        "bitcast_convert_type", [a], _with(a.aval, kind), new_dtype=kind)


def _places(w: _Writer, shape: tuple[Any, ...], word: Dtype, bits: int) -> Atom:
    """Where each of the parts along the last axis lies in the whole."""
    at = w.emit("iota", [], ShapedArray(shape, word), shape=shape, dtype=word,
                dimension=len(shape) - 1, sharding=None)
    return w.on("mul", at, bits)


_SPECIAL = {
    "bitcast_convert_type": _bitcast, "clz": _on_pattern, "convert_element_type": _convert,
    "gather": _gather, "population_count": _on_pattern, "shift_right_logical": _on_pattern}
