"""Derives the polynomials of lowering/math: near-minimax fits by Remez exchange in mpmath.

    python benchmarks/minimax.py            # prints every table with its error

Each fit minimises max |weight(x) (p(x) - f(x))|; the weights make the error relative to the
function that the polynomial is a part of.  The coefficients in lowering/math are such fits, rounded
to the dtype they are used in (another grid moves their last digits, not the errors).
"""
from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np

Real = mp.mpf
Function = Callable[[Real], Real]
mp.mp.dps = 50


def remez(f: Function, low: Real, high: Real, degree: int, weight: Function,
          grid: int = 800, rounds: int = 10) -> tuple[list[Real], Real]:
    """Coefficients, lowest first, and the largest weighted error."""
    low, high, count = mp.mpf(low), mp.mpf(high), degree + 2
    points = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * i / (count - 1))
              for i in reversed(range(count))]
    xs = [low + (high - low) * (1 - mp.cos(mp.pi * i / grid)) / 2 for i in range(grid + 1)]
    fs, ws = [f(x) for x in xs], [weight(x) + mp.mpf(10) ** -12 for x in xs]
    for _ in range(rounds):
        matrix, right = mp.matrix(count, count), mp.matrix(count, 1)
        for i, x in enumerate(points):
            for j in range(degree + 1):
                matrix[i, j] = x**j
            matrix[i, degree + 1] = (-1) ** i / (weight(x) + mp.mpf(10) ** -12)
            right[i] = f(x)
        solution = mp.lu_solve(matrix, right)
        p = [solution[j] for j in range(degree + 1)]
        errors = [w * (mp.polyval(p[::-1], x) - v) for x, v, w in zip(xs, fs, ws, strict=True)]
        worst = max(abs(e) for e in errors)
        points_next = _alternation(xs, errors, count)
        if points_next is None or worst - abs(solution[degree + 1]) < worst / 100:
            break
        points = points_next
    return p, worst


def _alternation(xs: list[Real], errors: list[Real], count: int) -> list[Real] | None:
    """The largest errors of alternating sign, `count` of them; None if there are fewer."""
    extrema: list[tuple[Real, Real]] = []
    for x, e in zip(xs, errors, strict=True):
        if extrema and extrema[-1][1] * e > 0:
            if abs(e) > abs(extrema[-1][1]):
                extrema[-1] = (x, e)
        else:
            extrema.append((x, e))
    while len(extrema) > count:
        extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
    return [x for x, _ in extrema] if len(extrema) == count else None


def in_square(f: Function, at_zero: str) -> Function:
    """g(z) = f(sqrt z), and its limit at 0."""
    return lambda z: f(mp.sqrt(z)) if z > mp.mpf(10) ** -12 else mp.mpf(at_zero)


def erf_inv_ratio(w: Real) -> Real:
    x = mp.sqrt(-mp.expm1(-w))
    return mp.sqrt(mp.pi) / 2 if x < mp.mpf(10) ** -6 else mp.erfinv(x) / x


def erfcx(x: Real) -> Real:
    return mp.erfc(x) * mp.exp(x * x)


def tables() -> list[tuple[str, Function, Real, Real, dict[str, int], Function]]:
    """name, function, interval, degree for each dtype, weight."""
    ln2, root2 = mp.log(2) / 2 * mp.mpf("1.01"), mp.sqrt(2)
    log_end = ((root2 - 1) / (root2 + 1)) ** 2 * mp.mpf("1.01")
    quarter = (mp.pi / 4) ** 2 * mp.mpf("1.005")
    end55 = mp.mpf("0.3026")

    def square(z: Real) -> Real:
        return z

    def erfc_table(k: float, top: int) -> tuple[Function, Real, Real, Function]:
        def scaled(t: Real) -> Real:
            x = k * (1 + t) / (1 - t)
            return (1 + 2 * x) * erfcx(x)
        near = mp.mpf("0.48")
        return scaled, (near - k) / (near + k), mp.mpf(top - k) / (top + k), \
            lambda t: 1 / scaled(t)

    rows = [
        ("EXPM1",
         lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > mp.mpf(10) ** -8 else mp.mpf("0.5"),
         -ln2, ln2, {"f32": 5, "f64": 10}, lambda r: abs(r) + mp.mpf("1e-3")),
        ("LOG", in_square(lambda s: (2 * mp.atanh(s) / s - 2) / s**2, "0.66666666666666666667"),
         0, log_end, {"f32": 3, "f64": 7}, square),
        ("LOG_SHORT", in_square(lambda s: (2 * mp.atanh(s) / s - 2) / s**2,
                                "0.66666666666666666667"), 0, log_end, {"f64": 4}, square),
        ("LOG_TAIL", in_square(lambda s: (3 * mp.atanh(s) / s - 3 - s**2) / s**4, "0.6"),
         0, log_end, {"f32": 2, "f64": 6}, lambda z: z * z),
        ("EXP2_SHORT", lambda r: mp.mpf(2) ** r, mp.mpf("-0.505"), mp.mpf("0.505"), {"f64": 7},
         lambda r: mp.mpf(1)),
        ("SIN", in_square(lambda r: (mp.sin(r) / r - 1) / r**2, "-0.16666666666666666667"),
         0, quarter, {"f32": 2, "f64": 5}, square),
        ("COS", in_square(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4, "0.041666666666666666667"),
         0, quarter, {"f32": 2, "f64": 5}, lambda z: z * z),
        ("ATAN", in_square(lambda t: (mp.atan(t) / t - 1) / t**2, "-0.33333333333333333333"),
         0, end55 * mp.mpf("1.005"), {"f32": 4, "f64": 11}, square),
        ("ASIN", in_square(lambda t: (mp.asin(t) / t - 1) / t**2, "0.16666666666666666667"),
         0, end55, {"f32": 5, "f64": 12}, square),
        ("ERF", in_square(lambda x: mp.erf(x) / x - 1, "0.12837916709551257390"),
         0, mp.mpf("0.8116"), {"f32": 6, "f64": 12}, lambda z: mp.mpf(1)),
        ("INV_CENTRE", lambda u: erf_inv_ratio(abs(u + mp.mpf("2.5"))), mp.mpf("-2.5"),
         mp.mpf("2.5"), {"f64": 9}, lambda u: mp.mpf(1)),
        ("INV_MIDDLE", lambda u: erf_inv_ratio((u + 3) ** 2), mp.sqrt(5) - 3, mp.sqrt(17) - 3,
         {"f64": 9}, lambda u: mp.mpf(1)),
        ("INV_FAR", lambda u: erf_inv_ratio((u + 4) ** 2), mp.sqrt(5) - 4, mp.sqrt(38) - 4,
         {"f64": 9}, lambda u: mp.mpf(1)),
    ]
    for dtype, k, top, degree in (("f32", 2.0, 11, 11), ("f64", 3.75, 28, 24)):
        f, low, high, weight = erfc_table(k, top)
        rows.append((f"ERFC (k = {k})", f, low, high, {dtype: degree}, weight))
    return rows


def main() -> None:
    for name, f, low, high, degrees, weight in tables():
        for dtype, degree in degrees.items():
            p, error = remez(f, low, high, degree, weight, grid=300 if "INV" in name else 800)
            round_to = np.float32 if dtype == "f32" else np.float64
            values = ", ".join(repr(float(round_to(float(c)))) for c in reversed(p))
            print(f"{name} {dtype}: error 2^{float(mp.log(error, 2)):.1f}\n    ({values})")


if __name__ == "__main__":
    main()
