"""Writes the tables of docs/special_functions.md: the worst error of each function against mpmath,
of random arguments and over decades (special_survey.py).  JAX's columns stay where no JAX is
named, and where parts of names are given, only their rows are measured anew:

    python docs/scripts/special_functions.py [PYTHON THAT HAS JAX, or "-" [PART OF A NAME ...]]
"""
from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import special_exact
import special_survey

import calque
from calque.scipy import special

PAGE = pathlib.Path(__file__).parent.parent / "special_functions.md"
START, END = "<!-- table: docs/scripts/special_functions.py -->", "<!-- end of table -->"
DECADES = "<!-- table: docs/scripts/special_survey.py -->"
COUNT = 300


def _range(low: float, high: float, both: bool = False) -> Callable[[Any, int], Any]:
    def made(rng: Any, n: int) -> Any:
        x = np.concatenate([rng.uniform(low, min(high, 10), n // 2),
                            10 ** rng.uniform(np.log10(low), np.log10(high), n - n // 2)])
        return x * np.where(rng.random(n) < 0.5, -1, 1) if both else x
    return made


def _even(low: float, high: float) -> Callable[[Any, int], Any]:
    return lambda rng, n: rng.uniform(low, high, n)


def _whole(low: int, high: int) -> Callable[[Any, int], Any]:
    return lambda rng, n: rng.integers(low, high, n).astype(float)


def _square(low: float, high: float, bottom: float) -> Callable[[Any, int], Any]:
    return lambda rng, n: rng.uniform(low, high, n) + 1j * rng.uniform(bottom, high, n)


def _owens(h: Any, a: Any) -> Any:
    """Beyond |x| = 25 / |h| there is nothing beside the whole at 30 digits."""
    h, end = abs(h), min(abs(a), 25 / abs(h))
    total = mp.quad(lambda x: mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x),
                    mp.linspace(0, end, 12))
    return mp.sign(a) * total / (2 * mp.pi)


def _faddeeva(z: Any) -> Any:
    return mp.exp(-z * z) * mp.erfc(-1j * z)


# name, ours, exact, samples, as words; relative errors, of zeros' surroundings those of 1
ROWS: list[tuple[str, Any, Any, tuple[Any, ...], str]] = [
    ("dawsn", special.dawsn, lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x),
     (_range(1e-8, 20, True),), "1e-8 <= abs(x) <= 20"),
    ("erfcx", special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), (_range(1e-8, 1e6),),
     "1e-8 <= x <= 1e6"),
    ("erfcx", special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), (_even(-9, 0),),
     "-9 <= x <= 0"),
    ("exp1", special.exp1, mp.e1, (_range(1e-8, 80),), "1e-8 <= x <= 80"),
    ("expn", special.expn, mp.expint, (_whole(0, 100), _range(1e-4, 60)),
     "n < 100, 1e-4 <= x <= 60"),
    ("fresnel, S", lambda x: special.fresnel(x)[0], mp.fresnels, (_range(1e-3, 1e4, True),),
     "1e-3 <= abs(x) <= 1e4"),
    ("fresnel, C", lambda x: special.fresnel(x)[1], mp.fresnelc, (_range(1e-3, 1e4, True),),
     "1e-3 <= abs(x) <= 1e4"),
    ("sici, Si", lambda x: special.sici(x)[0], mp.si, (_range(1e-8, 1e4, True),),
     "1e-8 <= abs(x) <= 1e4"),
    ("sici, Ci", lambda x: special.sici(x)[1], mp.ci, (_range(1e-8, 1e4),), "1e-8 <= x <= 1e4"),
    ("spence", special.spence, lambda x: mp.polylog(2, 1 - x).real, (_range(1e-8, 1e4),),
     "1e-8 <= x <= 1e4"),
    ("owens_t", special.owens_t, _owens, (_range(0.01, 8, True), _range(0.01, 100, True)),
     "abs(h) <= 8, abs(a) <= 100"),
    ("comb", special.comb, mp.binomial, (_even(30, 60), _even(0, 30)), "k <= 30 <= N <= 60"),
    ("hyp1f1", special.hyp1f1, mp.hyp1f1, (_even(0, 30), _even(0.1, 30), _even(0, 30)),
     "0 <= a, b, x <= 30"),
    ("hyp1f1", special.hyp1f1, mp.hyp1f1, (_even(0, 5), _even(5, 30), _even(-40, 0)),
     "a <= 5 <= b, -40 <= x <= 0"),
    ("hyp2f1", special.hyp2f1, mp.hyp2f1, (_even(0, 4), _even(0, 4), _even(0.2, 8), _even(0, 1)),
     "a, b <= 4, 0.2 <= c <= 8, 0 <= x <= 1"),
    ("hyp2f1", special.hyp2f1, mp.hyp2f1, (_even(0, 4), _even(0, 4), _even(0.2, 8),
                                           _even(-10, 0)), "as before, -10 <= x <= 0"),
    ("wofz", special.wofz, _faddeeva, (_square(-9, 9, 0),), "abs(Re z) <= 9, 0 <= Im z <= 9"),
    ("wofz", special.wofz, _faddeeva, (_square(-6, 6, -6),), "abs(Re z), abs(Im z) <= 6"),
    ("loggamma", special.loggamma, mp.loggamma, (_square(-12, 12, -12),),
     "abs(Re z), abs(Im z) <= 12")]


def _worst(f: Any, exact: Any, samples: Any, wide: bool) -> tuple[float, float]:
    """The largest error relative to the value, and relative to 1 + |value|, in eps."""
    rng = np.random.default_rng(0)
    columns = [s(rng, COUNT) for s in samples]
    kinds = [("complex128" if wide else "complex64") if c.dtype.kind == "c" else
             ("float64" if wide else "float32") for c in columns]
    columns = [c.astype(k) for c, k in zip(columns, kinds)]
    got = np.asarray(f(*columns))
    eps, worst, mixed = float(np.finfo(got.dtype).eps), 0.0, 0.0
    with mp.workdps(30):
        for value, *row in zip(got, *columns):
            true = exact(*(mp.mpmathify(complex(v) if np.iscomplexobj(v) else float(v))
                           for v in row))
            if not 1e-36 < abs(true) < 1e37:
                continue
            error = float(abs(mp.mpmathify(complex(value)) - true)) / eps
            worst = max(worst, error / float(abs(true)))
            mixed = max(mixed, error / float(1 + abs(true)))
    return worst, mixed


def table() -> str:
    """The rows, as Markdown."""
    lines = ["| function | arguments | float32 | float64 | float32, of 1 + value | float64 |",
             "|---|---|---|---|---|---|"]
    for name, f, exact, samples, words in ROWS:
        narrow, wide = (_worst(f, exact, samples, w) for w in (False, True))
        cells = [f"{v:.1f}" if v < 1e4 else "> 1e4"
                 for v in (narrow[0], wide[0], narrow[1], wide[1])]
        lines.append(f"| `{name}` | {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _replaced(text: str, start: str, made: str) -> str:
    before, rest = text.split(start)
    return f"{before}{start}\n{made}\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    calque.config.update("jax_enable_x64", True)
    text = PAGE.read_text()
    before = text.split(DECADES)[1].split(END)[0]
    pythons, parts = {"calque": sys.executable}, sys.argv[2:]
    if sys.argv[1:2] not in ([], ["-"]):
        pythons["jax"] = sys.argv[1]
    chosen = [f for f in special_exact.FUNCTIONS if not parts or any(p in f.name for p in parts)]
    names = [f.name for f in special_exact.FUNCTIONS]
    text = _replaced(text, DECADES, special_survey.survey(chosen, names, pythons, before))
    PAGE.write_text(text if parts else _replaced(text, START, table()))


if __name__ == "__main__":
    main()
