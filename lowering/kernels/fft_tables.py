"""Plans of discrete Fourier transforms and their tables: plain numbers, made in Python.

`roots` are correctly rounded (all but a few in 10^3, those by less than 0.51 ulp): the angle is
reduced to an eighth of the circle in integers, then long double does the rest.  `radices` says how
a length is split, `padded` in which smooth length the chirp transform of another one runs.
Start reading at `roots`.  Imports NumPy only.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from calque.lowering.emit.dtypes import F64, I64

Array = np.ndarray[Any, Any]

_EIGHTH = np.longdouble("0.785398163397448309615660845819875721")  # pi / 4


def roots(n: int, k: Any) -> tuple[Array, Array]:
    """Real and imaginary parts of exp(-2 pi i k / n) in float64."""
    k = np.asarray(k, I64) % n
    eighth, rest = np.divmod(8 * k, n)
    odd = eighth % 2 == 1
    rest = np.where(odd, n - rest, rest)  # from the nearer axis
    angle = _EIGHTH * rest.astype(np.longdouble) / np.longdouble(n)
    c, s = np.cos(angle).astype(F64), np.sin(angle).astype(F64)
    # e^(i a) at eighth 0..7, from the angle to the nearer axis
    flip = (eighth == 1) | (eighth == 2) | (eighth == 5) | (eighth == 6)
    x, y = np.where(flip, s, c), np.where(flip, c, s)
    left = (eighth >= 2) & (eighth < 6)
    down = eighth >= 4
    return np.where(left, -x, x) + 0.0, np.where(down, y, -y) + 0.0


@functools.cache
def primes(n: int) -> tuple[int, ...]:
    """Prime factors in ascending order."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return (*found, n) if n > 1 else tuple(found)


@functools.cache
def radices(n: int, largest: int) -> tuple[int, ...] | None:
    """Factors of n of at most `largest`, few and alike; None when a prime factor is larger."""
    factors = primes(n)
    if factors and factors[-1] > largest:
        return None
    count = 1
    while largest**count < n:
        count += 1
    while True:
        bins = [1] * count
        for p in reversed(factors):
            best = min(range(count), key=lambda i: bins[i])
            if bins[best] * p > largest:
                break
            bins[best] *= p
        else:
            return tuple(sorted((b for b in bins if b > 1), reverse=True))
        count += 1


@functools.cache
def padded(n: int) -> int:
    """The smallest 2^a 3^b 5^c, with a at least 4 where that is large, of at least n."""
    best, c = 1 << max(n - 1, 1).bit_length(), 1
    while c < best:
        b = c
        while b < best:
            a = b
            while a < n:
                a *= 2
            if a < best and (a % 16 == 0 or n < 256):
                best = a
            b *= 3
        c *= 5
    return best


@functools.lru_cache(maxsize=8)
def chirp(n: int, m: int) -> tuple[Array, Array]:
    """Bluestein's tables: a[j] = exp(-pi i j^2 / n), and the transform of length m of its
    conjugate, laid round the circle, over m (Rabiner, Schafer, Rader 1969)."""
    j = np.arange(n)
    re, im = roots(2 * n, j * j % (2 * n))
    a = re + 1j * im
    around = np.zeros(m, np.complex128)
    around[:n] = a.conj()
    around[m - n + 1:] = a.conj()[1:][::-1]
    return a, np.fft.fft(around) / m


# ---- plans and tables of the C kernel (lowering/native/fft.c)
LARGEST = 61  # its largest prime factor: six bits, and what its registers' spill may cost
TURNED_LANES = 16  # as in fft.c


def is_smooth(n: int) -> bool:
    return primes(n)[-1] <= LARGEST if n > 1 else True


@functools.cache
def passes(n: int) -> tuple[int, ...]:
    """The factors that the kernel takes one after the other: odd primes, then 8, 4 and 2."""
    odd = tuple(p for p in primes(n) if p > 2)
    twos = len(primes(n)) - len(odd)
    eights, rest = divmod(twos, 3)
    if rest == 1 and eights:
        even: tuple[int, ...] = (8,) * (eights - 1) + (4, 4)
    else:
        even = (8,) * eights + ((2,) if rest == 1 else (4,) if rest == 2 else ())
    return odd[::-1] + even


@functools.cache
def halves(n: int) -> tuple[int, int]:
    """n as a product of two factors that are as alike as possible, the larger one first."""
    best = 1
    for p in {1, *_divisors(primes(n))}:
        if p * p <= n and p > best:
            best = p
    return n // best, best


def _divisors(factors: tuple[int, ...]) -> set[int]:
    found = {1}
    for p in factors:
        found |= {d * p for d in found}
    return found


@functools.lru_cache(maxsize=32)
def line_table(n: int, scale: float, columns: int, whole: int) -> Array:
    """The table that fft.c wants for lines of n, as float64; with `columns`, the turns by roots of
    `whole` for so many columns."""
    parts = [np.array([scale, 0.0])]
    left = n
    for r in passes(n):
        m = left // r
        if r % 2:
            parts.append(interleaved(*roots(r, np.arange(r))))
        if m > 1:
            parts.append(interleaved(*roots(left, np.outer(np.arange(m), np.arange(1, r)))))
        left = m
    if columns:
        k = np.arange(n)
        parts.append(np.stack(roots(whole, np.outer(k, np.arange(TURNED_LANES))), 1).ravel())
        starts = np.arange(0, columns, TURNED_LANES)
        parts.append(interleaved(*roots(whole, np.outer(starts, k))))
    return np.concatenate(parts)


@functools.lru_cache(maxsize=32)
def real_table(m: int) -> Array:
    """exp(-pi i k / m) for k <= m / 2, as fft.c wants them."""
    return interleaved(*roots(2 * m, np.arange(m // 2 + 1)))


def interleaved(re: Array, im: Array) -> Array:
    """Complex numbers as they lie in memory."""
    return np.stack([re, im], -1).ravel()


def packed(factors: tuple[int, ...]) -> int:
    """Factors as digits of six bits, the first one lowest."""
    return sum(r << 6 * i for i, r in enumerate(factors))
