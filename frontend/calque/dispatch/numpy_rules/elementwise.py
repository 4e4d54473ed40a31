"""Elementwise primitives by NumPy, where it rounds as our compiled forms do.

IEEE's basic operations, integers that wrap, comparisons, choices and most conversions.  Functions
(exp, sin, pow, ...) are not here: NumPy's differ from ours in the last bits.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from calque.core.dtypes import FLOAT4, SMALL_FLOATS, whole

Value = np.ndarray[Any, Any]
Rule = Callable[..., Any]

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = frozenset(map(np.dtype, (np.float16, BF16, np.float32, np.float64)))
WIDE = frozenset(map(np.dtype, (np.float32, np.float64)))
COMPLEX = frozenset(map(np.dtype, (np.complex64, np.complex128)))
INTEGERS = frozenset(map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")))
BOOL = frozenset([np.dtype(bool)])
REALS = FLOATS | INTEGERS
SIGNED = frozenset(d for d in INTEGERS if d.kind == "i")

RULES: dict[str, Rule] = {}


def _row(name: str, f: Rule, accepts: frozenset[Any]) -> None:
    """Register a NumPy function for operands of some dtypes."""
    def rule(out: Any, *values: Value) -> Any:
        if values[-1].dtype not in accepts:
            return None
        return f(*values)

    RULES[name] = rule


for _name, _f, _accepts in (
        ("add", np.add, REALS | COMPLEX), ("add_any", np.add, REALS | COMPLEX),
        ("sub", np.subtract, REALS | COMPLEX), ("mul", np.multiply, REALS),
        ("neg", np.negative, REALS | COMPLEX),
        ("abs", np.absolute, REALS), ("sign", np.sign, INTEGERS), ("sqrt", np.sqrt, WIDE),
        ("floor", np.floor, FLOATS), ("ceil", np.ceil, FLOATS),
        ("eq", np.equal, REALS | COMPLEX | BOOL), ("ne", np.not_equal, REALS | COMPLEX | BOOL),
        ("lt", np.less, REALS | BOOL), ("le", np.less_equal, REALS | BOOL),
        ("gt", np.greater, REALS | BOOL), ("ge", np.greater_equal, REALS | BOOL),
        ("and", np.bitwise_and, INTEGERS | BOOL), ("or", np.bitwise_or, INTEGERS | BOOL),
        ("xor", np.bitwise_xor, INTEGERS | BOOL), ("not", np.invert, INTEGERS | BOOL),
        ("real", np.real, COMPLEX), ("imag", np.imag, COMPLEX), ("conj", np.conj, COMPLEX),
        ("square", lambda x: x * x, REALS), ("is_finite", np.isfinite, FLOATS),
        # (NumPy shifts by too many places as XLA does, and takes negative counts for too many)
        ("shift_left", np.left_shift, INTEGERS),
        ("shift_right_arithmetic", np.right_shift, SIGNED)):
    _row(_name, _f, _accepts)


def _shift_right_logical(out: Any, x: Value, y: Value) -> Any:
    unsigned = f"u{x.itemsize}"
    if x.dtype not in INTEGERS:
        return None
    return np.right_shift(x.view(unsigned), y.view(unsigned)).view(x.dtype)


def _quotient(out: Any, x: Value, y: Value) -> Any:
    """Towards zero; of 0 all bits set.  Floats as they are."""
    if x.dtype in FLOATS:
        return np.divide(x, y)
    if x.dtype not in INTEGERS:
        return None
    made = np.floor_divide(x if x.dtype.kind == "u" else x - np.fmod(x, y), y)
    zero = y == 0
    return np.where(zero, ~x.dtype.type(0), made) if zero.any() else made


def _remainder(out: Any, x: Value, y: Value) -> Any:
    """With the sign of x; by 0 it is x.  Floats of half the width are left to the compiler."""
    if x.dtype not in WIDE | INTEGERS:
        return None
    made = np.fmod(x, y)
    if x.dtype in INTEGERS and (zero := y == 0).any():
        return np.where(zero, x, made)
    return made


def maximum(x: Any, y: Any) -> Any:
    """The larger; NaN if either is; +0 above -0 (NumPy keeps the first of two zeros)."""
    out = np.maximum(x, y)
    zero = out == 0
    return np.where(zero & (x == y), x + y, out) if out.dtype in FLOATS and zero.any() else out


def minimum(x: Any, y: Any) -> Any:
    """The smaller; NaN if either is; -0 below +0."""
    out = np.minimum(x, y)
    zero = out == 0
    return np.where(zero & (x == y), -(-x - y), out) if out.dtype in FLOATS and zero.any() else out


_row("max", maximum, REALS | BOOL)
_row("min", minimum, REALS | BOOL)
_row("clamp", lambda low, x, high: minimum(maximum(x, low), high), REALS)


def _integer_pow(out: Any, x: Value, *, y: int) -> Any:
    return x * x if y == 2 and x.dtype in REALS else None


def _round(out: Any, x: Value, *, rounding_method: Any) -> Any:
    return np.rint(x) if int(rounding_method) == 1 and x.dtype in WIDE else None


def _complex(out: Any, re: Value, im: Value) -> Any:
    made = np.empty(out.shape, out.dtype)
    made.real, made.imag = re, im
    return made


def _select(out: Any, which: Value, *cases: Value) -> Any:
    if which.dtype == bool:
        if len(cases) == 1:
            return cases[0]
        return np.where(which, cases[1], cases[0])
    return None


def converts(x: Any, to: Any) -> bool:
    """Whether NumPy converts between two dtypes as we do: not where it would round twice."""
    if np.dtype(bool) in (x, to):
        return x not in COMPLEX
    if x in INTEGERS:
        return to in INTEGERS or to in WIDE or to in COMPLEX
    if x in FLOATS:
        return (to in WIDE or to in COMPLEX or x == to or to in INTEGERS
                or (x == np.float32 and to in FLOATS))
    return x in COMPLEX and (to in COMPLEX or to in WIDE)


def _convert(out: Any, x: Value, *, new_dtype: Any, weak_type: bool, sharding: Any = None) -> Any:
    if x.dtype == out.dtype:
        return x
    if x.dtype in SMALL_FLOATS or out.dtype in SMALL_FLOATS:
        return _small(x, out.dtype)
    if not converts(x.dtype, out.dtype):
        return None
    if out.dtype == bool:
        return x != 0
    if x.dtype in FLOATS and out.dtype in INTEGERS:
        return whole(x, out.dtype)
    return (x.real if x.dtype in COMPLEX and out.dtype not in COMPLEX else x).astype(out.dtype)


def _small(x: Value, to: Any) -> Any:
    """To and from floats of a byte, by float32; None where that would be one rounding more."""
    if x.dtype.itemsize > 4 or x.dtype in COMPLEX:
        return None
    wide = x.astype(np.float32)
    if to in FLOAT4:  # it has no NaN: -0
        wide = np.where(np.isnan(wide), np.float32(-0.0), wide)
    return wide.astype(to) if to in SMALL_FLOATS or to == np.float32 else None


def _bitcast(out: Any, x: Value, *, new_dtype: Any) -> Any:
    if x.dtype == bool or out.dtype == bool or not x.size:
        return None
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(out.dtype).reshape(out.shape)


RULES.update(div=_quotient, rem=_remainder, shift_right_logical=_shift_right_logical,
             integer_pow=_integer_pow, round=_round, complex=_complex, select_n=_select,
             convert_element_type=_convert, bitcast_convert_type=_bitcast, copy=lambda out, x: x)
