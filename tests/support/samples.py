"""Samples for every primitive: operands, parameters, dtypes, where derivatives are smooth.

A Row belongs to one primitive.  Its first sample runs over all dtypes of the row, the others
(rank 0, mixed scalar, size 1, size 0, other parameters) over `Row.main`; `specials` are exact
values (NaN, infinities, -0, extreme integers) and run over all dtypes.  The oracle of a primitive
lies under its name in oracle.py; test_completeness.py says what is missing.
Start reading at `ROWS`; a new primitive is one `row(...)`.
"""
from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

import calque  # noqa: F401  (fills the registry)
from calque.core.avals import ShapedArray
from calque.core.primitive import Primitive, registry
from calque.primitives import elementwise
from calque.primitives import special as special_functions
from calque.transforms.stage import stage
from support.blocks import SIZES as SIZES_OF_KINDS
from support.blocks import random_blocks

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]

BOOL = np.dtype(bool)
SIGNED = tuple(np.dtype(f"i{n}") for n in (1, 2, 4, 8))
UNSIGNED = tuple(np.dtype(f"u{n}") for n in (1, 2, 4, 8))
INTS = SIGNED + UNSIGNED
F16, BF16 = np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)
F32, F64 = np.dtype("f4"), np.dtype("f8")
FLOATS = (F16, BF16, F32, F64)
C64, C128 = np.dtype("c8"), np.dtype("c16")
COMPLEX = (C64, C128)
FLOAT8 = tuple(np.dtype(t) for t in (
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz))
INEXACT = FLOATS + COMPLEX
NUMBER = INTS + INEXACT
REAL = INTS + FLOATS
BITS = (BOOL, *INTS)
ANY = (BOOL, *NUMBER)
SIZES = (16, 64, 1000, 1024)
KEY = "key"  # operands of typed keys: uint64 in NumPy, see oracle.py


@dataclass(frozen=True, slots=True)
class Operand:
    """How to make one operand; dtype None is the dtype under test."""

    shape: tuple[int, ...] = ()
    dtype: Any = None
    low: float | None = None  # None: the row's bounds
    high: float | None = None
    values: Any = None  # exact values instead of random ones (cast to the dtype)


@dataclass(frozen=True, slots=True)
class Sample:
    """One way to call a primitive; params may be a function of the dtype."""

    label: str
    operands: tuple[Operand, ...]
    params: Any = None

    def parameters(self, dtype: Dtype) -> dict[str, Any]:
        p = self.params(dtype) if callable(self.params) else self.params
        return dict(p or {})


@dataclass(frozen=True, slots=True)
class Row:
    """All samples of one primitive."""

    name: str
    dtypes: tuple[Dtype, ...]
    samples: tuple[Sample, ...]
    low: float = -2.0  # where floats are drawn from: inside it all derivatives exist
    high: float = 2.0
    linear: tuple[int, ...] = ()  # operands it is linear in, each alone
    specials: tuple[Sample, ...] = ()
    normwise: bool = False  # errors are measured against the largest result
    fixed: tuple[int, ...] = ()  # operands by which there is no derivative
    hermitian: bool = False  # derivatives hold along Hermitian directions only
    factor: float = 1.0  # on the tolerance of oracle.TOLERANCES
    view: Any = None  # (numpy module, results) -> what is compared of them: signs are free, say

    @property
    def every(self) -> tuple[Sample, ...]:
        """All samples; those that primitives of single elements have at SIZES come last."""
        return *self.samples, *self.specials, *self.at_sizes

    @property
    def at_sizes(self) -> tuple[Sample, ...]:
        """The first sample at SIZES: compilers choose by size."""
        if not registry[self.name].elementwise:
            return ()
        first = self.samples[0]
        return tuple(replace(first, label=f"{n} elements", operands=tuple(
            _of_size(o, n) for o in first.operands)) for n in SIZES)

    @property
    def main(self) -> Dtype:
        return next(d for d in (F32, np.dtype("i4"), np.dtype("u4"), C64, *self.dtypes)
                    if d in self.dtypes)

    def arrays(self, sample: Sample, dtype: Dtype) -> list[Array]:
        """The operands, the same in every run."""
        seed = zlib.crc32(f"{self.name}/{sample.label}/{dtype}".encode())
        rng = np.random.default_rng(seed)
        return [self._array(o, dtype if o.dtype is None else o.dtype, rng)
                for o in sample.operands]

    def _array(self, o: Operand, dtype: Any, rng: Any) -> Array:
        if o.values is not None:
            values = o.values(dtype) if callable(o.values) else o.values
            with np.errstate(all="ignore"):
                return np.asarray(values).astype(dtype)
        if dtype == KEY:
            return np.asarray(rng.integers(0, 2**64, o.shape, np.uint64))
        dtype = np.dtype(dtype)
        low = self.low if o.low is None else o.low
        high = self.high if o.high is None else o.high
        if dtype == BOOL:
            return np.asarray(rng.integers(0, 2, o.shape).astype(bool))
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            if o.low is not None:
                return np.asarray(rng.integers(int(low), int(high), o.shape).astype(dtype))
            large = rng.integers(info.min, info.max, o.shape, dtype, endpoint=True)
            near = rng.integers(max(info.min, -9), 10, o.shape).astype(dtype)
            return np.asarray(np.where(rng.integers(0, 2, o.shape) == 0, large, near))
        x = rng.uniform(low, high, o.shape)
        if dtype.kind == "c":
            return np.asarray((x + 1j * rng.uniform(-1.5, 1.5, o.shape)).astype(dtype))
        return np.asarray(x).astype(dtype)


def _of_size(o: Operand, n: int) -> Operand:
    if o.values is None:
        return replace(o, shape=(n,) if o.shape else ())

    def values(dtype: Any) -> Array:
        own = np.asarray(o.values(dtype) if callable(o.values) else o.values)
        return np.resize(own, n) if own.shape else own
    return replace(o, values=values)


ROWS: dict[str, Row] = {}


def row(name: str, dtypes: Sequence[Dtype], samples: Sequence[Sample], **rest: Any) -> None:
    assert name not in ROWS, name
    ROWS[name] = Row(name, tuple(dtypes), tuple(samples), **rest)


def op(*shape: int, dtype: Any = None, low: Any = None, high: Any = None,
       values: Any = None) -> Operand:
    return Operand(shape, dtype, low, high, values)


def sample(label: str, *operands: Operand, **params: Any) -> Sample:
    return Sample(label, operands, params)


# ---- exact values
def special(dtype: Any) -> Array:
    """NaN, infinities, zeros, ties of rounding, extremes and a few others of a dtype."""
    dtype = np.dtype(dtype)
    if dtype == BOOL:
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [info.max, info.max - 1, info.min, info.min + 1, info.max // 3, 101]
        return np.array([0, 1, 2 if dtype.kind == "u" else -1, 7, *near], dtype)
    real = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 0.3, -7.7])
    if dtype.kind == "c":
        re, im = np.meshgrid(real[[0, 1, 2, 3, 5, 6]], real[[0, 1, 3, 5]])
        out = np.zeros(re.size, np.complex128)
        out.real, out.imag = re.ravel(), im.ravel()
        return out.astype(dtype)
    return real.astype(dtype)


def _pairs(which: int) -> Callable[[Any], Array]:
    def values(dtype: Any) -> Array:
        x = special(dtype)
        i, j = np.meshgrid(np.arange(x.size), np.arange(x.size))
        return x[(i if which == 0 else j).ravel()]
    return values


SPECIAL = (sample("special", op(values=special)),)
SPECIAL_PAIRS = (sample("special", op(values=_pairs(0)), op(values=_pairs(1))),)
UNARY = (sample("normal", op(3, 4)), sample("scalar", op()), sample("one", op(1)),
         sample("empty", op(0, 3)))
BINARY = (sample("normal", op(3, 4), op(3, 4)), sample("right scalar", op(3, 4), op()),
          sample("left scalar", op(), op(3, 4)), sample("scalar", op(), op()),
          sample("one", op(1, 1), op(1, 1)), sample("empty", op(0, 3), op(0, 3)),
          sample("empty, scalar", op(0, 3), op()))


def _with(samples: Sequence[Sample], label: str = "", **params: Any) -> tuple[Sample, ...]:
    return tuple(Sample(s.label + label, s.operands, params) for s in samples)


# ---- elementwise: arithmetic
row("add", NUMBER, BINARY, specials=SPECIAL_PAIRS)
row("sub", NUMBER, BINARY, specials=SPECIAL_PAIRS)
row("mul", NUMBER, BINARY, linear=(0, 1))
# (special values of complex division: tests/lowering/test_math_complex.py)
row("div", NUMBER, BINARY, low=0.5, linear=(0,), specials=(sample(
    "special", op(values=lambda d: 1 if d.kind == "c" else _pairs(0)(d)),
    op(values=lambda d: 1 if d.kind == "c" else _pairs(1)(d))),))
row("neg", NUMBER, UNARY, linear=(0,), specials=SPECIAL)
row("add_any", ANY, BINARY)
row("rem", REAL, BINARY, low=0.6, high=5.0, specials=SPECIAL_PAIRS)
row("max", ANY, BINARY, specials=SPECIAL_PAIRS)
row("min", ANY, BINARY, specials=SPECIAL_PAIRS)
row("integer_pow", NUMBER, (*_with(UNARY, y=3), *_with(UNARY[:1], " **2", y=2),
                            *_with(UNARY[:1], " **7", y=7), *_with(UNARY[:1], " **0", y=0)),
    low=0.5)
row("pow", INEXACT, (*BINARY, sample("integer exponent", op(3, 4), op(3, 4, dtype="i4", low=-3,
                                                                      high=4))), low=0.5)
row("nextafter", FLOATS, BINARY, fixed=(0, 1))
row("square", NUMBER, UNARY)

# ---- elementwise: functions of one variable, with the domain of their derivatives
for _name in ("exp", "exp2", "expm1", "sin", "cos", "sinh", "cosh", "tanh", "asinh", "atan",
              "logistic"):
    row(_name, INEXACT, UNARY)
row("tan", INEXACT, UNARY, low=-1.2, high=1.2)
for _name in ("log", "sqrt", "rsqrt"):
    row(_name, INEXACT, UNARY, low=0.2, high=3.0)
row("log1p", INEXACT, UNARY, low=-0.8, high=3.0)
row("acosh", INEXACT, UNARY, low=1.2, high=3.0)
for _name in ("asin", "acos", "atanh"):
    row(_name, INEXACT, UNARY, low=-0.9, high=0.9)
row("cbrt", FLOATS, UNARY, low=0.2, high=3.0)
row("erf", FLOATS, UNARY)
row("erfc", FLOATS, UNARY)
row("erf_inv", FLOATS, UNARY, low=-0.9, high=0.9)
row("atan2", FLOATS, BINARY)
row("floor", FLOATS, UNARY, specials=SPECIAL)
row("ceil", FLOATS, UNARY, specials=SPECIAL)
row("round", FLOATS, (*_with(UNARY, rounding_method=0), *_with(UNARY, " even", rounding_method=1)),
    specials=(*_with(SPECIAL, rounding_method=0), *_with(SPECIAL, " even", rounding_method=1)))
row("sign", NUMBER, UNARY, specials=SPECIAL)
row("abs", NUMBER, UNARY, specials=SPECIAL)
row("is_finite", FLOATS, UNARY, specials=SPECIAL)

# ---- elementwise: comparison, logic, bits
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    row(_name, ANY, BINARY, specials=SPECIAL_PAIRS)
for _name in ("and", "or", "xor"):
    row(_name, BITS, BINARY)
row("not", BITS, UNARY, specials=SPECIAL)
_SHIFT = (op(3, 4), op(3, 4, low=0, high=8))
_AMOUNTS = sample("special", op(values=_pairs(0)), op(values=lambda d: np.resize(
    [0, 1, 8 * d.itemsize - 1, 8 * d.itemsize, 100, special(d)[6]], special(d).size**2)))
for _name in ("shift_left", "shift_right_arithmetic", "shift_right_logical"):
    row(_name, INTS, (Sample("normal", _SHIFT), *BINARY[1:]), specials=(_AMOUNTS,))
row("population_count", INTS, UNARY, specials=SPECIAL)
row("clz", INTS, UNARY, specials=SPECIAL)

# ---- elementwise: complex parts, conversion, choice
row("real", COMPLEX, UNARY, linear=(0,), specials=SPECIAL)
row("imag", COMPLEX, UNARY, linear=(0,), specials=SPECIAL)
row("complex", (F32, F64), BINARY, linear=(0, 1))
row("conj", (F32, F64, C64, C128), UNARY, linear=(0,))
row("copy", ANY + FLOAT8, UNARY, linear=(0,))
row("stop_gradient", ANY, UNARY)
row("name", ANY, (sample("normal", op(2, 3), name="x"), sample("empty", op(0, 2), name="y")))


def _converts() -> list[Sample]:
    return [Sample(f"to {np.dtype(d).name}", (op(3, 4),),
                   {"new_dtype": d, "weak_type": False, "sharding": None})
            for d in map(np.dtype, (F32, BOOL, "i1", "u1", "i4", "u8", F16, BF16, F64, C64,
                                     ml_dtypes.float8_e5m2))]


CONVERTS = _converts()
row("convert_element_type", ANY + FLOAT8,
    [CONVERTS[0], *[Sample(s.label + " " + str(shape), (op(*shape),), s.params)
                    for s in CONVERTS[:2] for shape in ((), (1,), (0, 3))]],
    linear=(0,), specials=[Sample(s.label, (op(values=special),), s.params) for s in CONVERTS])


def _bits_dtype(d: Dtype) -> dict[str, Any]:
    return {"new_dtype": np.dtype(f"u{d.itemsize}") if d.kind != "u" else np.dtype(
        f"i{d.itemsize}")}


row("bitcast_convert_type", INTS + FLOATS, (
    *[Sample(s.label, s.operands, _bits_dtype) for s in UNARY],
    sample("narrower", op(3, 4, dtype="f4"), new_dtype=np.dtype("u1")),
    sample("wider", op(3, 4, dtype=np.dtype("u1")), new_dtype=np.dtype("f4"))),
    specials=(Sample("special", (op(values=special),), _bits_dtype),))
row("select_n", ANY + FLOAT8, (
    sample("normal", op(3, 4, dtype=BOOL), op(3, 4), op(3, 4)),
    sample("scalar mask", op(dtype=BOOL), op(3, 4), op(3, 4)),
    sample("scalar", op(dtype=BOOL), op(), op()),
    sample("three", op(3, 4, dtype="i4", low=-1, high=4), op(3, 4), op(3, 4), op(3, 4)),
    sample("three, scalar", op(dtype="i4", low=0, high=3), op(3, 4), op(3, 4), op(3, 4)),
    sample("single", op(3, 4, dtype="i4", low=0, high=3), op(3, 4)),
    sample("one", op(1, dtype=BOOL), op(1), op(1)),
    sample("empty", op(0, 3, dtype=BOOL), op(0, 3), op(0, 3))), linear=(1, 2))
row("clamp", REAL, (
    sample("normal", op(3, 4, low=-1, high=0), op(3, 4), op(3, 4, low=1, high=2)),
    sample("scalars", op(low=-1, high=0), op(3, 4), op(low=1, high=2)),
    sample("scalar", op(low=-1, high=0), op(), op(low=1, high=2)),
    sample("one", op(1, low=-1, high=0), op(1), op(1, low=1, high=2)),
    sample("empty", op(low=-1, high=0), op(0, 3), op(low=1, high=2))),
    specials=(sample("special", op(values=0), op(values=special), op(values=1)),
              sample("crossed", op(values=3), op(values=special), op(values=1))))


# ---- reductions
def _reduces(dims: str = "axes", **rest: Any) -> list[Sample]:
    made = [((3, 4), (0,)), ((3, 4), (1,)), ((3, 4, 2), (0, 2)), ((3, 4), (0, 1)), ((1,), (0,)),
            ((3, 4), ()), ((2, 5000), (1,)), ((3, 1, 2), (1,))]
    return [Sample(f"{s} over {a}", (op(*s),), {dims: a, **rest}) for s, a in made]


_EMPTY = [sample("empty", op(0, 3), axes=(0,), out_sharding=None),
          sample("empty, kept", op(0, 3), axes=(1,), out_sharding=None)]
_ALL = {"axes": (0,), "out_sharding": None}
row("reduce_sum", NUMBER, _reduces(out_sharding=None) + _EMPTY, linear=(0,), normwise=True)
row("reduce_prod", NUMBER, _reduces(out_sharding=None) + _EMPTY, low=0.9, high=1.1,
    factor=10.0)  # 5000 factors, each rounded
for _name in ("reduce_max", "reduce_min"):
    row(_name, ANY, _reduces(out_sharding=None) + _EMPTY,
        specials=[Sample("special", (op(values=special),), _ALL),
                  Sample("without NaN", (op(values=lambda d: np.sort(special(d))[:-8 if (
                      d.kind == "c") else -1]),), _ALL)])
for _name in ("reduce_and", "reduce_or", "reduce_xor"):
    row(_name, BITS, _reduces(out_sharding=None) + _EMPTY)


def _args() -> list[Sample]:
    made = [((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 1), ((1,), 0), ((300,), 0)]
    return [Sample(f"{s} over {a}", (op(*s),), {"axes": (a,), "index_dtype": np.dtype("i4")})
            for s, a in made] + [
        sample("i8 index", op(5), axes=(0,), index_dtype=np.dtype("i1")),
        sample("i64 index", op(5), axes=(0,), index_dtype=np.dtype("i8")),
        sample("empty, kept", op(0, 3), axes=(1,), index_dtype=np.dtype("i4"))]


for _name in ("argmax", "argmin"):
    _p = {"axes": (0,), "index_dtype": np.dtype("i4")}
    row(_name, (BOOL, *REAL), _args(), specials=[
        Sample("special", (op(values=special),), _p),
        Sample("ties", (op(values=[1, 3, 3, 0, 0, 1]),), _p),
        Sample("infinities", (op(values=lambda d: [0, 1] if d.kind in "biu" else
                                 [-np.inf, np.inf, np.inf, -np.inf]),), _p),
        Sample("all -inf", (op(values=lambda d: [0] if d.kind in "biu" else [-np.inf] * 3),), _p),
        Sample("all inf", (op(values=lambda d: [1] if d.kind in "biu" else [np.inf] * 3),), _p)])

# ---- shape (they move bits: every dtype)
_MOVED = ANY + FLOAT8
_RESHAPE = {"dimensions": None, "sharding": None}
row("reshape", _MOVED, (
    sample("normal", op(3, 4), new_sizes=(2, 6), **_RESHAPE),
    sample("flat", op(3, 4), new_sizes=(12,), **_RESHAPE),
    sample("scalar", op(1, 1), new_sizes=(), **_RESHAPE),
    sample("from scalar", op(), new_sizes=(1,), **_RESHAPE),
    sample("empty", op(0, 3), new_sizes=(2, 0), **_RESHAPE)), linear=(0,))
row("transpose", _MOVED, (
    sample("normal", op(3, 4), permutation=(1, 0)),
    sample("three axes", op(2, 3, 4), permutation=(2, 0, 1)),
    sample("one", op(1, 1), permutation=(1, 0)), sample("scalar", op(), permutation=()),
    sample("empty", op(0, 3), permutation=(1, 0))), linear=(0,))
row("broadcast_in_dim", _MOVED, (
    sample("normal", op(4), shape=(3, 4), broadcast_dimensions=(1,), sharding=None),
    sample("scalar", op(), shape=(3, 4), broadcast_dimensions=(), sharding=None),
    sample("stretched", op(3, 1), shape=(2, 3, 4), broadcast_dimensions=(1, 2), sharding=None),
    sample("inner", op(3), shape=(3, 4), broadcast_dimensions=(0,), sharding=None),
    sample("to empty", op(1), shape=(0, 3), broadcast_dimensions=(0,), sharding=None),
    sample("empty", op(0), shape=(2, 0), broadcast_dimensions=(1,), sharding=None),
    sample("scalar to scalar", op(), shape=(), broadcast_dimensions=(), sharding=None)),
    linear=(0,))
row("concatenate", _MOVED, (
    sample("normal", op(2, 4), op(3, 4), dimension=0),
    sample("last axis", op(3, 1), op(3, 2), op(3, 4), dimension=1),
    sample("single", op(3), dimension=0), sample("with empty", op(2), op(0), op(1), dimension=0),
    sample("empty", op(0, 3), op(0, 3), dimension=0)), linear=(0,))
row("slice", _MOVED, (
    sample("normal", op(5, 4), start_indices=(1, 0), limit_indices=(4, 3), strides=None),
    sample("strided", op(7, 4), start_indices=(1, 0), limit_indices=(7, 4), strides=(3, 2)),
    sample("exact stride", op(7), start_indices=(0,), limit_indices=(7,), strides=(3,)),
    sample("to empty", op(5), start_indices=(2,), limit_indices=(2,), strides=(2,)),
    sample("one", op(1), start_indices=(0,), limit_indices=(1,), strides=None),
    sample("scalar", op(), start_indices=(), limit_indices=(), strides=None),
    sample("empty", op(0, 3), start_indices=(0, 1), limit_indices=(0, 2), strides=None)),
    linear=(0,))
row("pad", _MOVED, (
    sample("normal", op(3, 4), op(), padding_config=((1, 2, 0), (0, 1, 0))),
    sample("interior", op(3, 4), op(), padding_config=((0, 0, 2), (1, 0, 1))),
    sample("negative", op(5, 4), op(), padding_config=((-1, -2, 0), (-1, 2, 0))),
    sample("interior, negative", op(4), op(), padding_config=((-1, -1, 2),)),
    sample("to empty", op(3), op(), padding_config=((-2, -1, 0),)),
    sample("empty", op(0, 2), op(), padding_config=((2, 1, 3), (0, 0, 0))),
    sample("one", op(1), op(), padding_config=((1, 0, 5),)),
    sample("scalar", op(), op(), padding_config=())), linear=(0, 1))
row("rev", _MOVED, (
    sample("normal", op(3, 4), dimensions=(0,)), sample("both", op(3, 4), dimensions=(0, 1)),
    sample("none", op(3, 4), dimensions=()), sample("one", op(1), dimensions=(0,)),
    sample("empty", op(0, 3), dimensions=(1,))), linear=(0,))
row("squeeze", _MOVED, (
    sample("normal", op(3, 1, 4), dimensions=(1,)),
    sample("two", op(1, 4, 1), dimensions=(0, 2)), sample("scalar", op(1), dimensions=(0,)),
    sample("empty", op(0, 1), dimensions=(1,))), linear=(0,))
row("iota", INTS + FLOATS + COMPLEX, [
    Sample(f"{s} along {a}", (), lambda d, s=s, a=a: {
        "dtype": d, "shape": s, "dimension": a, "sharding": None})
    for s, a in (((3, 4), 0), ((3, 4), 1), ((5,), 0), ((1,), 0), ((0, 3), 1))])

# ---- indexing
_I = {"dtype": "i4", "low": -1, "high": 4}
row("dynamic_slice", _MOVED, (
    sample("normal", op(5, 4), op(**_I), op(**_I), slice_sizes=(2, 3)),
    sample("whole", op(5), op(**_I), slice_sizes=(5,)),
    sample("one", op(1), op(**_I), slice_sizes=(1,)),
    sample("none", op(5), op(**_I), slice_sizes=(0,)),
    sample("unsigned", op(5), op(values=7, dtype="u1"), slice_sizes=(2,)),
    sample("scalar", op(), slice_sizes=()),
    sample("empty", op(0, 3), op(**_I), op(**_I), slice_sizes=(0, 2))), linear=(0,))
row("dynamic_update_slice", _MOVED, (
    sample("normal", op(5, 4), op(2, 3), op(**_I), op(**_I)),
    sample("whole", op(5), op(5), op(**_I)), sample("one", op(1), op(1), op(**_I)),
    sample("element", op(5), op(1), op(**_I)), sample("none", op(5), op(0), op(**_I)),
    sample("scalar", op(), op()),
    sample("empty", op(0, 3), op(0, 2), op(**_I), op(**_I))), linear=(0, 1))


# ---- contraction
def _dot(contract: Any, batch: Any = ((), ()), preferred: Any = None) -> dict[str, Any]:
    return {"dimension_numbers": (contract, batch), "precision": None,
            "preferred_element_type": None if preferred is None else np.dtype(preferred),
            "out_sharding": None}


_PREFERRED = {np.dtype("i1"): "i4", np.dtype("u1"): "u4", F16: "f4", BF16: "f4", F32: "f8",
              np.dtype("i4"): "i8"}
row("dot_general", ANY, (
    Sample("normal", (op(3, 4), op(4, 2)), _dot(((1,), (0,)))),
    Sample("inner", (op(5), op(5)), _dot(((0,), (0,)))),
    Sample("matrix vector", (op(3, 4), op(4)), _dot(((1,), (0,)))),
    Sample("outer", (op(3), op(2)), _dot(((), ()))),
    Sample("batch", (op(2, 3, 4), op(2, 4, 5)), _dot(((2,), (1,)), ((0,), (0,)))),
    Sample("batch inside", (op(3, 2, 4), op(4, 5, 2)), _dot(((2,), (0,)), ((1,), (2,)))),
    Sample("two axes", (op(3, 4, 5), op(5, 2, 4)), _dot(((1, 2), (2, 0)))),
    Sample("scalars", (op(), op()), _dot(((), ()))),
    Sample("one", (op(1, 1), op(1, 1)), _dot(((1,), (0,)))),
    Sample("no terms", (op(3, 0), op(0, 2)), _dot(((1,), (0,)))),
    Sample("empty", (op(0, 4), op(4, 2)), _dot(((1,), (0,))))), linear=(0, 1), normwise=True,
    specials=(Sample("preferred type", (op(3, 4), op(4, 2)), lambda d: _dot(
        ((1,), (0,)), preferred=_PREFERRED.get(d))),
        Sample("large", (op(20, 70), op(70, 30)), _dot(((1,), (0,))))))


def _blocks(kind: str, *shape: int) -> Operand:
    return op(values=lambda d: random_blocks(kind, shape), dtype="u1")


row("dequantize", (np.dtype("u1"),), (
    *[sample(f"{k} {shape}", _blocks(k, *shape), kind=k) for k in SIZES_OF_KINDS
      for shape in ((3, 2), (2, 3, 1), (5,))],
    sample("empty", op(0, 34), kind="q8_0"), sample("no blocks", op(2, 0), kind="q4_k")))
row("quantized_dot", (F32,), (
    *[sample(f"{k} {lead} {n}", op(*lead, blocks * many), _blocks(k, n, blocks), kind=k,
             activations="float32")
      for k, (many, _) in SIZES_OF_KINDS.items()
      for lead, n, blocks in (((1,), 5, 2), ((2, 3), 33, 1), ((), 4, 3), ((18,), 14, 5))],
    sample("empty", op(0, 32), _blocks("q8_0", 4, 1), kind="q8_0", activations="int8"),
    sample("of nothing", op(2, 32), op(0, 34, dtype="u1"), kind="q8_0", activations="int8")),
    linear=(0,), normwise=True, fixed=(1,))
PLAIN = ((0, 1, 2, 3),) * 2
row("prefix_attention", (F32,), (
    *[sample(f"{b} {heads} {kv} {t} {room} {d} {w}", op(b, heads, t, d), op(b, kv, room, d),
             op(b, kv, room, w), op(b, t, dtype="i4", low=-1, high=room + 2), scale=0.25,
             orders=PLAIN)
      for b, heads, kv, t, room, d, w in ((1, 4, 2, 1, 70, 16, 16), (2, 3, 1, 3, 5, 16, 32),
                                          (2, 2, 2, 2, 4, 3, 5))],
    sample("empty", op(0, 2, 1, 16), op(0, 2, 4, 16), op(0, 2, 4, 16), op(0, 1, dtype="i4"),
           scale=1.0, orders=PLAIN),
    sample("as they lie", op(2, 4, 2, 16), op(2, 9, 2, 16), op(2, 2, 9, 16),
           op(2, 2, dtype="i4", low=0, high=9), scale=0.25,
           orders=((0, 2, 1, 3), (0, 1, 2, 3))),
    sample("columns", op(1, 2, 1, 16), op(16, 5, 2, 1), op(1, 2, 5, 16),
           op(1, 1, dtype="i4", low=0, high=5), scale=0.25,
           orders=((3, 2, 1, 0), (0, 1, 2, 3)))), normwise=True, fixed=(3,))


# ---- random
_COUNTS: list[Any] = [((), (5, 3)), ((2,), (3,)), ((), (2, 2)), ((2,), ()), ((), (1,)), ((), (0,)),
                      ((0,), (2,))]
for _name, _params in (("random_bits", [{"bit_width": w} for w in (32, 8, 16, 64)]),
                       ("random_split", [{}])):
    row(_name, (np.dtype("u4"),), [
        Sample(f"{keys} {shape} {'new' if new else 'old'} {p.get('bit_width', '')}",
               (op(*keys, dtype=KEY),), {"shape": shape, "partitionable": new, **p})
        for p in _params for new in (False, True)
        for keys, shape in (_COUNTS if p.get("bit_width", 32) == 32 else _COUNTS[:2])])
row("threefry2x32", (np.dtype("u4"),), [
    sample(str(shape), *[op(*shape) for _ in range(4)]) for shape in ((), (5,), (2, 3), (0,))],
    specials=[sample("all bits", *[op(values=lambda d, i=i: np.roll(
        np.array([0, 1, 2**31, 2**32 - 1, 0x13198A2E], d), i)) for i in range(4)])])
_TWO = tuple(op(5) for _ in range(2))
row("complex_part", (np.dtype("f4"), np.dtype("f8")), [
    *[sample(f"{f} {k}", *_TWO, function=f, part=k) for k in (0, 1)
      for f in ("exp", "log", "sqrt", "tanh", "asinh", "sign")],
    *[sample(f"div {k} {s}", *[op(*s) for _ in range(4)], function="div", part=k)
      for k in (0, 1) for s in ((), (2, 3), (0,))],
    sample("abs", *_TWO, function="abs", part=0)])
row("as_pairs", (np.dtype("f4"), np.dtype("f8"), np.dtype("c8"), np.dtype("c16")), [
    sample(str(shape), op(*shape)) for shape in ((2,), (5, 2), (3, 1, 2), (0, 2))])
row("random_seed", INTS, (sample("scalar", op()), sample("normal", op(3)), sample("empty", op(0))),
    specials=SPECIAL)
row("random_wrap", (np.dtype("u4"),), (sample("normal", op(3, 2)), sample("scalar", op(2))))
row("random_unwrap", (np.dtype("u4"),), (sample("normal", op(3, dtype=KEY)),
                                         sample("scalar", op(dtype=KEY))))
row("random_fold_in", (np.dtype("u4"),), (
    sample("normal", op(3, dtype=KEY), op(3)), sample("scalar", op(dtype=KEY), op()),
    sample("mixed", op(3, dtype=KEY), op())))


# ---- calls and control flow: inner programs of a few equations
def _program(f: Callable[..., Sequence[Any]], *shapes: Any) -> Callable[[Dtype], Any]:
    def make(dtype: Dtype) -> Any:
        avals = [s if isinstance(s, ShapedArray) else ShapedArray(s, dtype) for s in shapes]
        return stage(f, avals, "inner")
    return make


def bind(name: str, /, *xs: Any, **params: Any) -> Any:
    return registry[name].bind(*xs, **params)


_INNER = _program(lambda x, y: [bind("mul", bind("sin", x), y), bind("add", x, x)], (3, 4), (3, 4))
row("jit", INEXACT, (Sample("normal", (op(3, 4), op(3, 4)),
                            lambda d: {"jaxpr": _INNER(d), "name": "inner"}),))


def _branches(size: Any) -> Callable[[Dtype], Any]:
    makers = [_program(lambda x, y: [bind("mul", bind("sin", x), y)], size, size),
              _program(lambda x, y: [x], size, size),
              _program(lambda x, y: [bind("mul", y, bind("mul", y, x))], size, size)]
    return lambda d: {"branches": tuple(m(d) for m in makers)}


row("cond", INEXACT, (
    Sample("normal", (op(values=0, dtype="i4"), op(3, 4), op(3, 4)), _branches((3, 4))),
    Sample("second", (op(values=1, dtype="i4"), op(3, 4), op(3, 4)), _branches((3, 4))),
    Sample("third", (op(values=2, dtype="i4"), op(3, 4), op(3, 4)), _branches((3, 4))),
    Sample("large", (op(values=2, dtype="i4"), op(50, 400), op(50, 400)), _branches((50, 400))),
    Sample("empty", (op(values=2, dtype="i4"), op(0, 4), op(0, 4)), _branches((0, 4)))))


def _loop(length: int, reverse: bool) -> Callable[[Dtype], dict[str, Any]]:
    """Body of (const, carry, x): carry' = carry * x * const + x, y = carry * x."""
    body = _program(lambda k, c, x: [
        bind("add", bind("mul", bind("mul", c, x), k), x), bind("mul", c, x)], (2,), (2,), (2,))
    return lambda d: {"jaxpr": body(d), "length": length, "reverse": reverse, "unroll": 1,
                      "num_consts": 1, "num_carry": 1}


row("scan", INEXACT, [
    Sample(f"{n}{' reversed' if r else ''}", (op(2, low=0.5, high=1), op(2), op(n, 2)),
           _loop(n, r)) for n, r in ((4, False), (4, True), (70, False), (70, True), (1, False),
                                     (0, False))], normwise=True)  # sums that cancel


def _until(shape: tuple[int, ...], each: bool) -> Callable[[Dtype], dict[str, Any]]:
    """(i, x, k) -> (i + 1, x * k + x, k) while i < 3; `each`: i counts for every row of x."""
    n = shape[:1] if each else ()
    avals = [ShapedArray(n, np.dtype("i4")), shape, shape]
    cond = _program(lambda i, x, k: [bind("lt", i, np.int32(3))], *avals)
    body = _program(lambda i, x, k: [
        bind("add", i, np.int32(1)), bind("add", bind("mul", x, k), x), k], *avals)
    return lambda d: {"cond_jaxpr": cond(d), "cond_nconsts": 0, "body_jaxpr": body(d),
                      "body_nconsts": 0}


row("while", INEXACT, (
    Sample("normal", (op(values=0, dtype="i4"), op(2, 3), op(2, 3)), _until((2, 3), False)),
    Sample("never", (op(values=5, dtype="i4"), op(2, 3), op(2, 3)), _until((2, 3), False)),
    Sample("each", (op(values=[2, 7, -1], dtype="i4"), op(3, 2), op(3, 2)), _until((3, 2), True)),
    Sample("empty", (op(values=0, dtype="i4"), op(0, 3), op(0, 3)), _until((0, 3), False))),
    normwise=True)  # sums that cancel


# ---- families with files of their own
from support import (  # noqa: E402,F401
    samples_conv,
    samples_fft,
    samples_gather,
    samples_generator,
    samples_linalg,
    samples_orthogonal,
    samples_sort,
    samples_special,
    samples_window,
)

# Functions of one variable share their rules of batching and differ in one line of their
# derivatives; tests/lowering/test_math_*.py test their values over all dtypes.
FUNCTIONS = [r.name for r in ROWS.values() if r.samples[0] is UNARY[0] and not r.specials
             and r.dtypes in (INEXACT, FLOATS)]

# What maps elements: the primitives of these two modules.
ELEMENTWISE = [n for n, p in registry.items() if any(
    p is v for module in (elementwise, special_functions) for v in vars(module).values()
    if isinstance(v, Primitive))]
