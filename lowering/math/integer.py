"""Division, remainder and shifts of integers, with XLA's answers where C has none."""
from __future__ import annotations

import numpy as np
from calque.lowering.builder import Builder, Value


def _safe_divisor(b: Builder, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """A divisor that cannot trap; where y is 0; where the quotient overflows."""
    zero = y.eq(0)
    if y.dtype.kind == "u":
        return b.select(zero, 1, y), zero, b.splat(False, y.shape, bool)
    overflow = b.binary("and", y.eq(-1), x.eq(np.iinfo(x.dtype).min))
    return b.select(b.binary("or", zero, overflow), 1, y), zero, overflow


def div(b: Builder, x: Value, y: Value) -> Value:
    """x / y towards zero; x / 0 = all ones (-1), and the smallest integer / -1 is itself."""
    safe, zero, _ = _safe_divisor(b, x, y)
    ones = np.iinfo(x.dtype).max if x.dtype.kind == "u" else -1
    return b.select(zero, ones, x / safe)


def rem(b: Builder, x: Value, y: Value) -> Value:
    """x - y trunc(x / y), with the sign of x; x rem 0 = x, the smallest integer rem -1 = 0."""
    safe, zero, _ = _safe_divisor(b, x, y)
    return b.select(zero, x, b.binary("remainder", x, safe))


def _in_width(b: Builder, amount: Value) -> tuple[Value, Value]:
    """True where 0 <= amount < width, and an amount that is always in range."""
    width = 8 * amount.dtype.itemsize
    unsigned = amount.view(np.dtype(f"u{amount.dtype.itemsize}"))
    valid = unsigned < width
    return valid, b.select(valid, amount, 0)


def shift_left(b: Builder, x: Value, amount: Value) -> Value:
    """x << amount; 0 where amount is negative or at least the width."""
    valid, amount = _in_width(b, amount)
    return b.select(valid, b.binary("shift_left", x, amount), 0)


def shift_right_logical(b: Builder, x: Value, amount: Value) -> Value:
    """x >> amount with zero fill; 0 where amount is negative or at least the width."""
    valid, amount = _in_width(b, amount)
    return b.select(valid, b.binary("shift_right_logical", x, amount), 0)


def shift_right_arithmetic(b: Builder, x: Value, amount: Value) -> Value:
    """x >> amount with sign fill; all sign bits where amount is negative or at least the width."""
    valid, _ = _in_width(b, amount)
    amount = b.select(valid, amount, 8 * x.dtype.itemsize - 1)
    return b.binary("shift_right_arithmetic", x, amount)
